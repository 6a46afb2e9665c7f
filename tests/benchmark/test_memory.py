"""Bytes of a known allocation, and the largest batch."""

from functools import partial

import pytest
import torch
from torch import nn

from fairseq_linformer.benchmark.encoders import build_transformer
from fairseq_linformer.benchmark.memory import forward_peak_bytes, largest_batch, peak_bytes, step_peak_bytes
from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinformerEncoder, encoder_layer

CONFIG = LinformerConfig(100, 64, 16, "layerwise", layers=2, embed_dim=64, ffn_embed_dim=256, attention_heads=4)
BUILDERS = {
    "linformer": partial(LinformerEncoder, CONFIG),
    "eager": partial(build_transformer, CONFIG, "eager"),
    "sdpa": partial(build_transformer, CONFIG, "sdpa"),
}


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


class Loss(nn.Module):
    """The sum of a linear map."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1000, 1000, bias=False)

    def forward(self, x):
        return self.linear(x).sum()


def test_peak_of_a_known_allocation():
    module, x = AllocatingModule(), torch.zeros(77)
    with torch.no_grad():
        assert peak_bytes(lambda: module(x), module, [x]) == 4 * 4500
    # backward keeps x, and makes a gradient of the weight before it is added
    module = Loss()
    assert step_peak_bytes(module, [torch.ones(4, 1000)], "cpu") == pytest.approx(4 * (4000 + 1_000_000), rel=0.01)
    assert not any(parameter.numel() for parameter in module.parameters())


def test_peak_on_a_gpu(monkeypatch):
    """Its bytes between the peak of the second run and what was allocated before."""
    allocated, peak = 100, 999

    def reset():
        nonlocal peak
        peak = allocated

    def run():
        nonlocal peak
        peak = max(peak, allocated + 50)

    stand_in = {"memory_allocated": lambda: allocated, "max_memory_allocated": lambda: peak}
    for name, function in {**stand_in, "reset_peak_memory_stats": reset, "synchronize": lambda: None}.items():
        monkeypatch.setattr(torch.cuda, name, function)
    assert peak_bytes(run, nn.Identity(), [], "cuda") == 50


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_fake_tensors_count_like_real_ones(build):
    module, tokens = build().eval(), torch.full((3, 64), 5)
    with torch.no_grad():
        real = peak_bytes(lambda: module(tokens, padded=False), module, [tokens])
    assert forward_peak_bytes(build, 3, 64, torch.float32) == real > 3 * 64 * 64 * 4
    assert forward_peak_bytes(build, 3, 64, torch.bfloat16) == pytest.approx(real / 2, rel=0.1)


@pytest.mark.slow
def test_largest_batch_fits_and_a_larger_one_does_not():
    """One that is a tenth larger. From the second sentence on, some layouts need a copy, so the estimate is low."""
    build, memory = BUILDERS["eager"], 2**28
    most = largest_batch(build, 64, torch.float32, memory)
    fixed = 4 * sum(t.numel() for t in [*build().parameters(), *build().buffers()])
    for batch, fits in ((most, True), (most + most // 10, False)):
        assert (fixed + forward_peak_bytes(build, batch, 64, torch.float32) <= memory) == fits
    assert largest_batch(build, 64, torch.float32, fixed) == 0


def test_the_feed_forward_is_counted_in_one_piece():
    """Of 4,096 positions; a CPU computes chunks of 1,024."""
    module, tokens = BUILDERS["linformer"]().eval(), torch.full((64, 64), 5)
    with torch.no_grad():
        chunked = peak_bytes(lambda: module(tokens, padded=False), module, [tokens])
    assert forward_peak_bytes(BUILDERS["linformer"], 64, 64, torch.float32) > 1.8 * chunked
    assert encoder_layer.CHUNK_ROWS == 1024
