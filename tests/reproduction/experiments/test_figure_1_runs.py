"""Figure 1: its RoBERTa, the blocks that are analyzed, its record, and rejections before it is trained."""
# ruff: noqa: F811 (fixtures are imported)

import shutil

import pytest

from fairseq_linformer.evaluation.encoded_rows import open_dataset
from fairseq_linformer.reproduction.experiments import figure_1
from fairseq_linformer.reproduction.experiments.figure_1 import Blocks
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.text import describe_text

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


# Before it is trained


@pytest.fixture
def there(measure):
    return measure()


def test_damaged_runs_are_rejected(measure, there, trainer, tmp_path):
    (tmp_path / f"runs/smoke/{RUNS[0]}/attempts.jsonl").unlink()
    shutil.rmtree(tmp_path / f"runs/smoke/{RUNS[1]}")
    trainer.trained.clear()
    with pytest.raises(ValueError, match="attempts.jsonl"):
        measure()
    assert not trainer.trained


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
