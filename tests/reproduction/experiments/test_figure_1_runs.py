"""Figure 1: its RoBERTa, the blocks that are analyzed, its record, and rejections before it is trained."""
# ruff: noqa: F811 (fixtures are imported)

import json
import shutil
from dataclasses import replace

import pytest

from fairseq_linformer.evaluation.encoded_rows import open_dataset
from fairseq_linformer.reproduction.experiment import Unfinished
from fairseq_linformer.reproduction.experiments import figure_1
from fairseq_linformer.reproduction.experiments.figure_1 import Blocks
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.text import describe_text
from fairseq_linformer.reproduction.verify import verify

from ..trainer import DATE, HARDWARE, VERSIONS, text, trainer  # noqa: F401

RUNS = ["roberta-n16-scratch/seed1", "roberta-n16-continued/seed1"]


@pytest.fixture
def figure():
    return find("figure-1")


@pytest.fixture
def measure(figure, trainer, text, tmp_path):
    def measure(minutes=None):
        (record,) = figure.measure("smoke", Inputs(tmp_path / "runs", text, minutes=minutes), "the command")
        return record

    return measure


def slow_analysis():
    """It takes five seconds."""
    analyze = figure_1.analyze

    def slowly(*arguments):
        spectrum, _ = analyze(*arguments)
        return spectrum, 5.0

    return slowly


def test_record(figure, measure, trainer, text, tmp_path, monkeypatch):
    trainer.commits = {"continued": "def"}
    monkeypatch.setattr(figure_1, "analyze", slow_analysis())
    record, source = measure(), "RoBERTa, n = 16, validation split"
    assert trainer.trained == RUNS
    assert (record.identifier, record.experiment, record.made_by, record.scale) == (
        "spectrum-roberta-smoke",
        "figure-1",
        "reproduce",
        "smoke",
    )
    assert (record.commit, record.hardware, record.versions, record.date) == ("abc; def", HARDWARE, VERSIONS, DATE)
    assert record.data == describe_text(text) and record.command == "the command"
    assert record.seconds == 25.0  # two runs of ten, and the analysis
    assert record.rules == {claim.identifier: claim.rule for claim in figure.claims}
    c = record.configuration
    assert (
        c["sentences"] == 4
        and c["sizes"]["tokens"] == 128
        and c["model"]["made"] == "continued"
        and c["model"]["model"] == {"n": 16}
    )
    facts = c["runs"][source]
    assert (facts["n"], facts["index"], facts["singular_values"], facts["sentences"]) == (16, 4, 16, 4)
    assert set(record.tolerance.values()) == {1e-3} and set(record.tolerance) == {m.unit for m in record.measurements}
    shares = record.select("cumulative_share")
    assert [(m.layer, m.head, m.source, m.n) for m in shares] == [(1, head, source, 16) for head in (1, 2)]
    assert all(0.25 <= m.value <= 1 for m in shares) and len(record.measurements) == 8
    (curve,) = record.curves
    assert (curve.source, curve.layer, len(curve.points), curve.points[-1]) == (source, 1, 16, (16, 1.0))
    assert curve.points[3][1] == pytest.approx(sum(m.value for m in shares) / 2, abs=1e-4)
    assert (tmp_path / "runs/smoke/spectrum").is_dir()
    assert measure().measurements == record.measurements and trainer.trained == RUNS


def test_rules_are_those_from_before_the_runs(figure, measure, trainer, tmp_path, monkeypatch):
    seen = []
    path = tmp_path / "runs/smoke/rules/figure-1.json"
    trainer.before = lambda job: seen.append(json.loads(path.read_text()))
    trainer.notices = False
    with pytest.raises(Unfinished, match=f"1 of 2 runs.*{RUNS[1]}"):
        measure(1e-6)
    assert seen == [{claim.identifier: claim.rule for claim in figure.claims}]
    monkeypatch.setattr(figure, "claims", [replace(claim, rule="later") for claim in figure.claims], raising=False)
    assert measure().rules == seen[0]


def test_measured_again_from_the_checkpoint(measure, tmp_path, trainer, figure, text):
    record = measure()
    spectrum = {path: path.read_bytes() for path in (tmp_path / "runs/smoke/spectrum").iterdir()}
    for path in spectrum:
        path.write_bytes(b"damaged")  # not read
    how, (again,) = figure.measure_again(record, Inputs(tmp_path / "runs", text))
    assert again.measurements == record.measurements and "2" in how and trainer.trained == RUNS
    assert again.rules == record.rules and again.command == "the command"


def test_verified(figure, measure, text, tmp_path):
    inputs = Inputs(tmp_path / "runs", text)
    (tmp_path / "ledger").mkdir()
    assert "figure-1: " in figure.reproduce("smoke", inputs, tmp_path / "ledger", "c")
    assert "8 of 8" in verify("spectrum-roberta-smoke", tmp_path / "ledger", inputs)


# Before it is trained


@pytest.fixture
def there(measure):
    return measure()


@pytest.mark.parametrize("key", ["sizes", "model", "sentences"])
def test_a_record_of_another_plan_is_rejected(figure, there, text, tmp_path, key):
    inputs = Inputs(tmp_path / "runs", text)
    figure.check_ledger("smoke", inputs, [there])
    other = there.copy_with(configuration={**there.configuration, key: "other"})
    for check in (lambda: figure.check_ledger("smoke", inputs, [other]), lambda: figure.measure_again(other, inputs)):
        with pytest.raises(ValueError, match=f"spectrum-roberta-smoke .*{key}"):
            check()


def test_a_record_of_other_data_is_rejected(figure, there, text, tmp_path, trainer):
    inputs, other = Inputs(tmp_path / "elsewhere", text), there.copy_with(data="other")
    trainer.trained.clear()
    for check in (lambda: figure.check_ledger("smoke", inputs, [other]), lambda: figure.measure_again(other, inputs)):
        with pytest.raises(ValueError, match="spectrum-roberta-smoke .*data"):
            check()
    assert not trainer.trained and not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("run", RUNS)
def test_a_record_whose_runs_are_elsewhere_is_rejected(figure, there, text, tmp_path, run):
    (tmp_path / f"runs/smoke/{run}/done").unlink()
    with pytest.raises(ValueError, match="--verify spectrum-roberta-smoke"):
        figure.check_ledger("smoke", Inputs(tmp_path / "runs", text), [there])


def test_damaged_runs_are_rejected(measure, there, trainer, tmp_path):
    (tmp_path / f"runs/smoke/{RUNS[0]}/attempts.jsonl").unlink()
    shutil.rmtree(tmp_path / f"runs/smoke/{RUNS[1]}")
    trainer.trained.clear()
    with pytest.raises(ValueError, match="attempts.jsonl"):
        measure()
    assert not trainer.trained


def test_verification_resumes_in_time(figure, there, text, tmp_path, trainer):
    """What was removed is trained again, within the time budget."""
    with pytest.raises(Unfinished):
        figure.measure_again(there, Inputs(tmp_path / "again", text, minutes=0.0))
    assert trainer.trained == [*RUNS, RUNS[0]]
    with pytest.raises(ValueError, match="--data"):
        figure.measure_again(there, Inputs(tmp_path / "again"))


# The blocks


def test_blocks(text):
    """Of n tokens that begin with <s>; every token once, in order; an incomplete block is skipped."""
    dataset = open_dataset(text / "shard0/valid")
    tokens = [token for i in range(len(dataset)) for token in dataset[i].tolist()]
    blocks = Blocks(text / "shard0", 16, 0)
    found = [*blocks]
    assert all(len(block) == 16 and block[0] == 0 for block in found) and len(found) == len(tokens) // 15
    assert [token for block in found for token in block[1:]] == tokens[: 15 * len(found)]
    assert (blocks.counts.texts, blocks.counts.sentences) == (len(dataset), len(found))
    assert [*blocks] == found and blocks.counts.sentences == len(found) and blocks.describe_unfit() == ""


def test_cost(figure):
    assert figure.cost("smoke").split(", ") == ["2 runs", "10 updates", "0.0 M tokens", "4 sentences"]
    # 2,000 updates from scratch, 400 after each of two doublings, 500 more
    assert figure.cost("cpu") == "4 runs, 3,300 updates, 6.8 M tokens, 1,000 sentences"
    assert SCALES["gpu"].sentences == 10000 and SCALES["cpu"].compared_n == 64
