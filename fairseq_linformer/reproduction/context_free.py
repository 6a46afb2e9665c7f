"""The perplexity that masked language modeling leaves to a model without context.

A masked LM that has learned nothing about context still falls below the unigram entropy H,
because fairseq's masking shows it one true token in ten. A model has learned from context
when its validation loss is below the level computed here; below H is not enough.

Derivation. Let p be the unigram distribution of the text, X ~ p the token to predict, and
S the symbol that the model sees in its place. ``MaskTokensDataset`` draws S as

    <mask>                                   with probability m = 1 - r - u   (0.8)
    uniform over R, the entries after        with probability r               (0.1)
        fairseq's special symbols
    X itself                                 with probability u               (0.1)

R includes <mask>, which is an entry like others, and excludes <s>, <pad>, </s> and <unk>.
The best prediction from S alone is the posterior. With c = r / |R|,

    Q(x | <mask>) = p(x)                                    <mask> says nothing about X
    Q(x | s)      = (c [s in R] p(x) + u [x = s] p(s)) / P(s),   s != <mask>
    P(s)          =  c [s in R]      + u p(s)

so a special symbol, which is never drawn at random, is certainly X, and a frequent one almost
certainly. The expected cost when the text follows q, in bits, is

    (m + c) C  +  c sum_{s in R, s != <mask>} sum_x q(x) (-log2 Q(x | s))  +  u sum_x q(x) (-log2 Q(x | x))

where C = sum_x q(x) (-log2 p(x)) is the cost of the unigram. In the inner sum only x = s
differs from (c p(x)) / P(s), which leaves sums over the vocabulary alone. For usual vocabularies
this is about 0.9 H + 0.2 bits.

Position is not context either: the first token of each sample is always <s>, which fairseq
masks like any other and which a model that knows positions predicts at no cost. With samples
of n tokens the level is (n - 1) / n of the above.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ContextFree:
    """Levels of a data set, in bits per token; their perplexities are 2 to that power."""

    unigram_bits: float
    """H: cross entropy of the split under the unigram of the training split."""
    masked_bits: float
    """The least loss that ``masked_lm`` can report for a model without context."""

    @property
    def unigram_perplexity(self) -> float:
        """2 ** H."""
        return 2.0**self.unigram_bits

    @property
    def masked_perplexity(self) -> float:
        """2 ** ``masked_bits``: as fairseq reports perplexity."""
        return 2.0**self.masked_bits


def unigram(counts: np.ndarray, can_occur: np.ndarray) -> np.ndarray:
    """Add-one smoothed unigram distribution.

    Args:
        counts: (V,) how often each entry occurs.
        can_occur: (V,) True for the entries that can occur in text; the others get probability 0.

    Returns:
        (V,) probabilities that add up to 1.
    """
    smoothed = np.where(can_occur, counts + 1.0, 0.0)
    return smoothed / smoothed.sum()


def masked_bits(
    p: np.ndarray,
    q: np.ndarray,
    mask_idx: int,
    num_special: int = 4,
    random_token_prob: float = 0.1,
    leave_unmasked_prob: float = 0.1,
) -> float:
    """Expected loss of the best predictor that sees one symbol; derived at the top of this file.

    Args:
        p: (V,) unigram that the predictor knows, 0 at ``mask_idx``.
        q: (V,) distribution of the text to predict; 0 wherever p is.
        mask_idx: entry of <mask>.
        num_special: number of the first entries, which are never drawn at random.
        random_token_prob: r.
        leave_unmasked_prob: u.

    Returns:
        Bits per predicted token.

    Raises:
        ValueError: q is positive where p is 0, or p is positive at ``mask_idx``.
    """
    if p[mask_idx] > 0 or np.any((q > 0) & (p == 0)):
        raise ValueError("q must be 0 wherever p is 0, and p must be 0 at mask_idx")
    r, u = random_token_prob, leave_unmasked_prob
    drawn = np.arange(len(p)) >= num_special  # R
    c = r / drawn.sum()
    cost_unigram = _expected_bits(q, p)  # C

    seen = c * drawn + u * p  # P(s), s != <mask>
    kept = np.where(seen > 0, (c * drawn * p + u * p) / np.where(seen > 0, seen, 1), 0)  # Q(x | x)
    total = (1 - r - u + c) * cost_unigram
    if u > 0:
        total += u * _expected_bits(q, kept)
    if r > 0:
        s = drawn.copy()
        s[mask_idx] = False
        # sum_x q(x) (-log2 Q(x|s)) as if no x were s; ``correction`` fixes the term x = s.
        others = cost_unigram - np.log2(c / seen[s])
        q_s, p_s = q[s], p[s]
        correction = np.zeros_like(q_s)
        occurs = q_s > 0
        correction[occurs] = q_s[occurs] * np.log2(c * p_s[occurs] / seen[s][occurs] / kept[s][occurs])
        total += c * (others + correction).sum()
    return float(total)


def _expected_bits(q: np.ndarray, p: np.ndarray) -> float:
    """sum_x q(x) (-log2 p(x)) over the x with q(x) > 0."""
    some = q > 0
    return float(-(q[some] * np.log2(p[some])).sum())


def measure(
    data_bin,
    tokens_per_sample: int,
    random_token_prob: float = 0.1,
    leave_unmasked_prob: float = 0.1,
    split: str = "valid",
) -> ContextFree:
    """The levels of a data set written by ``fairseq-preprocess --only-source``.

    Args:
        data_bin: folder with dict.txt and the splits train and valid.
        tokens_per_sample: n, the option of the task ``masked_lm``.
        random_token_prob, leave_unmasked_prob: options of the task.
        split: the split to predict.

    Raises:
        FileNotFoundError: the folder lacks one of these.
    """
    from fairseq.data import Dictionary

    vocabulary = Dictionary.load(str(data_bin) + "/dict.txt")
    special = vocabulary.nspecial
    mask_idx = vocabulary.add_symbol("<mask>")
    train, valid = (_counts(data_bin, name, vocabulary) for name in ("train", split))

    # Of the special symbols, only </s> and <unk> occur in binarized text.
    can_occur = np.arange(len(vocabulary)) >= special
    can_occur[[vocabulary.eos(), vocabulary.unk()]] = True
    can_occur[mask_idx] = False
    p, q = unigram(train, can_occur), valid / valid.sum()
    bits = masked_bits(p, q, mask_idx, special, random_token_prob, leave_unmasked_prob)
    return ContextFree(
        unigram_bits=_expected_bits(q, p), masked_bits=bits * (tokens_per_sample - 1) / tokens_per_sample
    )


def _counts(data_bin, split: str, vocabulary) -> np.ndarray:
    """(V,) how often each entry occurs in a split, without <s>."""
    from fairseq.data import data_utils

    data = data_utils.load_indexed_dataset(f"{data_bin}/{split}", vocabulary)
    if data is None or len(data) == 0:
        raise FileNotFoundError(f"{data_bin} has no split {split!r}, or an empty one")
    counts = np.zeros(len(vocabulary))
    for i in range(len(data)):
        # np.bincount would allocate V numbers per sentence.
        np.add.at(counts, data[i].numpy(), 1)
    return counts
