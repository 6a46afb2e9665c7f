"""Far-token recall: the rules on made-up records, and a run at the smoke scale."""

import json
from pathlib import Path

import pytest
import torch

from fairseq_linformer.files import write_sealed
from fairseq_linformer.reproduction import recall_runs
from fairseq_linformer.reproduction.experiment import Unfinished
from fairseq_linformer.reproduction.experiments.recall import NAME
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import read
from fairseq_linformer.reproduction.recall_runs import FULL, SIZES, RecallRun, label, plan_runs
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..evidence import outcome, record, verdict

N, CHANCE = 64, 0.125
CONFIGURATION = {
    "chance": CHANCE,
    "windows": [4],
    "parts": [8, 4, 2],
    "seeds": [1, 2, 3],
    "tasks": [{"n": N, "distance": 24}],
}
RESULTS = Path(__file__).parents[3] / "results"
USUAL = {FULL: 0.99, "k=1, W=4": 0.12}
for _start in (None, "normal"):
    USUAL |= {label(8, 4, _start): 0.3, label(16, 4, _start): 0.5, label(32, 4, _start): 0.9}


def accuracy(model, value, seed, half=0.01, n=N):
    k = n if model == FULL else int(model.split(",")[0].removeprefix("k="))
    interval = (value - half, value + half)
    return Measurement(
        metric="accuracy",
        value=value,
        unit="share of sequences",
        interval=interval,
        interval_kind="confidence",
        repetitions=1000,
        model=model,
        n=n,
        k=k,
        seed=seed,
    )


def recalled(changed=None, half=0.01, seeds=(1, 2, 3), **fields):
    """The record of accuracies by model: one number for all seeds, or one of each; None for a missing model."""
    found = []
    for model, values in {**USUAL, **(changed or {})}.items():
        values = [values] * len(seeds) if isinstance(values, float) else values or []
        found += [accuracy(model, value, seed, half) for value, seed in zip(values, seeds)]
    return record(
        found, identifier="recall-cpu", experiment=NAME, configuration={**CONFIGURATION, "seeds": [*seeds]}, **fields
    )


def test_nothing_is_measured():
    for claim in ("recall-full", "recall-control", "recall-k"):
        assert outcome(claim) == UNMEASURED
        assert outcome(claim, recalled(), scale="gpu") == UNMEASURED and outcome(claim, recalled()) == HOLDS


@pytest.mark.parametrize(
    "values, expected",
    [
        ([0.9601, 0.97, 0.98], HOLDS),
        ([0.9599, 0.97, 0.98], UNDECIDED),
        ([0.9401, 0.97, 0.98], UNDECIDED),
        ([0.9399, 0.97, 0.98], FAILS),
        ([0.98, 0.98, 0.9399], FAILS),
    ],
)
def test_full_attention_must_recall_with_every_seed(values, expected):
    found = verdict("recall-full", recalled({FULL: values}))
    assert found.outcome == expected and "0.95" in found.deciding[0]


@pytest.mark.parametrize("claim", ["recall-control", "recall-k"])
@pytest.mark.parametrize("values", [[0.98, 0.9599, 0.98], [0.5, 0.98, 0.98], None])
def test_without_full_attention_nothing_is_decided(claim, values):
    clearly_wrong = {FULL: values, "k=1, W=4": 0.99}
    assert outcome(claim, recalled(clearly_wrong)) == UNDECIDED
    assert outcome(claim, recalled({**clearly_wrong, FULL: 0.99})) == FAILS


@pytest.mark.parametrize(
    "values, expected",
    [
        ([0.12, 0.1649, 0.12], HOLDS),
        ([0.12, 0.1651, 0.12], UNDECIDED),
        ([0.12, 0.1849, 0.12], UNDECIDED),
        ([0.12, 0.1851, 0.12], FAILS),
    ],
)
def test_control_must_guess_with_every_seed(values, expected):
    assert outcome("recall-control", recalled({"k=1, W=4": values})) == expected


def test_control_is_k_of_one_with_every_window():
    assert outcome("recall-control", recalled({"k=1, W=0": 0.9})) == FAILS
    assert outcome("recall-control", recalled({"k=8, W=4": 0.9})) == HOLDS


# Student's 95 % interval of three differences d - s, d, d + s is d -+ 2.484 s.


@pytest.mark.parametrize(
    "before, expected",
    [
        ((0.524, 0.534, 0.544), HOLDS),  # of k = 8, against 0.5 of k = 16: -0.034 -+ 0.0248
        ((0.526, 0.536, 0.546), FAILS),  # -0.036 -+ 0.0248, wholly below -1 point
    ],
)
@pytest.mark.parametrize("start", [None, "normal"])
def test_no_k_is_a_point_less_accurate(before, expected, start):
    found = verdict("recall-k", recalled({label(8, 4, start): before}))
    assert found.outcome == expected
    if expected == FAILS:
        assert label(8, 4, start) in found.deciding[0] and label(16, 4, start) in found.deciding[0]


@pytest.mark.parametrize(
    "largest, expected",
    [
        ((0.135, 0.145, 0.155), HOLDS),  # against 0.12 of k = 1: 0.025 -+ 0.0248
        ((0.134, 0.144, 0.154), UNDECIDED),
        ((0.087, 0.097, 0.107), UNDECIDED),  # -0.023 -+ 0.0248
        ((0.085, 0.095, 0.105), FAILS),  # -0.025 -+ 0.0248
    ],
)
def test_the_largest_k_is_more_accurate_than_one(largest, expected):
    every = {label(k, 4, start): largest for k in (8, 16, 32) for start in (None, "normal")}
    assert outcome("recall-k", recalled(every)) == expected


def test_equal_accuracies_are_no_increase_and_no_fall():
    level = {label(k, 4, start): 0.12 for k in (8, 16, 32) for start in (None, "normal")}
    assert outcome("recall-k", recalled(level)) == FAILS  # the largest is exactly as accurate as k = 1
    assert outcome("recall-k", recalled({label(k, 4, None): 1.0 for k in (8, 16, 32)}, half=0.0)) == HOLDS


def test_seeds_are_paired():
    """Each seed has its own level; k = 16 is less accurate with all of them."""
    levels = (0.2, 0.5, 0.8)
    below = {label(8, 4, None): levels, label(16, 4, None): tuple(x - 0.05 for x in levels)}
    assert outcome("recall-k", recalled(below)) == FAILS
    shuffled = {label(8, 4, None): levels, label(16, 4, None): (0.45, 0.15, 0.75)}
    assert outcome("recall-k", recalled(shuffled)) == HOLDS


def test_two_seeds_are_not_enough():
    assert outcome("recall-k", recalled(seeds=(1, 2))) == UNDECIDED
    assert outcome("recall-k", recalled({label(16, 4, "normal"): (0.5, 0.5)})) == UNDECIDED


# Plan


def test_every_model_has_its_control_and_the_first_seed_is_first():
    sizes = SIZES["cpu"]
    runs = plan_runs(sizes)
    models = {(run.k, run.local_window, run.start) for run in runs}
    assert len(runs) == 3 * len(models) == 3 * (1 + 3 * (1 + 2 * 4)) and len({run.name for run in runs}) == len(runs)
    assert {run.seed for run in runs[: len(models)]} == {1} and runs[0].model == FULL
    for window in (0, 4, 16):
        assert (1, window, None) in models
        assert {k for k, w, start in models if w == window and start == "normal"} == {4, 16, 32, 64}
    assert {run.n for run in plan_runs(SIZES["gpu"])} == {128, 256, 512, 1024}


@pytest.mark.parametrize("scale", SIZES)
def test_no_window_of_the_plan_reaches_a_value(scale):
    sizes = SIZES[scale]
    for run in plan_runs(sizes):
        task = recall_runs.build_task(run.n)
        assert sizes.layers * run.local_window + 1 < task.distance and task.early > run.n // 4


# A run


@pytest.fixture
def runs_of_a_second(monkeypatch):
    """Two models of the smoke scale, trained for two updates."""
    sizes = recall_runs.Sizes((64,), (4,), (2,), (1,), updates=2, batch=2, sequences=6)
    monkeypatch.setitem(SIZES, "smoke", sizes)
    return sizes


def test_smoke(runs_of_a_second, tmp_path):
    experiment, inputs = find("recall"), Inputs(tmp_path / "runs")
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    said = experiment.reproduce("smoke", inputs, ledger, "the command")
    assert all(claim in said for claim in ("recall-full", "recall-control", "recall-k"))
    written = read(ledger / "recall-smoke.json")
    assert [m.model for m in written.measurements] == [FULL, "k=1, W=4", "k=32, W=4", "k=32, W=4, normal"]
    assert [m.k for m in written.measurements] == [64, 1, 32, 32]
    for m in written.measurements:
        assert (m.n, m.seed, m.repetitions) == (64, 1, 6) and m.low <= m.value <= m.high and m.value * 6 % 1 == 0
    assert all([point[0] for point in curve.points] == [1, 2] for curve in written.curves)
    assert written.configuration["chance"] == CHANCE and written.configuration["default_start"] == "staggered"

    path = tmp_path / "runs" / "smoke" / "recall" / "n64-k32-w4-normal-seed1.json"
    before = path.read_bytes()
    assert experiment.reproduce("smoke", inputs, ledger, "the command") == said and path.read_bytes() == before
    (table,), (chart,) = experiment.tables([written]), experiment.charts([written])
    assert len(table.rows) == 3 and table.head == ["model", "k = 1", "k = 32", "k = 64"]
    assert (
        table.rows[0][-1] and table.rows[1][1] and table.rows[2][2] and "at a distance of at least 24" in table.caption
    )
    assert [series.name for series in chart.series] == ["W = 4, default start", "W = 4, normal"]
    assert [[x for x, _ in series.runs[0]] for series in chart.series] == [[1, 32], [1, 32]]


def test_a_rerun_resumes(runs_of_a_second, tmp_path, monkeypatch):
    trained = []
    real = recall_runs.measure_run
    module = "fairseq_linformer.reproduction.experiments.recall"
    monkeypatch.setattr(f"{module}.measure_run", lambda run, *options: trained.append(run) or real(run, *options))
    for expected in (1, 2, 3):
        with pytest.raises(Unfinished, match=f"{4 - expected} of 4 runs are left"):
            find("recall").measure("smoke", Inputs(tmp_path, minutes=1e-9), "c")
        assert len(trained) == expected
    assert find("recall").measure("smoke", Inputs(tmp_path, minutes=1e-9), "c") and len(trained) == 4
    assert [run.model for run in trained] == [FULL, "k=1, W=4", "k=32, W=4", "k=32, W=4, normal"]


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text[:-20], "is missing, edited or damaged"),
        (lambda text: text.replace('"recalled": ', '"recalled": 1'), "is missing, edited or damaged"),
        (lambda text: "[]", "is missing, edited or damaged"),
    ],
)
def test_an_edited_run_is_rejected(runs_of_a_second, tmp_path, change, message):
    find("recall").measure("smoke", Inputs(tmp_path), "c")
    path = tmp_path / "smoke" / "recall" / "n64-k1-w4-seed1.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=f"{path.name} .*{message}"):
        find("recall").measure("smoke", Inputs(tmp_path), "c")


def test_a_run_of_another_plan_is_rejected(runs_of_a_second, tmp_path, monkeypatch):
    find("recall").measure("smoke", Inputs(tmp_path), "c")
    path = tmp_path / "smoke" / "recall" / "n64-k64-w0-seed1.json"
    content = json.loads(path.read_text())
    content.pop("seal")
    content["plan"]["updates"] = 3
    write_sealed(path, content)
    with pytest.raises(ValueError, match=f"{path.name} was trained with another plan"):
        find("recall").measure("smoke", Inputs(tmp_path), "c")


LONG = recall_runs.Sizes((64, 128), (4,), (2,), (1, 2), updates=3, batch=2, sequences=6, starts=(None,), grown=1)


@pytest.mark.slow
def test_a_longer_model_grows_from_the_one_of_half_its_length(tmp_path, monkeypatch):
    experiment = find("recall-long")
    monkeypatch.setitem(experiment.sizes, "smoke", LONG)
    with pytest.raises(Unfinished, match="11 of 12 runs are left, n64-k1-w4-seed1 first"):
        experiment.measure("smoke", Inputs(tmp_path, minutes=1e-9), "c")
    (written,) = experiment.measure("smoke", Inputs(tmp_path), "c")
    assert [(m.n, m.k, m.seed) for m in written.measurements[:6]] == [
        (64, 64, 1), (64, 1, 1), (64, 32, 1), (128, 128, 1), (128, 1, 1), (128, 64, 1)
    ]  # fmt: skip
    assert [curve.points[-1][0] for curve in written.curves[:6]] == [3, 3, 3, 1, 1, 1]
    assert written.configuration["grown"] == 1 and written.configuration["starts"] == [None]
    folder = tmp_path / "smoke" / "recall-long"
    run = json.loads((folder / "n128-k64-w4-seed2.json").read_text())
    assert run["plan"]["grown_from"] == "n64-k32-w4-seed2"
    assert len(list(folder.glob("n64-*.pt"))) == 6 and not list(folder.glob("n128-*.pt"))
    assert {table.rows[0][0] for table in experiment.tables([written])} == {FULL}


def test_growing_starts_from_the_trained_weights(tmp_path):
    short = RecallRun(64, 32, 4, None, 1)
    recall_runs.measure_run(short, LONG, tmp_path)
    path = tmp_path / f"{short.name}.pt"
    trained = torch.load(path, weights_only=True)
    found = recall_runs.measure_run(RecallRun(128, 64, 4, None, 1), LONG, tmp_path)
    torch.save({key: value + 1 if key == "output.bias" else value for key, value in trained.items()}, path)
    assert recall_runs.measure_run(RecallRun(128, 64, 4, None, 1), LONG, tmp_path)["loss"] == found["loss"]
    trained["output.bias"][0] += 1
    torch.save(trained, path)
    assert recall_runs.measure_run(RecallRun(128, 64, 4, None, 1), LONG, tmp_path)["loss"] != found["loss"]


def test_the_plan_names_what_a_default_stands_for():
    plan = recall_runs.describe_run(RecallRun(128, 32, 4, None, 1), SIZES["cpu"])
    assert (plan["resolved_start"], plan["rate"], plan["task"]["distance"]) == ("staggered", 0.125, 48)
    assert plan["updates"] == SIZES["cpu"].updates and "lengths" not in plan


def test_the_scale_gpu_needs_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="--scale gpu needs a GPU"):
        find("recall").measure("gpu", Inputs(tmp_path), "c")
    with pytest.raises(ValueError, match="--data"):
        find("recall").check("cpu", Inputs(tmp_path, data="text"))
