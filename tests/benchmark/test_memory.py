"""Bytes of a known allocation, and the batch that fits."""

import pytest
import torch
from torch import nn

from fairseq_linformer.benchmark.inference import Inference
from fairseq_linformer.benchmark.memory import bytes_of_forward, largest_batch, peak_bytes


class Allocates(nn.Module):
    """At most 1,000 + 3,000 + 500 numbers at once beside its parameters: the first two are there while the third is
    made."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1000))

    def forward(self, x):
        y = self.weight * 2
        z = torch.cat([y, y, y])
        s = z[:500] + 1
        del z, y
        return s + 1


def test_a_known_allocation():
    module, x = Allocates(), torch.zeros(77)
    with torch.no_grad():
        assert peak_bytes(lambda: module(x), module, [x]) == 4 * 4500
    w = nn.Linear(1000, 1000, bias=False)  # backward keeps x, and makes a gradient of the weight before it is added
    w.weight.grad = torch.zeros_like(w.weight)
    x = torch.ones(4, 1000)
    assert peak_bytes(lambda: w(x).sum().backward(), w, [x]) == pytest.approx(4 * (4000 + 1_000_000), rel=0.01)


def test_tensors_without_memory_count_as_those_with():
    cell = Inference(64, (16,), tokens=128, layers=2, embed_dim=64, heads=4, vocabulary=100)
    for maker in cell.makers().values():
        module, tokens = maker().eval(), torch.full((3, 64), 5)
        with torch.no_grad():
            real = peak_bytes(lambda: module(tokens, padded=False), module, [tokens])
        assert bytes_of_forward(maker, lambda m, t: m(t, padded=False), 3, 64) == real > 3 * 64 * 64 * 4
    half = bytes_of_forward(maker, lambda m, t: m(t, padded=False), 3, 64, dtype=torch.bfloat16)
    assert half == pytest.approx(real / 2, rel=0.1)


def test_the_largest_batch():
    # 10 bytes of parameters, 20 for the first sentence, 15 for each more: 3 fit into 65. The same from 2 and 4
    # sentences.
    for sentences, at, at_twice in ((1, 20, 35), (2, 35, 65)):
        assert [largest_batch(memory, 10, sentences, at, at_twice) for memory in (0, 29, 30, 59, 65, 74, 75)] == [
            0,
            0,
            1,
            2,
            3,
            3,
            4,
        ]
    with pytest.raises(ValueError, match="5 bytes .* 5 with twice as many"):
        largest_batch(1, 1, 1, 5, 5)
