"""The perplexity that masked language modeling leaves to a model without context.

A masked LM that has learned nothing about context still falls below the unigram entropy H,
because fairseq's masking shows it one true token in ten. A model has learned from context
when its validation loss is below the level computed here; below H is not enough.

Derivation. Let p be the unigram distribution of the text, X ~ p the token to predict, and
S the symbol that the model sees in its place. ``MaskTokensDataset``, with the probabilities
of every configuration here, draws S as

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
differs from (c p(x)) / P(s), by a factor of (c + u) / c, which leaves sums over the vocabulary
alone. For usual vocabularies this is about 0.9 H + 0.2 bits.

Position is not context either: the first token of each sample is always <s>, which fairseq
masks like any other and which a model that knows positions predicts at no cost. With samples
of n tokens the level is (n - 1) / n of the above.
"""

from pathlib import Path

import numpy as np
from fairseq.data import Dictionary

from ..models.datasets import open_dataset

RANDOM, UNMASKED = 0.1, 0.1
"""r and u: fairseq's defaults of ``random_token_prob`` and ``leave_unmasked_prob``."""
NUM_SPECIAL = 4
"""The first entries of a dictionary: <s>, <pad>, </s>, <unk>."""


def masked_bits(p: np.ndarray, q: np.ndarray, mask_idx: int) -> float:
    """Expected loss of the best predictor that sees one symbol; derived at the top of this file.

    Args:
        p: (V,) unigram that the predictor knows, 0 at ``mask_idx``.
        q: (V,) distribution of the text to predict; 0 wherever p is.
        mask_idx: entry of <mask>.

    Returns:
        Bits per predicted token.
    """
    r, u = RANDOM, UNMASKED
    drawn = np.arange(len(p)) >= NUM_SPECIAL  # R
    c = r / drawn.sum()
    unigram = expected_bits(q, p)  # C
    seen = c * drawn + u * p  # P(s), s != <mask>

    s = drawn.copy()
    s[mask_idx] = False
    random = (unigram - np.log2(c / seen[s]) - q[s] * np.log2((c + u) / c)).sum()
    x = q > 0
    unmasked = expected_bits(q[x], (c * drawn[x] + u) * p[x] / seen[x])
    return float((1 - r - u + c) * unigram + c * random + u * unmasked)


def expected_bits(q: np.ndarray, p: np.ndarray) -> float:
    """sum_x q(x) (-log2 p(x)) over the x with q(x) > 0."""
    some = q > 0
    return float(-(q[some] * np.log2(p[some])).sum())


def measure_bits(data_bin: Path, tokens_per_sample: int) -> float:
    """The least loss, in bits per predicted token, that ``masked_lm`` can report for a model without context.

    Args:
        data_bin: folder of ``fairseq-preprocess --only-source``: dict.txt, and the splits train and valid.
        tokens_per_sample: n, the option of the task ``masked_lm``.
    """
    vocabulary = Dictionary.load(str(data_bin / "dict.txt"))
    mask_idx = vocabulary.add_symbol("<mask>")
    train, valid = (_count(data_bin / split, len(vocabulary)) for split in ("train", "valid"))

    # Of the special symbols, only </s> and <unk> occur in binarized text.
    can_occur = np.arange(len(vocabulary)) >= NUM_SPECIAL
    can_occur[[vocabulary.eos(), vocabulary.unk()]] = True
    can_occur[mask_idx] = False
    smoothed = np.where(can_occur, train + 1, 0)
    p, q = smoothed / smoothed.sum(), valid / valid.sum()
    share = (tokens_per_sample - 1) / tokens_per_sample
    return share * masked_bits(p, q, mask_idx)


def _count(split: Path, num_entries: int) -> np.ndarray:
    """(V,) how often each entry occurs in a split, without <s>."""
    data, counts = open_dataset(split), np.zeros(num_entries)
    for i in range(len(data)):
        # np.bincount would allocate V numbers per sentence.
        np.add.at(counts, data[i].numpy(), 1)
    return counts
