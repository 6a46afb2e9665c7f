"""Table 3: batches that fit are timed; the bytes of the others are counted."""

from dataclasses import replace

import pytest
import torch

from fairseq_linformer.benchmark import inference
from fairseq_linformer.benchmark.gpus import GIB
from fairseq_linformer.benchmark.inference import InferenceCell, WholeModelCell
from fairseq_linformer.benchmark.memory import NO_MEMORY

from .simulated_gpu import simulate_gpu

pytestmark = pytest.mark.slow

SMALL = dict(tokens=128, layers=2, embed_dim=64, heads=4, vocabulary=100)


def test_largest_batch_fits_and_a_larger_one_does_not():
    """The counted bytes of that batch fit; those of a batch one thousandth larger do not."""
    cell = InferenceCell(64, (16,), memory_gib=0.25, **SMALL)
    results = cell.measure()
    n = results["largest"]["k=16"]
    for batch, fits in ((n, True), (n + max(1, n // 1000), False)):
        assert (results["fixed"]["k=16"] + cell._count_bytes(cell.builders()["k=16"], batch) <= GIB / 4) == fits
    assert results["bytes"]["eager"][1] > results["bytes"]["sdpa"][1] and set(results["seconds"]) == {
        "eager",
        "sdpa",
        "k=16",
    }


def allocate(limit):
    """A GPU's allocator: 1 GiB for a sentence, 10 with eager attention; at most ``limit`` GiB."""

    def peak_bytes_on_gpu(run):
        module, tokens = run.args
        is_eager = getattr(module.layers[0].self_attn, "kind", "") == "eager"
        if (peak := len(tokens) * GIB * (10 if is_eager else 1)) > limit * GIB:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return peak

    return peak_bytes_on_gpu


def test_only_a_model_that_does_not_fit_the_gpu_is_counted_on_the_cpu(monkeypatch):
    """One sentence and two: all fit, eager's two do not, and not even one. Only the last is not timed."""
    counted = []
    monkeypatch.setattr(inference, "MIN_COUNTED_TOKENS", 256)
    monkeypatch.setattr(inference, "forward_peak_bytes", lambda build, call, batch, *_: counted.append(batch) or batch)
    monkeypatch.setattr(
        InferenceCell, "time_rounds", lambda self, runs, warm_up: {name: [1.0] for name in runs if name != "k=8"}
    )
    cell = InferenceCell(256, (8, 16), **{**SMALL, "tokens": 256, "device": "cuda"}, usable_gib=60)
    for limit, usable, batches in ((80, 60, []), (15, 60, [1, 2]), (80, 15, [1, 2]), (5, 60, [1, 2])):
        monkeypatch.setattr(inference, "peak_bytes_on_gpu", allocate(limit))
        counted.clear()
        with simulate_gpu():
            results = replace(cell, usable_gib=usable).measure()
        assert counted == batches and results["counted"] == ["eager"] * bool(batches)
        assert results["bytes"]["eager"] == (batches or [10 * GIB, 20 * GIB])
        assert results["bytes"]["k=16"] == [GIB, 2 * GIB]
        assert set(results["seconds"]) == {"eager", "sdpa", "k=16"} and results["failed"] == {"k=8": NO_MEMORY}


def test_batch_that_does_not_fit_is_not_timed(monkeypatch):
    """If two sentences need too much, one that fits is still timed."""
    monkeypatch.setattr(inference, "MIN_COUNTED_TOKENS", 256)  # one sentence, and two
    cell = InferenceCell(256, (16,), **{**SMALL, "tokens": 256}, rounds=1)
    results = cell.measure()
    one, two = results["bytes"]["eager"]
    fixed = results["fixed"]["eager"]
    for usable, models in ((fixed + (one + two) / 2, {"eager", "sdpa", "k=16"}), (fixed + one / 2, {"sdpa", "k=16"})):
        measured = replace(cell, usable_gib=usable / GIB).measure()
        assert set(measured["seconds"]) == models and set(measured["failed"]) == {"eager", "sdpa", "k=16"} - models
    assert "GiB" in measured["failed"]["eager"]


def test_rejected_values():
    for options, field in (
        (dict(n=0), "n .*0"),
        (dict(tokens=0), "tokens"),
        (dict(dtype="fp8"), "fp8"),
        (dict(warm_up=-1), "warm_up"),
        (dict(memory_gib=float("nan")), "memory_gib"),
        (dict(dimensions=(128,)), "128"),
    ):
        with pytest.raises(ValueError, match=field):
            InferenceCell(**{**SMALL, "n": 64, "dimensions": (16,), **options})
    with pytest.raises(ValueError, match="gpt"):
        WholeModelCell(64, 64, k=16, models=("gpt",))
