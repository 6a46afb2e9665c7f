"""Cells that compare reaches of the local window."""

import pytest

from fairseq_linformer.benchmark.local_window import LocalPerTokenCell, LocalStepCell

SIZES = dict(rounds=1, warm_up=0, layers=1, embed_dim=64, heads=1, vocabulary=50, k=8)


@pytest.mark.parametrize(
    "kind, options, message",
    [
        (LocalStepCell, {"reaches": (4, 4)}, "reaches must have at least two values"),
        (LocalStepCell, {"reaches": (0, 32)}, r"local_window must be less than max_positions \(32\), got 32"),
        (LocalStepCell, {"k": 33}, "33"),
        (LocalStepCell, {"lengths": (32, 64)}, "lengths must have one value"),
        (LocalPerTokenCell, {"tokens": 48}, "tokens must be a multiple of n"),
    ],
)
def test_rejected_values(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**{"lengths": (32,), **SIZES, **options})


def test_steps_by_reach():
    cell = LocalStepCell(lengths=(32,), reaches=(0, 4), batch=8, **SIZES)
    assert cell.name == "localstep-cpu-fp32-l1-n32-k8"
    found = cell.measure()
    assert {reach: len(rounds) for reach, rounds in found["seconds"].items()} == {"0": 1, "4": 1}
    assert 0 < found["bytes"]["0"] < found["bytes"]["4"]


def test_inference_by_length_and_reach():
    cell = LocalPerTokenCell(lengths=(32, 64), reaches=(0, 4), tokens=64, **SIZES)
    assert cell.name == "localpertoken-cpu-fp32-l1-n32-64-k8"
    assert {n: set(reaches) for n, reaches in cell.measure()["seconds"].items()} == {"32": {"0", "4"}, "64": {"0", "4"}}
