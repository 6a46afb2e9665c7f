"""Cost of a local window: the rule at its limits, and a measured record."""

import pytest

from fairseq_linformer.reproduction.cells import CellExperiment
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..evidence import number, outcome, record, verdict

LIMITS = {"relative_time": 1.15, "relative_bytes": 1.25, "time_per_token_ratio": 1.15}


def measured(k=128, **values):
    """A record of W = 16; an ``other`` is a measurement that the rule does not evaluate."""
    at = {"model": "W=16", "k": k}
    fields = {
        "relative_time": {"n": 512, "baseline": "W=0", "phase": "training step"},
        "relative_bytes": {"n": 512, "baseline": "W=0", "phase": "training step"},
        "time_per_token_ratio": {"n": 16384, "baseline_n": 512, "phase": "inference"},
    }
    found = [number(metric, value, (0.1, 9.0), **at, **fields[metric]) for metric, value in values.items()]
    found.append(number("relative_time", 9.0, n=512, baseline="W=0", phase="inference", **at))
    found.append(number("relative_time", 9.0, n=512, baseline="W=0", phase="training step", model="W=4", k=k))
    return record(found, f"benchmark-local-k{k}-cpu", experiment="local-window-cost")


@pytest.mark.parametrize("metric", LIMITS)
def test_each_limit(metric):
    assert outcome("local-window-cost", measured(**LIMITS)) == HOLDS
    assert outcome("local-window-cost", measured(**{**LIMITS, metric: LIMITS[metric] + 0.001})) == FAILS
    assert outcome("local-window-cost", measured(), measured(k=256)) == UNDECIDED


def test_every_k_counts():
    worse = measured(k=256, **{**LIMITS, "relative_time": 2.0})
    found = verdict("local-window-cost", measured(**LIMITS), worse)
    assert found.outcome == FAILS and found.records == ["benchmark-local-k128-cpu", worse.identifier]
    assert outcome("local-window-cost", measured(**LIMITS), scale="gpu") == UNMEASURED


@pytest.mark.slow
def test_smoke_scale(tmp_path):
    experiment = find("local-window-cost")
    assert isinstance(experiment, CellExperiment)
    step, inference = experiment.measure("smoke", Inputs(runs=tmp_path), "the command")
    assert step.identifier == "benchmark-localstep-cpu-fp32-l1-d64-k8-smoke"
    assert inference.identifier == "benchmark-localpertoken-cpu-fp32-l1-d64-k8-smoke"
    assert {m.model for m in inference.measurements} == {"W=0", "W=4", "W=16"}
    for local_window in (4, 16):
        at = {"model": f"W={local_window}", "k": 8}
        assert step.find("relative_bytes", n=32, phase="training step", **at).value >= 1
        assert step.find("relative_time", n=32, phase="training step", **at).repetitions == 2
        assert {m.n for m in inference.select("relative_time", phase="inference", **at)} == {32, 64}
        assert inference.find("time_per_token_ratio", n=64, baseline_n=32, **at).repetitions == 2
    (table,) = experiment.tables([step, inference])
    assert len(table.rows) == len(step.measurements) + len(inference.measurements) == 4 + 7
