"""The level of a model without context: by hand, and by simulation through fairseq's masking."""

from math import log2

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, MaskTokensDataset
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from fairseq_linformer.reproduction import context_free


def zipf(size, special=4):
    """Entries special ... special + size - 1 with probability 1/rank, then <mask> with 0."""
    p = np.zeros(special + size + 1)
    p[special:-1] = 1 / np.arange(1, size + 1)
    return p / p.sum()


def entropy(p):
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())


def test_two_words_by_hand():
    # Words a and b, each 1/2. R = {a, b, <mask>}, c = 0.1 / 3 = 1/30.
    # P(a) = 1/30 + 1/20 = 1/12; Q(a | a) = (1/60 + 1/20) / (1/12) = 0.8 and Q(b | a) = 0.2.
    p = np.array([0, 0, 0, 0, 0.5, 0.5, 0])
    expected = (0.8 + 1 / 30) * 1 + 2 / 30 * (-log2(0.8) - log2(0.2)) / 2 + 0.1 * -log2(0.8)
    assert context_free.masked_bits(p, p, mask_idx=6) == pytest.approx(expected, abs=1e-12)


def test_another_text_costs_its_divergence_more():
    p, q = zipf(100), zipf(100)[np.r_[0:4, 103:3:-1, 104]]
    assert context_free.masked_bits(p, q, 104) > context_free.masked_bits(q, q, 104) + 1


def test_fairseqs_masking_simulated():
    # The best guess from the symbol alone costs H(X | S): count what fairseq shows for what.
    vocabulary = Dictionary()
    for i in range(6):
        vocabulary.add_symbol(f"w{i}")
    mask_idx = vocabulary.add_symbol("<mask>")
    p = zipf(6)
    p[vocabulary.eos()] = 0.2
    p /= p.sum()
    generator = np.random.default_rng(0)
    lines = [torch.from_numpy(generator.choice(len(p), 4000, p=p)) for _ in range(50)]
    options = dict(vocab=vocabulary, pad_idx=vocabulary.pad(), mask_idx=mask_idx, mask_prob=0.9, seed=1)
    shown = MaskTokensDataset(lines, **options)
    wanted = MaskTokensDataset(lines, return_masked_tokens=True, **options)
    joint = np.zeros((len(p), len(p)))
    for i in range(len(lines)):
        predicted = wanted[i] != vocabulary.pad()
        np.add.at(joint, (shown[i][predicted].numpy(), wanted[i][predicted].numpy()), 1)
    assert joint.sum() > 150_000
    joint /= joint.sum()
    simulated = entropy(joint) - entropy(joint.sum(axis=1))
    assert context_free.masked_bits(p, p, mask_idx) == pytest.approx(simulated, abs=0.01)


@pytest.fixture
def data_bin(tmp_path):
    """Entries a (4) and b (5); train: 5 a, 3 b, 2 </s>; valid: 2 a, 1 b, 1 </s>."""
    (tmp_path / "dict.txt").write_text("a 1\nb 1\n")
    for split, lines in (("train", [[4, 4, 4, 5, 2], [4, 4, 5, 5, 2]]), ("valid", [[4, 4, 5, 2]])):
        builder = MMapIndexedDatasetBuilder(str(tmp_path / f"{split}.bin"), dtype=np.uint16)
        for line in lines:
            builder.add_item(torch.tensor(line))
        builder.finalize(str(tmp_path / f"{split}.idx"))
    return tmp_path


def test_measure_counts_a_data_set(data_bin):
    # Train, one more of each that text can hold, <unk> too: a 6, b 4, </s> 3, <unk> 1 of 14.
    p = np.array([0, 0, 3, 1, 6, 4, 0]) / 14
    q = np.array([0, 0, 1, 0, 2, 1, 0]) / 4
    # Of 4 tokens a sample, <s> costs nothing.
    found = context_free.measure_bits(data_bin, tokens_per_sample=4)
    assert found == pytest.approx(0.75 * context_free.masked_bits(p, q, 6))
