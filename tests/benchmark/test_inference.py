"""Cells of Table 3: batches that fit are timed, the others counted."""

from dataclasses import replace

import pytest

from fairseq_linformer.benchmark import inference
from fairseq_linformer.benchmark.inference import Inference, WholeInference
from fairseq_linformer.benchmark.memory import GIB

pytestmark = pytest.mark.slow

SMALL = dict(tokens=128, layers=2, embed_dim=64, heads=4, vocabulary=100)


def test_the_largest_batch_of_a_model():
    """The bytes of that batch, counted, fit; those of one that is a thousandth larger do not."""
    cell = Inference(64, (16,), memory_gib=0.25, **SMALL)
    found = cell.measure()
    n = found["largest"]["k=16"]
    for batch, fits in ((n, True), (n + max(1, n // 1000), False)):
        assert (found["fixed"]["k=16"] + cell._bytes(cell.makers()["k=16"], batch, "cpu") <= GIB / 4) == fits
    assert found["bytes"]["eager"][1] > found["bytes"]["sdpa"][1] and set(found["seconds"]) == {"eager", "sdpa", "k=16"}


def test_a_batch_that_does_not_fit_is_counted_and_not_run(monkeypatch):
    """On a GPU, mocked here: where two sentences need too much, the allocator is not used, and one that fits is still
    run."""
    allocated = []
    monkeypatch.setattr(inference, "MANY_TOKENS", 256)  # one sentence, and two
    cell = Inference(256, (16,), **{**SMALL, "tokens": 256, "device": "cuda"})
    known = {
        "cpu": cell._bytes,
        "cuda": lambda maker, batch, device: allocated.append(maker) or known["cpu"](maker, batch, "cpu"),
    }
    monkeypatch.setattr(Inference, "_bytes", lambda self, maker, batch, device: known[device](maker, batch, device))
    monkeypatch.setattr(Inference, "_seconds", lambda self, bytes_, fixed: ({}, {}))
    found = cell.measure()
    one, two = found["bytes"]["eager"]
    assert found["counted"] == [] and len(allocated) == 6
    between = (found["fixed"]["eager"] + (one + two) / 2) / GIB
    found = replace(cell, usable_gib=between).measure()
    assert found["counted"] == ["eager"] and found["bytes"]["eager"] == [one, two]
    monkeypatch.undo()
    monkeypatch.setattr(inference, "MANY_TOKENS", 256)
    for usable, models in (
        (between, {"eager", "sdpa", "k=16"}),
        ((found["fixed"]["eager"] + one / 2) / GIB, {"sdpa", "k=16"}),
    ):
        measured = replace(cell, device="cpu", usable_gib=usable).measure()
        assert set(measured["seconds"]) == models and set(measured["failed"]) == {"eager", "sdpa", "k=16"} - models
    assert "GiB" in measured["failed"]["eager"]


def test_a_cell_refuses_values_that_cannot_be_measured():
    for options, field in (
        (dict(n=0), "n is 0"),
        (dict(tokens=0), "tokens"),
        (dict(dtype="fp8"), "fp8"),
        (dict(warm_up=-1), "warm_up"),
        (dict(memory_gib=float("nan")), "memory_gib"),
        (dict(dimensions=(128,)), "128"),
    ):
        with pytest.raises(ValueError, match=field):
            Inference(**{**SMALL, "n": 64, "dimensions": (16,), **options})
    with pytest.raises(ValueError, match="gpt"):
        WholeInference(64, 64, k=16, models=("gpt",))
