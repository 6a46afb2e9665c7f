"""Table 3: batches that fit are timed; the bytes of the others are counted."""

from dataclasses import replace

import pytest

from fairseq_linformer.benchmark import inference
from fairseq_linformer.benchmark.inference import InferenceCell, WholeModelCell
from fairseq_linformer.benchmark.memory import GIB

pytestmark = pytest.mark.slow

SMALL = dict(tokens=128, layers=2, embed_dim=64, heads=4, vocabulary=100)


def test_largest_batch_fits_and_a_larger_one_does_not():
    """The counted bytes of that batch fit; those of a batch one thousandth larger do not."""
    cell = InferenceCell(64, (16,), memory_gib=0.25, **SMALL)
    results = cell.measure()
    n = results["largest"]["k=16"]
    for batch, fits in ((n, True), (n + max(1, n // 1000), False)):
        assert (results["fixed"]["k=16"] + cell._bytes(cell.builders()["k=16"], batch, "cpu") <= GIB / 4) == fits
    assert results["bytes"]["eager"][1] > results["bytes"]["sdpa"][1] and set(results["seconds"]) == {
        "eager",
        "sdpa",
        "k=16",
    }


def test_batch_that_does_not_fit_is_counted_but_not_run(monkeypatch):
    """On a (mocked) GPU: if two sentences need too much, the allocator is not used, and one that fits is still run."""
    allocated = []
    monkeypatch.setattr(inference, "MIN_COUNTED_TOKENS", 256)  # one sentence, and two
    cell = InferenceCell(256, (16,), **{**SMALL, "tokens": 256, "device": "cuda"})
    count = {
        "cpu": cell._bytes,
        "cuda": lambda maker, batch, device: allocated.append(maker) or count["cpu"](maker, batch, "cpu"),
    }
    monkeypatch.setattr(InferenceCell, "_bytes", lambda self, maker, batch, device: count[device](maker, batch, device))
    monkeypatch.setattr(InferenceCell, "_seconds", lambda self, bytes_, fixed: ({}, {}))
    results = cell.measure()
    one, two = results["bytes"]["eager"]
    assert results["counted"] == [] and len(allocated) == 6
    between = (results["fixed"]["eager"] + (one + two) / 2) / GIB
    results = replace(cell, usable_gib=between).measure()
    assert results["counted"] == ["eager"] and results["bytes"]["eager"] == [one, two]
    monkeypatch.undo()
    monkeypatch.setattr(inference, "MIN_COUNTED_TOKENS", 256)
    for usable, models in (
        (between, {"eager", "sdpa", "k=16"}),
        ((results["fixed"]["eager"] + one / 2) / GIB, {"sdpa", "k=16"}),
    ):
        measured = replace(cell, device="cpu", usable_gib=usable).measure()
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
