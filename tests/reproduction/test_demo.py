"""The demo's summary: its numbers are those of the logs, and a model that learned nothing fails."""

import json
import os
from types import SimpleNamespace

import pytest

from fairseq_linformer.reproduction import demo

PRETRAIN = """\
2026-01-01 00:00:00 | INFO | fairseq_cli.train | num. shared model params: 1,234,567 (num. trained: 1,234,000)
2026-01-01 00:00:00 | INFO | train_inner | {"epoch": 1, "loss": "9.5", "num_updates": "100"}
2026-01-01 00:00:00 | INFO | train_inner | {"epoch": 1, "loss": "9", "num_updates": "200"}
2026-01-01 00:00:00 | INFO | valid | {"epoch": 1, "valid_loss": "9.1", "valid_ppl": "548.7", "valid_num_updates": "200"}
2026-01-01 00:00:00 | INFO | train | {"train_loss": "7.5", "train_num_updates": "200"}
2026-01-01 00:00:00 | INFO | train_inner | {"epoch": 2, "loss": "8.5", "num_updates": "200"}
2026-01-01 00:00:00 | INFO | train_inner | {"epoch": 2, "loss": "8", "num_updates": "150"}
2026-01-01 00:00:01 | INFO | valid | {"epoch": 2, "valid_loss": "6.5", "valid_ppl": "90.51", "valid_num_updates": "300"}
2026-01-01 00:00:01 | INFO | valid | {"epoch": 2, "valid_loss": "6.
2026-01-01 00:00:02 | INFO | fairseq_cli.train | done training in 3.0 seconds
"""
LOGS = {
    "pretrain": PRETRAIN,
    "finetune": '| valid | {"valid_accuracy": "50", "valid_num_updates": "10"}\n',
    "validate-before": '| valid | {"valid_loss": "9", "valid_ppl": "512"}\n',
    "validate-after": '| valid | {"valid_loss": "6", "valid_ppl": "64"}\n',
    "score": '| valid | {"valid_accuracy": "75"}\n',
}
GOOD = {"perplexity_after": 60.0, "context_free_perplexity": 213.0, "accuracy_percent": 75.0, "majority_percent": 27.6}
LEVEL = SimpleNamespace(unigram_bits=8.0, masked_bits=7.0)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(PRETRAIN)
    return path


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A folder as ``scripts/demo.sh`` leaves it, whose checkpoint and text need not be read."""
    folder = tmp_path / "demo"
    for name, text in LOGS.items():
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        (folder / "logs" / f"{name}.log").write_text(text)
    for i, (step, seconds) in enumerate([("pretrain", 90), ("corpus", 7)]):
        (folder / "done").mkdir(exist_ok=True)
        (folder / "done" / step).write_text(f"{seconds}\n")
        os.utime(folder / "done" / step, (i, i))
    for size, name in enumerate((demo.PRETRAINED, demo.FINETUNED, "spm/spm.model", "spm/dict.txt"), 1):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x" * 1024 * size)
    (folder / "data/task").mkdir(parents=True)
    (folder / demo.TASK).write_text(json.dumps({"splits": {"valid": {"classes": {"a": 2, "b": 1, "c": 1}}}}))
    model = SimpleNamespace(max_positions=64, projected_dim="16", sharing="headwise")
    task = SimpleNamespace(tokens_per_sample=32)
    cfg = {"cfg": {"model": model, "task": task, "optimization": {"max_update": 2000}}}

    def load(path):
        if path != str(folder / demo.PRETRAINED):
            raise FileNotFoundError(path)
        return cfg

    def measure(*arguments):
        assert arguments == (folder / demo.TEXT, 32)
        return LEVEL

    monkeypatch.setattr("fairseq.checkpoint_utils.load_checkpoint_to_cpu", load)
    monkeypatch.setattr(demo.context_free, "measure", measure)
    return folder


# Logs


def test_a_curve_is_in_order_and_has_the_later_value_of_an_update(log):
    assert demo.read_values(log, "train_inner", "loss") == [(100, 9.5), (150, 8.0), (200, 8.5)]
    assert demo.read_values(log, "valid", "valid_loss") == [(200, 9.1), (300, 6.5)]
    assert demo.last_value(log, "valid_ppl") == 90.51


def test_without_updates_the_last_number_counts(log):
    log.write_text('| valid | {"valid_accuracy": "50"}\n| valid | {"valid_accuracy": "75"}\n')
    assert demo.last_value(log, "valid_accuracy") == 75.0


@pytest.mark.parametrize("split, name", [("valid", "valid_accuracy"), ("test", "loss"), ("train_inner", "valid_loss")])
def test_a_missing_number_is_an_error(split, name, log):
    with pytest.raises(ValueError, match=f"train.log.*{name}.*{split}"):
        demo.read_values(log, split, name)


def test_parameters_are_those_that_fairseq_counted(log):
    assert demo.count_parameters(log) == 1234567
    log.write_text("nothing")
    with pytest.raises(ValueError, match="train.log.*params"):
        demo.count_parameters(log)


# The summary


def test_the_summary_of_a_finished_demo(finished):
    summary = demo.summarize(finished)
    apex = summary.pop("apex")
    assert isinstance(apex, bool) and summary == {
        "max_positions": 64,
        "projected_dim": "16",
        "sharing": "headwise",
        "updates": 2000,
        "parameters": 1234567,
        "unigram_bits": 8.0,
        "unigram_perplexity": 256.0,
        "context_free_bits": 7.0,
        "context_free_perplexity": 128.0,
        "bits_before": 9.0,
        "bits_after": 6.0,
        "perplexity_before": 512.0,
        "perplexity_after": 64.0,
        "majority_percent": 50.0,
        "accuracy_percent": 75.0,
        "classes": 3,
        "examples": 4,
        "seconds": {"pretrain": 90, "corpus": 7},  # in the order in which they ended
        "files": {
            str(finished / "pretrain/checkpoint_last.pt"): 1024,
            str(finished / "finetune/checkpoint_best.pt"): 2048,
            str(finished / "spm/spm.model"): 3072,
            str(finished / "spm/dict.txt"): 4096,
        },
    }
    assert [*summary["seconds"]] == ["pretrain", "corpus"]


@pytest.mark.parametrize(
    "change, numbers",
    [
        ({}, []),
        ({"perplexity_after": 212.9}, []),
        ({"perplexity_after": 213.0}, [("213.0",)]),
        ({"perplexity_after": float("nan")}, [("nan", "213.0")]),
        ({"accuracy_percent": 27.7}, []),
        ({"accuracy_percent": 27.6}, [("27.6",)]),
        ({"accuracy_percent": float("nan")}, [("nan", "27.6")]),
        ({"perplexity_after": 300.0, "accuracy_percent": 5.0}, [("300.0", "213.0"), ("5.0", "27.6")]),
    ],
)
def test_a_model_that_learned_nothing_fails(change, numbers):
    found = demo.failures({**GOOD, **change})
    assert len(found) == len(numbers)
    assert all(number in sentence for sentence, several in zip(found, numbers) for number in several)


def test_the_table(finished):
    rows = [line.split() for line in demo.table(demo.summarize(finished)).splitlines()]
    expected = """unigram entropy 256.0 8.00
        best without context 128.0 7.00
        untrained 512.0 9.00
        after 2,000 updates 64.0 6.00
        most frequent class 50.0 %
        finetuned 75.0 %
        steps 90 s pretrain
        7 s corpus
        97 s together"""
    for row in expected.splitlines():
        assert row.split() in rows
    assert ["3", "KiB", str(finished / "spm/spm.model")] in rows
    (model,) = (row for row in rows if row[:1] == ["model"])
    assert {"64,", "16,", "headwise,", "1,234,567"} <= set(model)


# The command


def test_the_command_writes_picture_and_summary(finished, capsys):
    demo.main([str(finished)])
    summary = json.loads((finished / "summary.json").read_text())
    assert summary == demo.summarize(finished) and demo.table(summary) in capsys.readouterr().out
    assert "<svg" in (finished / "curves.svg").read_text()


def test_the_picture_has_the_curves_of_the_logs(finished):
    pretraining, finetuning = demo.chart(finished, demo.summarize(finished))
    assert pretraining.lines == {"train": [[(100, 9.5), (150, 8.0), (200, 8.5)]], "valid": [[(200, 9.1), (300, 6.5)]]}
    assert finetuning.lines == {"valid": [[(10, 50.0)]]}
    assert (pretraining.levels, finetuning.levels) == ({"without context": 7.0}, {"most frequent class": 50.0})


def test_a_demo_that_learned_nothing_exits_with_its_table(finished, capsys):
    (finished / "logs/score.log").write_text('| valid | {"valid_accuracy": "50"}\n')
    with pytest.raises(SystemExit, match="50.0 %"):
        demo.main([str(finished)])
    assert "finetuned" in capsys.readouterr().out and (finished / "summary.json").is_file()


@pytest.mark.parametrize("missing", ["logs/pretrain.log", "logs/validate-after.log", "done", demo.FINETUNED, None])
def test_an_unfinished_demo_is_one_line(missing, finished, tmp_path):
    if missing is not None:
        (finished / missing).rename(tmp_path / "moved")
    with pytest.raises(SystemExit) as stopped:
        demo.main([str(tmp_path / "nowhere" if missing is None else finished)])
    assert str(stopped.value).startswith("demo: ") and "\n" not in str(stopped.value)
    assert not (finished / "summary.json").exists()
