"""Records made of benchmark cells, and which records count as evidence."""

import json

import pytest

from fairseq_linformer.benchmark.timing import summarize
from fairseq_linformer.machine import current_commit
from fairseq_linformer.reproduction import cells
from fairseq_linformer.reproduction.cells import CellKind, setting, single_value, spread
from fairseq_linformer.reproduction.experiment import Unfinished
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.rules import evidence, is_base_size, rule
from fairseq_linformer.reproduction.statistics import HOLDS, UNMEASURED, Check

from .evidence import cell, number, put_cells, record


def one_number(each):
    if "x" in each["measured"]:
        yield Measurement(metric="x", value=each["measured"]["x"], unit="s", n=each["configuration"]["n"])


def total(every):
    yield Measurement(metric="total", value=sum(each["measured"].get("x", 0) for each in every), unit="s")


KIND = CellKind("training", "a claim", "a table", one_number, total, paper={"x": 1})


def records(folder):
    return list(KIND.records(folder, "speed"))


def test_a_record_of_several_cells(tmp_path):
    long = cell(
        "training",
        {"x": 4.0},
        "n64",
        n=64,
        seconds=2.0,
        date="2026-01-03",
        commit="def",
        command="more",
        models=["ours", "roberta"],
    )
    short = cell("training", {"x": 1.0}, "n99", models=["ours"], seconds=0.5)
    (found,) = records(put_cells(tmp_path, long, short))
    assert (found.identifier, found.experiment, found.made_by, found.scale) == (
        "benchmark-training-cpu-fp32-l2",
        "speed",
        "benchmark",
        "cpu",
    )
    assert [(m.metric, m.n, m.value) for m in found.measurements] == [
        ("x", 32, 1.0),
        ("x", 64, 4.0),
        ("total", None, 5.0),
    ]
    assert (found.claim, found.paper.where, found.paper.value) == ("a claim", "a table", {"x": 1})
    assert (found.commit, found.command, found.seconds, found.date) == ("abc; def", "it; more", 2.5, "2026-01-03")
    assert (found.hardware, found.versions, found.data) == ({"cores": 1}, {"python": "3"}, "random tokens")
    c = found.configuration
    assert (c["device"], c["layers"], c["models"], c["threads"], c["clock"]) == (
        "cpu",
        2,
        ["ours", "roberta"],
        2,
        "wall",
    )
    assert c["peak_from"] == "a matrix product" and "n" not in c and "tokens" not in c and c["failed"] == {}
    assert c["cells"][short["name"]] == {"n": 32, "tokens": 64, "peak_operations_per_second": 1e12}
    assert [each["n"] for each in c["cells"].values()] == [32, 64]


def test_a_cell_keeps_what_is_its_own(tmp_path):
    one = cell("training", {"x": 1.0, "counted": ["eager"], "failed": {"sdpa": "no room"}}, data="a task")
    one["kernels"] = ["flash"]
    (found,) = records(put_cells(tmp_path, one))
    own = found.configuration["cells"][one["name"]]
    assert own["kernels"] == ["flash"] and own["counted"] == ["eager"] and found.data == "a task"
    assert found.configuration["failed"] == {one["name"]: {"sdpa": "no room"}}
    del one["peak_from"]  # as in cells of earlier versions
    (earlier,) = records(put_cells(tmp_path, one))
    assert "peak_from" not in earlier.configuration and earlier.configuration["threads"] == 2


def test_what_failed_is_told_of_every_cell(tmp_path):
    """Of the longer n, which is the second one."""
    long = cell("training", {"x": 4.0, "failed": {"eager": "no room"}}, "n64", n=64)
    (found,) = records(put_cells(tmp_path, cell("training", {"x": 1.0}), long))
    assert found.configuration["failed"] == {long["name"]: {"eager": "no room"}}


def test_records_differ_by_device_precision_and_layers(tmp_path):
    deep = cell("training", {"x": 1.0}, layers=12, seconds=0.01)
    deep["name"] = "training-cpu-fp32-l12-n32"
    gpu = cell("training", {"x": 1.0}, device="cuda", dtype="bf16")
    gpu["name"] = "training-cuda-bf16-l2-n32"
    other = cell("scaling", {"x": 1.0})
    found = {
        each.identifier: each for each in records(put_cells(tmp_path, deep, gpu, other, cell("training", {"x": 1.0})))
    }
    assert {name: each.scale for name, each in found.items()} == {
        "benchmark-training-cpu-fp32-l12": "cpu",
        "benchmark-training-cuda-bf16-l2": "gpu",
        "benchmark-training-cpu-fp32-l2": "cpu",
    }
    assert found["benchmark-training-cpu-fp32-l12"].seconds == 0.1  # never 0


def test_cells_without_a_number_make_no_record(tmp_path):
    assert records(put_cells(tmp_path, cell("training", {"failed": {"ours": "no room"}}))) == []
    (found,) = records(put_cells(tmp_path, cell("training", {"x": 1.0}, "n64", n=64)))
    assert len(found.configuration["cells"]) == 2


@pytest.mark.parametrize(
    "changed, what",
    [
        ({"dtype": "fp64"}, "dtype"),
        ({"threads": 8}, "threads"),
        ({"clock": "processor"}, "machine"),
        ({"hardware": {"cores": 9}}, "machine"),
        ({"versions": {"python": "2"}}, "versions"),
        ({"heads": 3}, "heads"),
    ],
)
def test_cells_of_another_machine_or_setting_are_rejected(changed, what, tmp_path):
    a, b = cell("training", {"x": 1.0}, heads=4), cell("training", {"x": 1.0}, "n64", n=64, **{"heads": 4, **changed})
    found = put_cells(tmp_path, a, b)
    if what == "dtype":
        assert len(records(found)) == 2  # another precision is another record
    else:
        with pytest.raises(ValueError, match=what):
            records(found)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content.pop("measured"),
        lambda content: content.pop("commit"),
        lambda content: content["configuration"].pop("layers"),
        lambda content: content.update(name="another"),
        lambda content: content["measured"].update(x="fast"),
        lambda content: content["configuration"].pop("n"),
        lambda content: content.update(measured=5),
    ],
)
def test_a_damaged_cell_is_named(damage, tmp_path):
    content = cell("training", {"x": 1.0})
    path = tmp_path / f"{content['name']}.json"
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=path.stem):
        records(tmp_path)
    path.write_text("{")
    with pytest.raises(ValueError, match=path.stem):
        records(tmp_path)


def test_the_best_peak_of_several_cells_is_that_of_all(tmp_path):
    """Beside each a matrix product was timed, which other work on the machine can only slow down."""

    def peak(each):
        yield Measurement(
            metric="peak", value=each["peak_operations_per_second"], unit="1/s", n=each["configuration"]["n"]
        )

    kind = CellKind("training", "c", "w", peak)
    both = [cell("training", {}, f"n{n}", n=n, peak_operations_per_second=best) for n, best in ((32, 4e12), (64, 1e12))]
    (found,) = kind.records(put_cells(tmp_path, *both), "speed")
    assert [m.value for m in found.measurements] == [4e12, 4e12]
    del both[1]["peak_operations_per_second"]
    assert kind.read(both[0])[0].value == 4e12
    with pytest.raises(ValueError, match=both[1]["name"]):
        kind.read(both[1])


def test_spreads():
    assert spread(summarize([1.0, 2.0, 9.0]), "ms", 1e3) == {
        "value": 2000.0,
        "unit": "ms",
        "interval": (1000.0, 9000.0),
        "repetitions": 3,
    }
    assert spread(summarize([1.23456789]), "s") == {"value": 1.2346, "unit": "s", "interval": None, "repetitions": 1}
    assert single_value(1.23456789, "s") == {"value": 1.2346, "unit": "s"}


def test_all_kinds_and_what_failed(tmp_path):
    kinds = {name: experiment for name, (_, experiment) in cells.kinds().items()}
    assert kinds == {
        "scaling": "table-1",
        "pertoken": "figure-2",
        "inference": "table-3",
        **dict.fromkeys(("localstep", "localpertoken"), "local-window-cost"),
        **dict.fromkeys(("whole", "training", "process", "shares", "finetuning"), "speed"),
    }
    put_cells(
        tmp_path,
        cell("pertoken", {"seconds": {"512": [1.0], "1024": [2.0]}}),
        cell("scaling", {"seconds": {"linformer": [1.0]}, "failed": {"bigbird": "too short"}}, models=["linformer"]),
    )
    assert {each.identifier: each.experiment for each in cells.records_in(tmp_path)} == {
        "benchmark-pertoken-cpu-fp32-l2": "figure-2",
        "benchmark-scaling-cpu-fp32-l2": "table-1",
    }
    assert cells.failures_in(tmp_path) == ["scaling-cpu-fp32-l2-n32: bigbird: too short"]


# Experiments made of cells


@pytest.fixture
def measured(monkeypatch):
    """``measure`` of cells without measuring: it writes one, and says what it was asked for."""
    asked = []

    def measure(wanted, folder, provenance, minutes):
        asked.append((wanted, folder, provenance, minutes))
        folder.mkdir(parents=True, exist_ok=True)
        put_cells(folder, cell("pertoken", {"seconds": {"64": [1.0], "128": [1.1]}}))
        return ["one"] * (minutes == 1)

    monkeypatch.setattr(cells, "measure_cells", measure)
    return asked


def test_an_experiment_of_cells(measured, tmp_path):
    figure = find("figure-2")
    (found,) = figure.measure("smoke", Inputs(runs=tmp_path, minutes=5), "it")
    ((wanted, folder, provenance, minutes),) = measured
    assert [each.lengths for each in wanted] == [(64, 128)] and folder == tmp_path / "smoke" / "figure-2" / "cells"
    assert (provenance.command, provenance.commit, minutes) == ("it", current_commit(), 5)
    assert (found.identifier, found.experiment) == ("benchmark-pertoken-cpu-fp32-l2-smoke", "figure-2")
    assert (found.made_by, found.scale, found.command, found.tolerance) == ("reproduce", "smoke", "it", cells.TOLERANCE)
    assert (
        figure.scales == ("smoke", "cpu", "gpu")
        and figure.cost("cpu")
        and [c.identifier for c in figure.claims] == ["figure-2"]
    )
    with pytest.raises(Unfinished, match="1 of 1"):
        figure.measure("smoke", Inputs(runs=tmp_path, minutes=1), "it")


def test_how_far_a_repeated_measurement_may_differ():
    """Counts not at all; ratios of times by a quarter; times themselves are the machine's."""
    assert cells.TOLERANCE == {
        "ratio of times": 0.25,
        "ratio of times per token": 0.25,
        "ratio of batches": 0.0,
        "ratio of bytes": 0.0,
        "exponent of n": 0.2,
    }


# Evidence


def of(made_by, identifier, experiment="table-1", scale="cpu", **configuration):
    return record(
        [number("x", 1.0)],
        identifier,
        {"layers": 2, **configuration},
        made_by=made_by,
        experiment=experiment,
        scale=scale,
    )


def test_records_of_reproduce_come_before_those_of_other_commands():
    ours, other, script = of("reproduce", "a"), of("benchmark", "b"), of("script", "c")
    for found in ([ours, other, script], [script, other, ours]):
        assert evidence(found, "table-1", "cpu") == [ours]
    assert evidence([other, script], "table-1", "cpu") == [other]
    assert evidence([script], "table-1", "cpu") == []
    assert evidence([ours], "table-1", "gpu") == [] == evidence([ours], "table-2", "cpu")


@pytest.mark.parametrize(
    "size, base", [({}, True), ({"embed_dim": 768, "k": 256}, True), ({"embed_dim": 64}, False), ({"k": 128}, False)]
)
def test_another_width_or_k_is_another_model(size, base):
    other = of("benchmark", "a", **size)
    assert is_base_size(other) == base and evidence([other], "table-1", "cpu") == [other] * base
    ours = of("reproduce", "a", **size)
    assert evidence([ours], "table-1", "cpu") == [ours]


def test_a_rule_without_evidence_is_not_measured():
    evaluate = rule("table-1", "a-record-*", lambda r: [Check(HOLDS, "said")])
    missing = evaluate([of("script", "a")], "cpu")
    assert missing.outcome == UNMEASURED and "a-record-*" in missing.remarks[0] and "cpu" in missing.remarks[0]
    found = evaluate([of("benchmark", "a"), of("benchmark", "b")], "cpu")
    assert found.outcome == HOLDS and found.records == ["a", "b"]


@pytest.mark.parametrize(
    "scale, configuration, accelerators, words",
    [
        ("cpu", {"layers": 2, "threads": 2}, [], "2 layers, 2 threads"),
        ("cpu", {"layers": 1, "threads": 1}, ["a GPU"], "1 layer, 1 thread"),
        ("gpu", {"layers": 12, "threads": 2}, ["a GPU", "another"], "12 layers, a GPU"),
        ("cpu", {"layers": 12}, [], "12 layers"),
    ],
)
def test_setting(scale, configuration, accelerators, words):
    one = record([number("x", 1.0)], configuration=configuration, scale=scale, hardware={"accelerators": accelerators})
    assert setting(one) == words
