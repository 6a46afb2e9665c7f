"""What the paper claims (Wang et al. 2020, arXiv:2006.04768), and what this project does: each with its experiment and the rule of
its verdict. Where something was known when a rule was written, of the same thing or of other sizes, the rule says so. An entry keeps the
rules as they read before its first run, and the report shows those that have changed since (of ``starts`` one that asked less).

A rule is applied to entries of one scale; ``verdict.py`` and ``comparison.py`` have how a verdict is made, and what is too little to tell.
A claim does not say the paper's n and k, which are not those of each scale: ``where`` does.
"""

from dataclasses import dataclass
from typing import Dict, Tuple

from . import judges, paper
from . import judges_of_analysis as analysis
from . import judges_of_finetuning as finetuning
from . import judges_of_training as training
from .judges import Judge
from .judges_of_finetuning import POINT, finetuned
from .judges_of_training import NEARLY, SAME, trained
from .verdict import BELOW_PLATEAU, SEEDS


@dataclass(frozen=True)
class Claim:
    """
    Attributes:
        identifier: unique.
        where: in the paper, with its n and k where it has some; or in this project.
        says: the claim, in a sentence.
        experiment: that tests it, for ``fairseq-linformer reproduce``.
        rule: of the verdict, in words.
        judge: (entries of the ledger, scale) to the verdict.
    """

    identifier: str
    where: str
    says: str
    experiment: str
    rule: str
    judge: Judge


_GROUNDS = f" Not enough evidence with fewer than {SEEDS} seeds, or a RoBERTa less than {BELOW_PLATEAU:g} bits below a model without context."
_RATIO = "the 95 % interval over seeds of the ratio of perplexities"
_KNOWN = " (Written when an earlier measurement was known.)"
_BEFORE = " (Written when earlier entries on the same kind of text, at other sizes, were known.)"
_ORDER = f"Holds if {_RATIO} of each k over the next smaller one is at most 1, k = n included; does not hold if one is above 1." + _GROUNDS + _BEFORE
_PAR = f"Holds if {_RATIO}, k = n / 4 over RoBERTa trained on equally long, is at most {NEARLY:g}; does not hold if it is above." + _GROUNDS + _BEFORE
_LEARNT = (" Not enough evidence if RoBERTa, where it was finetuned from scratch too, has not the higher mean accuracy over all tasks pretrained: then the "
           "comparison is of what labels teach." + _KNOWN)  # fmt: skip
_SEEDS_OF_TABLE_2 = ("any two of their seeds, which are of finetuning alone: each model was pretrained once. Not enough evidence with fewer "
                     f"than {SEEDS} seeds, or where a task or a model is missing and what is there does not fail")  # fmt: skip

_ALL: Tuple[Claim, ...] = (
    Claim("table-1", "Table 1, section 1", "A layer of the Linformer takes time in proportion to n, one of the Transformer to its square.", "table-1",
          f"Time per token as n to a power, over the longer half of the lengths: holds if the power is at most {judges.FLAT} for the Linformer and at least "
          f"{judges.STEEP} for the Transformer; does not hold if it is more for the Linformer; not enough evidence if it is less for the Transformer.",
          judges.table_1),
    Claim("table-1-operations", "Table 1, section 1",
          "The operations of a layer of the Linformer are in proportion to n, those of the Transformer to its square.",
          "operations",
          f"Operations of the matrix products, a token: holds if the Linformer's at the longest n are at most {judges.SAME_COUNT:g} times "
          f"those at the shortest, and the Transformer's grow as n to at least {judges.ALMOST_ALL} over the last doubling; "
          "does not hold if the Linformer's grow more; not enough "
          "evidence if the Transformer's grow less, at lengths where other parts of the layer outweigh attention.", judges.operations),
    Claim("sharing", "Section 4, parameter sharing",
          "At 12 layers and 12 heads headwise, key-value and layerwise sharing leave 24, 12 and 1 distinct matrices.", "parameters",
          "Holds if the model has as many; does not hold if one differs.", judges.matrices),
    Claim("figure-1", "Figure 1 (left), section 3; n = 512", "The singular values of attention have a long tail, in each layer and head.", "figure-1",
          f"Holds if in each head the first quarter of the singular values has at least {analysis.TAIL} of their sum (a "
          f"quarter if all are equal); does not hold if it has less than {analysis.NO_TAIL} in one." + _KNOWN, analysis.figure_1),
    Claim("figure-1-layers", "Figure 1 (right), section 3; n = 512", "The singular values of higher layers are more skewed than those of lower ones.",
          "figure-1",
          "Holds if the first quarter of the singular values has a larger share of their sum in the last layer than in the first one, for each model and text."
          + _KNOWN, analysis.figure_1_layers),
    Claim("theorem-1", "Theorem 1, section 3, and appendix A", "Attention is of low rank: there is a P~ of rank k = Theta(log(n)) with P~ w nearly P w, with high probability.",
          "theorem-1",
          "Judged of the P~ of the proof, P R^T R with a random projection R (the theorem says that there is one; another may do better). Holds if the "
          "measured probability is at least the bound of the proof wherever that is above 0; does not hold if it is less by more than its sampling error anywhere, 95 % by Wilson, of as many trials as heads and draws of the projection; not enough evidence if it is less within that." + _KNOWN,
          analysis.theorem_1),
    Claim("theorem-2", "Theorem 2, section 4, and appendix B",
          "With k the smaller of Theta(9 d log(d) / eps^2) and 5 Theta(log(n) / eps^2) the E and F of the proof make linear attention nearly attention.",
          "theorem-2",
          f"At the theorem's own k with 1 for both Theta, eps = 0.5 and the delta of the proof: holds if for all heads {judges.ALMOST_ALL} of the "
          "rows are within eps of ||P_i|| ||V||_2; does not hold if fewer are for some. (The theorem says that there are such E and F, for which its "
          "proof gives these, and does not say which norm: those of ||P_i|| ||V||_F are told.) Each number says which of the two k is; where it is that of n, a k that does not "
          "depend on n is not what was tested." + _KNOWN, analysis.theorem_2),
    Claim("figure-2", "Figure 2 (top right), section 4", "At a fixed number of tokens the Linformer's time does not depend on n.", "figure-2",
          f"Holds if no round's time per token is more than {judges.FLAT_RATIO} times that of the shortest n; does not hold if every round's is, of one n. "
          f"A Transformer that was timed at the same scale, here or for Table 1, must take more than {judges.FLAT_RATIO} times as long at the longest n, in any "
          "two rounds; it does not hold either if it does so in no two." + _KNOWN, judges.figure_2),
    Claim("figure-3a", "Figure 3 (a), section 5.1; n = 512", "A larger k has a lower validation perplexity.", "figure-3a", _ORDER,
          trained("figure-3a", training.k_orders)),
    Claim("figure-3a-par", "Figure 3 (a), section 5.1; n = 512, k = 128", "k = n / 4 is nearly on par with the Transformer.", "figure-3a", _PAR,
          trained("figure-3a", training.quarter_is_near)),
    Claim("figure-3b", "Figure 3 (b), section 5.1; n = 1,024", "A larger k has a lower validation perplexity.", "figure-3b", _ORDER,
          trained("figure-3b", training.k_orders)),
    Claim("figure-3b-par", "Figure 3 (b), section 5.1; n = 1,024, k = 256", "k = n / 4 is nearly on par with the Transformer.", "figure-3b", _PAR,
          trained("figure-3b", training.quarter_is_near)),
    Claim("figure-3c", "Figure 3 (c), section 5.1; n = 512", "Sharing E and F, even one for all layers, costs almost no perplexity.", "figure-3c",
          f"Holds if {_RATIO} of headwise, key-value and layerwise over none is at most {NEARLY:g}; does not hold if one is above." + _GROUNDS + _BEFORE,
          trained("figure-3c", training.shared_are_near)),
    Claim("figure-3d", "Figure 3 (d), section 5.1; k = 256, n = 512 to 4,096", "At a fixed k the final perplexity is about the same for every n.", "figure-3d",
          f"Holds if {_RATIO} of each n over the shortest is between 1 / {SAME:g} and {SAME:g}; does not hold if one is above or below. The grounds are asked "
          "of a RoBERTa of each n; a perplexity over that of its RoBERTa is told, and is no part of the verdict." + _GROUNDS + _BEFORE,
          trained("figure-3d", training.lengths_are_same)),
    Claim("table-2", "Table 2, section 5.2; n = 512, k = 128", "Finetuned, the Linformer is comparable to RoBERTa.", "table-2",
          f"Holds if on each task the Linformer of k = n / 4, of each sharing that was finetuned, is at most {POINT:g} point of accuracy below RoBERTa; does not hold if "
          f"it is further below on one; by {_SEEDS_OF_TABLE_2}." + _LEARNT, finetuned(finetuning.comparable, learnt=True)),
    Claim("table-2-k", "Table 2, section 5.2; n = 512, k = 256", "At k = n / 2 the Linformer slightly outperforms RoBERTa.", "table-2",
          "Holds if the mean accuracy over all tasks of a Linformer of k = n / 2 with one of the three sharings is above RoBERTa's (the paper's is with "
          f"layerwise sharing, 92.30 to 92.25, and not with the others); does not hold if with none that was finetuned it is; by {_SEEDS_OF_TABLE_2}." + _LEARNT,
          finetuned(finetuning.half_beats_roberta, learnt=True)),
    Claim("table-2-sharing", "Table 2, section 5.2; n = 512, k = 256", "Of the three ways to share E and F, layerwise sharing has the best accuracy.",
          "table-2",
          "Holds if at k = n / 2 its mean accuracy over all tasks is above that of headwise and of key-value sharing (the paper's is at k = 256, and not at "
          f"128); does not hold if no run of it is above any run of one of them; by {_SEEDS_OF_TABLE_2}." + _LEARNT, finetuned(finetuning.layerwise_is_best, learnt=True)),
    Claim("table-2-n", "Table 2, section 5.2; n = 1,024 and 512, k = 256", "Pretrained at twice the n, a Linformer of the same k has similar results.",
          "table-2",
          f"Holds if its mean accuracy over all tasks is within {POINT:g} point of that at n, at k = n / 2, with each sharing that was finetuned at both; does not hold if it is further away; by "
          f"{_SEEDS_OF_TABLE_2}." + _LEARNT, finetuned(finetuning.longer_is_same, learnt=True)),
    Claim("pretraining", "this project: finetune", "What was learnt in pretraining raises the accuracy of each model on each task.", "table-2",
          "Holds if RoBERTa and each Linformer, of those that were finetuned from scratch too, are better on each task pretrained than from scratch; does "
          "not hold if one is not on one task; by "
          f"{_SEEDS_OF_TABLE_2}." + _KNOWN, finetuned(finetuning.pretraining_helps)),
    Claim("table-3-time", "Table 3 (left), section 5.3", "The Linformer is faster than the Transformer, the more so the longer n and the smaller k.", "table-3",
          "Holds if in every cell of the paper that was measured each round of the Linformer is faster than that of a Transformer that materialises its "
          "weights; and if, for each k from the shortest n to the longest, and for each n from the largest k to the smallest, every round of the last saves "
          "more than every one of the first, and no step saves less by more than its rounds differ. Does not hold if no round is faster, in one cell, or if "
          "one step saves less by more than that.", judges.table_3(paper.TABLE_3_TIME, "", "faster", in_order=True)),
    Claim("table-3-memory", "Table 3 (right), section 5.3", "The Linformer takes larger batches than the Transformer, the more so the longer n and the smaller k.", "table-3",
          "Holds if in every cell of the paper that was measured its largest batch is larger; and if it is the more so, for each k from the shortest n to the "
          "longest, and for each n from the largest k to the smallest, with no step down. Does not hold if it is not larger, in one cell, or if a step "
          "goes down." + _KNOWN, judges.table_3(paper.TABLE_3_MEMORY, ", largest batch", "a larger batch,", in_order=True)),
    Claim("scratch", "this project: training from scratch", "From scratch too, a larger k has a lower perplexity, and RoBERTa the lowest.", "scratch",
          f"Holds if {_RATIO} of k = n / 2 over k = n / 4, and of RoBERTa over k = n / 2, is at most 1; does not hold if one is above 1." + _GROUNDS + _BEFORE,
          trained("scratch", training.k_and_roberta_order)),
    Claim("warm-start", "this project: convert from-roberta",
          "With as many updates in all, a converted RoBERTa has a lower perplexity than a Linformer from scratch.",
          "warm-start", f"Holds if {_RATIO}, converted over from scratch, is at most 1; does not hold if it is above 1." + _GROUNDS + _BEFORE,
          trained("warm-start", training.first_is_best("converted", "from scratch"))),
    Claim("projections", "this project: general projections", "E and F that are learnt have a lower perplexity than pooling and convolution.", "projections",
          f"Holds if {_RATIO} of linear over mean-pool, max-pool and conv is at most 1; does not hold if one is above 1. (Section 4 of the paper names these "
          "kinds, and measures none.)" + _GROUNDS + _BEFORE,
          trained("projections", training.first_is_best("linear", "mean-pool", "max-pool", "conv"))),
    Claim("starts", "this project: how E and F start",
          "Window averages are a better start of E and F than the authors' N(0, 0.02), whether that learns at the rate of this project or at the full one, as "
          "theirs.", "starts",
          f"Holds if {_RATIO} of average over normal, and over normal at the full rate, is at most 1; does not hold if one is above 1." + _GROUNDS + _BEFORE,
          trained("starts", training.average_is_best)),
    Claim("growing", "this project: convert resize",
          "With as many updates in all, a RoBERTa (`roberta`) whose n was doubled again and again has a lower perplexity than one "
          "that grew to the same n at once, or learnt at it from scratch.", "growing",
          f"Holds if {_RATIO} of roberta over at once and over from scratch is at most 1; does not hold if one is above 1." + _GROUNDS,
          trained("growing", training.first_is_best("roberta", "at once", "from scratch"))),
)  # fmt: skip

CLAIMS: Dict[str, Claim] = {claim.identifier: claim for claim in _ALL}

ELSEWHERE = {"figure-1": "scripts/analysis.sh"}
"""Experiments that a script measures, in pieces that go on, and ``fairseq-linformer reproduce`` does not."""
