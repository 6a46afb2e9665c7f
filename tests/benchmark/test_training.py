"""Training steps: operations, bytes, and models that do not fit."""

from dataclasses import replace

import pytest
import torch

from fairseq_linformer.benchmark import training
from fairseq_linformer.benchmark.flops import count_flops
from fairseq_linformer.benchmark.training import NUM_SAVED_SCORES, TrainingCell

from .device_syncs import DeviceSyncs

SMALL = dict(k=16, layers=2, embed_dim=64, heads=4, vocabulary=100)


@pytest.mark.parametrize("name", ["ours", "roberta", "transformer-eager"])
@pytest.mark.parametrize("classify", [False, True])
def test_operations_of_a_step_equal_pytorchs(name, classify):
    cell = TrainingCell(64, 2, (name,), positions=64, classify=classify, **{**SMALL, "layers": 3})
    module, inputs = cell._build(name), cell._inputs()
    real = count_flops(lambda: module(*inputs).backward())
    # They differ by RoBERTa's head of a classifier, and E's gradient in the first layer.
    assert cell.step_operations(name) == pytest.approx(real, rel=0.03)


def test_memory_is_freed_after_counting_bytes(monkeypatch):
    """The memory tracker's hooks keep the module; without this a run of many cells at base size ran out of memory."""
    cell, built = TrainingCell(64, 2, ("ours-modules",), positions=64, **SMALL, memory=True), []
    build = TrainingCell._build
    monkeypatch.setattr(TrainingCell, "_build", lambda self, name: built.append(build(self, name)) or built[-1])
    assert cell.measure()["bytes"]["ours-modules"] > 0
    assert sum(p.untyped_storage().nbytes() for p in built[-1].parameters()) == 0 and all(
        p.grad is None for p in built[-1].parameters()
    )


@pytest.mark.parametrize(
    "memory, transformer",
    [(True, "roberta"), (False, "roberta"), (False, "transformer-eager"), (False, "transformer-sdpa")],
)
def test_transformer_that_does_not_fit_is_skipped(memory, transformer, monkeypatch):
    cell = TrainingCell(64, 2, ("ours", transformer), positions=64, **SMALL, memory=memory, rounds=1)
    weights = NUM_SAVED_SCORES * 2 * 4 * 2 * 64**2 * 4
    for free, failed in ((weights - 1, {transformer}), (weights, set())):
        monkeypatch.setattr(training, "free_memory", lambda: free)
        results = cell.measure()
        assert (
            set(results["failed"]) == failed
            and set(results["bytes" if memory else "seconds"]) == set(cell.models) - failed
        )
        assert not failed or "GiB" in results["failed"][transformer]


@pytest.mark.slow
@pytest.mark.parametrize("memory", [False, True])
def test_fixed_length_model_that_does_not_fit_is_skipped(memory, monkeypatch):
    """From 32 sentences of 32 tokens ``linformer-pytorch`` computes 16,384, which at base size ran out of memory."""
    monkeypatch.setattr(training, "FIXED_LENGTH_MODELS", ("ours-modules",))
    cell = TrainingCell(32, 2, ("ours-modules",), positions=64, classify=True, **SMALL, memory=memory, rounds=1)
    needed = 2 * replace(cell, batch=1)._bytes("ours-modules") + 16 * sum(
        p.numel() for p in cell._build("ours-modules").parameters()
    )
    for free, failed in ((0.9 * needed, {"ours-modules"}), (1.1 * needed, set())):
        monkeypatch.setattr(training, "free_memory", lambda: free)
        results = cell.measure()
        assert (
            set(results["failed"]) == failed
            and set(results["bytes" if memory else "seconds"]) == {"ours-modules"} - failed
        )
        assert not failed or "n = 64" in results["failed"]["ours-modules"]
    monkeypatch.setattr(training, "free_memory", lambda: 0.0)
    assert not replace(cell, n=64).measure()["failed"]  # a full length is not filled up


def test_number_of_scores_that_a_transformer_saves():
    """``NUM_SAVED_SCORES`` matrices per head grow as n^2: the second difference of three lengths is 2 n^2 of them. The
    fused kernel saves them too."""
    cell = TrainingCell(64, 1, ("roberta",), positions=192, **SMALL, memory=True)
    a, b, c = (replace(cell, n=n)._bytes("roberta") for n in (64, 128, 192))
    assert (a + c - 2 * b) / (2 * 64**2 * 2 * 4 * 4) == pytest.approx(NUM_SAVED_SCORES, rel=0.15)
    eager, fused = (
        replace(cell, models=(name,), n=192)._bytes(name) for name in ("transformer-eager", "transformer-sdpa")
    )
    assert fused == pytest.approx(eager, rel=0.15)


def test_our_step_synchronizes_only_before_its_first_product():
    """Three times: is anything padded, the most masked tokens of a sentence, and where they are. fairseq's own RoBERTa
    waits for the whole encoder before it masks."""
    x = torch.randn(4, 4)
    with DeviceSyncs() as recorder:
        y = (x @ x)[x > 0]
        float(y.sum())
    assert recorder.syncs == [("index", 1), ("_local_scalar_dense", 1)]
    cell = TrainingCell(32, 2, ("ours", "roberta"), positions=32, **SMALL)
    results = {}
    for name in cell.models:
        with DeviceSyncs() as recorder:
            cell._build(name)(*cell._inputs()).backward()
        results[name] = recorder.syncs
    assert len(results["ours"]) == 3 and all(products == 0 for _, products in results["ours"])
    assert any(products > 0 for _, products in results["roberta"])
