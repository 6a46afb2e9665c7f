"""The list of experiments, what every one of them does, and how one is added."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fairseq_linformer.reproduction.experiment import Experiment, Unfinished
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import put
from fairseq_linformer.reproduction.registry import claims, experiments, find, listing
from fairseq_linformer.reproduction.scales import NAMES

from .experiments import toy


@pytest.fixture
def ledger(tmp_path):
    folder = tmp_path / "ledger"
    folder.mkdir()
    return folder


# All experiments


@pytest.mark.parametrize("experiment", experiments(), ids=[each.name for each in experiments()])
def test_every_experiment_is_whole(experiment):
    assert find(experiment.name) is experiment and experiment.claims and experiment.title
    assert set(experiment.scales) <= set(NAMES) and "smoke" in experiment.scales
    assert all(len(experiment.cost(scale)) <= 60 for scale in experiment.scales)
    assert set(experiment.reads) <= {"data", "tasks", "encoder", "source"} and all(
        find(other) for other in experiment.shows
    )
    assert ("paper" in experiment.scales) == (experiment.paper_scale is not None)
    for claim in experiment.claims:
        assert claims()[claim.identifier] is claim and claim.rule and claim.statement.endswith(".") and claim.where
        assert claim.evaluate([], "cpu").outcome == "not measured"


def test_names_are_unique():
    names = [each.name for each in experiments()]
    identifiers = [claim.identifier for each in experiments() for claim in each.claims]
    assert len({*names}) == len(names) and len({*identifiers}) == len(identifiers)


# Inputs


@pytest.mark.parametrize(
    "name, scale, inputs, option",
    [
        ("figure-3a", "huge", Inputs(data="t"), "--scale.*huge"),
        ("theorem-1", "gpu", Inputs(), "gpu.*smoke, cpu"),
        ("figure-3a", "cpu", Inputs(), "--data"),
        ("figure-3a", "cpu", Inputs(data="t", tasks="nowhere"), "--tasks.* nowhere"),
        ("parameters", "cpu", Inputs(data="nowhere"), "--data.* nowhere"),
        ("parameters", "cpu", Inputs(tasks="nowhere"), "--tasks.* nowhere"),
        ("table-2", "cpu", Inputs(data="t"), "--tasks"),
        ("table-2", "cpu", Inputs(tasks="t"), "--data"),
        ("figure-1", "cpu", Inputs(), "--data"),
        ("theorem-2", "cpu", Inputs(minutes=3), "--minutes.* 3"),
        ("operations", "cpu", Inputs(minutes=3), "--minutes.* 3"),
        ("operations", "cpu", Inputs(runs="somewhere"), "--runs.* somewhere"),
        ("survival", "encoder", Inputs(data="t"), "survival needs --encoder"),
        ("encoder-spectrum", "encoder", Inputs(encoder="e"), "encoder-spectrum needs --source"),
        ("figure-1", "cpu", Inputs(data="t", source=("a", "b")), "takes no --source, got a, b"),
    ],
)
def test_inputs_are_checked(name, scale, inputs, option):
    with pytest.raises(ValueError, match=option):
        find(name).check(scale, inputs)


@pytest.mark.parametrize(
    "name, inputs, option",
    [
        ("table-2", Inputs(), "--tasks"),
        ("table-2", Inputs(data="t", tasks="t"), "--data.* t"),
        ("figure-3a", Inputs(), "--data"),
        ("figure-3a", Inputs(data="t", tasks="t"), "--tasks.* t"),
    ],
)
def test_inputs_of_the_paper_scale(name, inputs, option):
    with pytest.raises(ValueError, match=option):
        find(name).check_paper_inputs(inputs)
    find(name).check_paper_inputs(Inputs(tasks="t") if name == "table-2" else Inputs(data="t"))


def test_inputs_are_accepted():
    find("figure-3a").check("cpu", Inputs("runs", "t", minutes=3))
    find("table-2").check("smoke", Inputs(data="t", tasks="t"))
    find("theorem-1").check("cpu", Inputs("runs"))
    assert str(Inputs().folder) == "runs/reproduce" and str(Inputs("x").folder) == "x"


# reproduce and publish


@pytest.fixture
def steps(monkeypatch):
    """A toy whose steps are noted."""
    experiment, found = toy.Toy(), []

    def noted(name):
        real = getattr(experiment, name)

        def step(*arguments):
            found.append(name)
            return real(*arguments)

        monkeypatch.setattr(experiment, name, step)

    for name in ("check", "measure", "publish"):
        noted(name)
    return SimpleNamespace(experiment=experiment, found=found)


@pytest.mark.parametrize(
    "scale, inputs", [("gpu", Inputs()), ("cpu", Inputs(data="t")), ("cpu", Inputs(runs="file/below"))]
)
def test_what_is_rejected_is_not_measured(steps, ledger, tmp_path, monkeypatch, scale, inputs):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError):
        steps.experiment.reproduce(scale, inputs, ledger, "c")
    assert "measure" not in steps.found and not [*ledger.iterdir()]


def test_what_is_unfinished_writes_nothing(steps, ledger, monkeypatch):
    def measure(*arguments):
        raise Unfinished("half is left")

    monkeypatch.setattr(steps.experiment, "measure", measure)
    assert steps.experiment.reproduce("cpu", Inputs(), ledger, "c") == "half is left"
    assert not [*ledger.iterdir()]


def test_a_newer_record_replaces_the_earlier_one(ledger):
    experiment = toy.Toy()
    (record,) = experiment.measure("cpu", Inputs(), "c")
    first = experiment.publish([record], "cpu", ledger)
    before = (ledger / "toy-cpu.json").read_bytes()
    assert str(ledger / "toy-cpu.json") in first.splitlines()[0]
    later = record.copy_with(date="2030-01-01", data="other")
    assert experiment.publish([later], "cpu", ledger) == first and (ledger / "toy-cpu.json").read_bytes() != before


def test_verdicts_are_of_the_whole_ledger(ledger):
    experiment = toy.Toy()
    (smoke,) = experiment.measure("smoke", Inputs(), "c")
    put(smoke, ledger)
    (cpu,) = experiment.measure("cpu", Inputs(), "c")
    assert "toy-small: holds at scale smoke" in experiment.publish([cpu], "smoke", ledger)
    assert [(claim.identifier, verdict.outcome) for claim, verdict in experiment.evaluate([cpu], "smoke")] == [
        ("toy-small", "not measured"),
        ("toy-large", "not measured"),
    ]


# The report's choice


def test_shown_and_context():
    (record,) = (experiment := toy.Toy()).measure("cpu", Inputs(), "c")
    smoke, script = record.copy_with(scale="smoke"), record.copy_with(made_by="script")
    deep, gpu = record.copy_with(configuration={"layers": 2}), record.copy_with(scale="gpu")
    other = record.copy_with(experiment="other", identifier="other-cpu")
    found = experiment.shown([record, smoke, script, deep, gpu, other], [])
    assert found == [gpu, deep, record]
    assert experiment.shown([other, script], ["other-cpu", "toy-cpu"]) == [other, script]
    assert experiment.shown([smoke], ["toy-cpu"]) == []
    assert experiment.select_earlier([record, script, other.copy_with(made_by="finetune")]) == [script]
    experiment.shows = ("other",)
    assert experiment.shown([other], []) == [other]


def test_a_finetuning_of_ones_own_stands_apart():
    """Its size and recipe were not fixed before."""
    (record,) = (experiment := toy.Toy()).measure("cpu", Inputs(), "c")
    own = record.copy_with(made_by="finetune")
    assert experiment.shown([record, own], []) == [record] and experiment.select_earlier([record, own]) == [own]


def test_listing_names_other_commands(ledger):
    """Records of ``reproduce`` stand at their scale; others that a verdict uses, below."""
    with pytest.raises(ValueError, match="--results.*nowhere"):
        listing(ledger / "nowhere")
    lines = [line.split() for line in listing(ledger)]
    assert {line[0] for line in lines} == {each.name for each in experiments()}
    assert all(line[-2:] == ["not", "measured"] for line in lines)
    assert len(lines) == sum(len(each.scales) for each in experiments())


def test_experiments_are_abstract():
    with pytest.raises(TypeError):
        Experiment()
    assert replace(Inputs(), data="t").data == "t"
