"""Bytes of a known allocation, and the largest batch."""

from functools import partial

import pytest
import torch
from torch import nn

from fairseq_linformer.benchmark.encoders import build_materialized
from fairseq_linformer.benchmark.inference import InferenceCell, compute_features, count_largest_batch
from fairseq_linformer.benchmark.memory import (
    extrapolate_batch_size,
    forward_peak_bytes,
    peak_bytes,
    whole_feed_forward,
)
from fairseq_linformer.modules import LinformerEncoder, encoder_layer

from .simulated_gpu import simulate_gpu


class AllocatingModule(nn.Module):
    """Allocates at most 1,000 + 3,000 + 500 numbers besides its parameters, all at the same time."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1000))

    def forward(self, x):
        y = self.weight * 2
        z = torch.cat([y, y, y])
        s = z[:500] + 1
        del z, y
        return s + 1


def test_peak_of_a_known_allocation():
    module, x = AllocatingModule(), torch.zeros(77)
    with torch.no_grad():
        assert peak_bytes(lambda: module(x), module, [x]) == 4 * 4500
    w = nn.Linear(1000, 1000, bias=False)  # backward keeps x, and makes a gradient of the weight before it is added
    w.weight.grad = torch.zeros_like(w.weight)
    x = torch.ones(4, 1000)
    assert peak_bytes(lambda: w(x).sum().backward(), w, [x]) == pytest.approx(4 * (4000 + 1_000_000), rel=0.01)


@pytest.mark.slow
def test_fake_tensors_count_like_real_ones():
    cell = InferenceCell(64, (16,), tokens=128, layers=2, embed_dim=64, heads=4, vocabulary=100)
    for maker in cell.builders().values():
        module, tokens = maker().eval(), torch.full((3, 64), 5)
        with torch.no_grad():
            real = peak_bytes(lambda: module(tokens, padded=False), module, [tokens])
        assert forward_peak_bytes(maker, lambda m, t: m(t, padded=False), 3, 64) == real > 3 * 64 * 64 * 4
    half = forward_peak_bytes(maker, lambda m, t: m(t, padded=False), 3, 64, dtype=torch.bfloat16)
    assert half == pytest.approx(real / 2, rel=0.1)


def test_largest_batch_is_extrapolated():
    # 10 bytes of parameters, 20 for the first sentence, 15 for each other: 3 fit into 65; likewise from 2 and 4.
    for sentences, at, at_twice in ((1, 20, 35), (2, 35, 65)):
        assert [
            extrapolate_batch_size(memory, 10, sentences, at, at_twice) for memory in (0, 29, 30, 59, 65, 74, 75)
        ] == [0, 0, 1, 2, 3, 3, 4]
    with pytest.raises(ValueError, match="5 bytes, got 5"):
        extrapolate_batch_size(1, 1, 1, 5, 5)


def test_a_feed_forward_in_one_piece():
    """Of 4,096 positions, against chunks of 1,024."""
    cell = InferenceCell(1024, (16,), tokens=4096, layers=1, embed_dim=64, heads=4, vocabulary=100)
    build = cell.builders()["k=16"]
    chunked, whole = (
        forward_peak_bytes(build, compute_features, 4, 1024, chunked=is_chunked) for is_chunked in (True, False)
    )
    assert whole > 1.8 * chunked and encoder_layer.CHUNK_ROWS == 1024
    with pytest.raises(RuntimeError), whole_feed_forward():
        raise RuntimeError
    assert encoder_layer.CHUNK_ROWS == 1024


@pytest.mark.slow
def test_bytes_of_a_gpu_that_does_not_hold_them_are_without_chunks(monkeypatch):
    """As its allocator would count them."""
    options = dict(tokens=4096, layers=1, embed_dim=64, heads=4, vocabulary=100, rounds=1, warm_up=0)
    cpu, gpu = (InferenceCell(4096, (16,), device=device, **options) for device in ("cpu", "cuda"))
    monkeypatch.setattr(InferenceCell, "_allocated_bytes", lambda *arguments: None)
    monkeypatch.setattr(InferenceCell, "time_rounds", lambda self, runs, warm_up: {name: [1.0] for name in runs})
    chunked = cpu.measure()["bytes"]["k=16"]
    with simulate_gpu():
        whole = gpu.measure()["bytes"]["k=16"]
    assert whole[0] > 1.5 * chunked[0]


def test_materialized_weights_are_counted_and_the_output_is_the_same():
    cell = InferenceCell(64, (32,), tokens=64, layers=2, embed_dim=64, heads=4, vocabulary=100)
    torch.manual_seed(1)
    fused = LinformerEncoder(cell.build_config(64, 32)).eval()
    materialized = build_materialized(cell.build_config(64, 32)).eval()
    materialized.load_state_dict(fused.state_dict())
    tokens = torch.randint(5, 100, (2, 64))
    with torch.no_grad():
        torch.testing.assert_close(compute_features(materialized, tokens), compute_features(fused, tokens))
        more = peak_bytes(lambda: materialized(tokens, padded=False), materialized, [tokens])
        less = peak_bytes(lambda: fused(tokens, padded=False), fused, [tokens])
    assert more >= less
    largest, each = count_largest_batch(cell, partial(build_materialized, cell.build_config(64, 32)))
    assert largest == pytest.approx(16 * 2**30 / each, rel=0.01)
