"""Cells that compare reaches of the local window."""

import pytest

from fairseq_linformer.benchmark.local_window import LocalWindowCell

SIZES = dict(tokens=64, batch=8, vocabulary=50, rounds=1, warm_up=0, layers=1, embed_dim=64, heads=1)


def test_rejected_values():
    for options, message in (
        ({"reaches": (4, 4)}, "reaches must have at least two values"),
        ({"reaches": (0, 32)}, r"local_window must be less than max_positions \(32\), got 32"),
        ({"tokens": 48}, "tokens must be a multiple of n"),
        ({"k": 33}, "33"),
    ):
        with pytest.raises(ValueError, match=message):
            LocalWindowCell(**{"n": 32, "longest": 64, "k": 8, **SIZES, **options})


def test_values_by_reach_and_length():
    cell = LocalWindowCell(32, 64, 8, (0, 4), **SIZES)
    assert cell.name == "localwindow-cpu-fp32-l1-n32-k8" and cell.operations() > 0
    found = cell.measure()
    assert {reach: len(rounds) for reach, rounds in found["step_seconds"].items()} == {"0": 1, "4": 1}
    assert 0 < found["step_bytes"]["0"] < found["step_bytes"]["4"]
    assert {n: set(reaches) for n, reaches in found["seconds"].items()} == {"32": {"0", "4"}, "64": {"0", "4"}}
