"""A training step: its operations and bytes, and the models for which there is no room."""

from dataclasses import replace

import pytest
import torch

from fairseq_linformer.benchmark import training
from fairseq_linformer.benchmark.flops import counted
from fairseq_linformer.benchmark.training import KEPT, Training

from .waits import Waits

SMALL = dict(k=16, layers=2, embed_dim=64, heads=4, vocabulary=100)


@pytest.mark.parametrize("name", ["ours", "roberta", "transformer-eager"])
@pytest.mark.parametrize("classify", [False, True])
def test_operations_of_a_step_are_those_that_pytorch_counts(name, classify):
    cell = Training(64, 2, (name,), positions=64, classify=classify, **{**SMALL, "layers": 3})
    module, inputs = cell._build(name), cell._inputs()
    real = counted(lambda: module(*inputs).backward())
    # They differ by RoBERTa's head of a classifier, and E's gradient in the first layer.
    assert cell.model_operations(name) == pytest.approx(real, rel=0.03)


def test_a_model_whose_bytes_were_counted_keeps_none(monkeypatch):
    """The memory tracker's hooks hold the module; a run of many cells at base size was killed for memory."""
    cell, built = Training(64, 2, ("ours-modules",), positions=64, **SMALL, memory=True), []
    build = Training._build
    monkeypatch.setattr(Training, "_build", lambda self, name: built.append(build(self, name)) or built[-1])
    assert cell.measure()["bytes"]["ours-modules"] > 0
    assert sum(p.untyped_storage().nbytes() for p in built[0].parameters()) == 0 and all(
        p.grad is None for p in built[0].parameters()
    )


@pytest.mark.parametrize(
    "memory, transformer",
    [(True, "roberta"), (False, "roberta"), (False, "transformer-eager"), (False, "transformer-sdpa")],
)
def test_a_transformer_without_room_fails_and_the_others_are_measured(memory, transformer, monkeypatch):
    cell = Training(64, 2, ("ours", transformer), positions=64, **SMALL, memory=memory, rounds=1)
    weights = KEPT * 2 * 4 * 2 * 64**2 * 4
    for free, failed in ((weights - 1, {transformer}), (weights, set())):
        monkeypatch.setattr(training, "free_memory", lambda: free)
        found = cell.measure()
        assert (
            set(found["failed"]) == failed and set(found["bytes" if memory else "seconds"]) == set(cell.models) - failed
        )
        assert not failed or "its weights take" in found["failed"][transformer]


@pytest.mark.parametrize("memory", [False, True])
def test_a_model_that_fills_short_inputs_up_fails_without_room(memory, monkeypatch):
    """Of 32 sentences of 32 tokens ``linformer-pytorch`` computes 16,384 tokens; at base size the system killed the
    process."""
    monkeypatch.setattr(training, "FILLED_UP", ("ours-modules",))
    cell = Training(32, 2, ("ours-modules",), positions=64, classify=True, **SMALL, memory=memory, rounds=1)
    needed = 2 * replace(cell, batch=1)._bytes("ours-modules") + 16 * sum(
        p.numel() for p in cell._build("ours-modules").parameters()
    )
    for free, failed in ((0.9 * needed, {"ours-modules"}), (1.1 * needed, set())):
        monkeypatch.setattr(training, "free_memory", lambda: free)
        found = cell.measure()
        assert (
            set(found["failed"]) == failed and set(found["bytes" if memory else "seconds"]) == {"ours-modules"} - failed
        )
        assert not failed or "filled up to n = 64" in found["failed"]["ours-modules"]
    monkeypatch.setattr(training, "free_memory", lambda: 0.0)
    assert not replace(cell, n=64).measure()["failed"]  # a full length is not filled up


def test_the_weights_that_a_transformer_keeps():
    """``KEPT`` matrices per head grow as the square of n: the second difference of three lengths is 2 n^2 of them. The
    fused kernel keeps them too."""
    cell = Training(64, 1, ("roberta",), positions=192, **SMALL, memory=True)
    a, b, c = (replace(cell, n=n)._bytes("roberta") for n in (64, 128, 192))
    assert (a + c - 2 * b) / (2 * 64**2 * 2 * 4 * 4) == pytest.approx(KEPT, rel=0.15)
    eager, fused = (
        replace(cell, models=(name,), n=192)._bytes(name) for name in ("transformer-eager", "transformer-sdpa")
    )
    assert fused == pytest.approx(eager, rel=0.15)


def test_our_step_waits_before_its_first_product_only():
    """Three times (is anything padded, the most masked tokens of a sentence, where they are); fairseq's own RoBERTa
    waits for the whole encoder before it masks."""
    x = torch.randn(4, 4)
    with Waits() as waits:
        y = (x @ x)[x > 0]
        float(y.sum())
    assert waits.found == [("index", 1), ("_local_scalar_dense", 1)]
    cell = Training(32, 2, ("ours", "roberta"), positions=32, **SMALL)
    found = {}
    for name in cell.models:
        with Waits() as waits:
            cell._build(name)(*cell._inputs()).backward()
        found[name] = waits.found
    assert len(found["ours"]) == 3 and all(products == 0 for _, products in found["ours"])
    assert any(products > 0 for _, products in found["roberta"])
