"""The demo's summary: its numbers are those of the logs, and a model that learned nothing fails."""

import json
import os
from types import SimpleNamespace

import pytest

from fairseq_linformer.reproduction import demo

PRETRAIN = """\
2026-01-01 00:00:00 | INFO | fairseq_cli.train | num. shared model params: 1,234,567 (num. trained: 1,234,000)
2026-01-01 00:00:00 | INFO | train_inner | {"epoch": 1, "loss": "9.5", "num_updates": "100"}
2026-01-01 00:00:00 | INFO | valid | {"epoch": 1, "valid_loss": "9.1", "valid_ppl": "548.7", "valid_num_updates": "200"}
2026-01-01 00:00:00 | INFO | train_inner | {"epoch": 2, "loss": "8.5", "num_updates": "200"}
"""
LOGS = {
    "pretrain": PRETRAIN,
    "finetune": '| valid | {"valid_accuracy": "50", "valid_num_updates": "10"}\n',
    "validate-before": '| valid | {"valid_loss": "9", "valid_ppl": "512"}\n',
    "validate-after": '| valid | {"valid_loss": "6", "valid_ppl": "64"}\n',
    "score": '| valid | {"valid_accuracy": "75"}\n',
}
GOOD = {"perplexity_after": 60.0, "context_free_perplexity": 213.0, "accuracy_percent": 75.0, "majority_percent": 27.6}


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A folder as ``scripts/demo.sh`` leaves it, whose checkpoint and text need not be read."""
    folder = tmp_path / "demo"
    for name in ("logs", "done", "data/task", "pretrain", "finetune", "spm"):
        (folder / name).mkdir(parents=True)
    for name, text in LOGS.items():
        (folder / "logs" / f"{name}.log").write_text(text)
    for i, (step, seconds) in enumerate([("pretrain", 90), ("corpus", 7)]):
        (folder / "done" / step).write_text(f"{seconds}\n")
        os.utime(folder / "done" / step, (i, i))
    for size, name in enumerate((demo.PRETRAINED, demo.FINETUNED, "spm/spm.model", "spm/dict.txt"), 1):
        (folder / name).write_bytes(bytes(1024 * size))
    manifest = {"splits": {"valid": {"classes": {"a": 2, "b": 1, "c": 1}}}}
    (folder / "data/task/manifest.json").write_text(json.dumps(manifest))
    model = {"max_positions": 64, "projected_dim": "16", "sharing": "headwise"}
    cfg = {"model": model, "task": {"tokens_per_sample": 32}, "optimization": {"max_update": 2000}}
    monkeypatch.setattr(demo, "read_checkpoint", lambda path: {"cfg": cfg})
    level = SimpleNamespace(unigram_bits=8.0, masked_bits=7.0)
    monkeypatch.setattr(demo.context_free, "measure", lambda text, n: level if n == 32 else None)
    return folder


def test_summary_table_and_chart(finished, capsys):
    demo.main(finished)
    summary = json.loads((finished / "summary.json").read_text())
    assert summary == {
        "shape": "n = 64, k = 16, sharing headwise",
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
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    for row in (
        "best without context 128.0 7.00",
        "after 2,000 updates 64.0 6.00",
        "finetuned 75.0 %",
        "97 s together",
    ):
        assert row.split() in rows
    assert "<svg" in (finished / "curves.svg").read_text()
    pretraining, finetuning = demo.chart(finished, summary)
    assert pretraining.lines == {"train": [[(100, 9.5), (200, 8.5)]], "valid": [[(200, 9.1)]]}
    assert finetuning.lines == {"valid": [[(10, 50.0)]]} and finetuning.levels == {"most frequent class": 50.0}


@pytest.mark.parametrize(
    "change, numbers",
    [
        ({"perplexity_after": 212.9}, []),
        ({"perplexity_after": 213.0}, ["213.0"]),
        ({"perplexity_after": float("nan")}, ["nan"]),
        ({"accuracy_percent": 27.7}, []),
        ({"accuracy_percent": 27.6}, ["27.6"]),
    ],
)
def test_a_model_that_learned_nothing_fails(change, numbers):
    found = demo.failures({**GOOD, **change})
    assert len(found) == len(numbers) and all(number in sentence for sentence, number in zip(found, numbers))


def test_a_demo_that_learned_nothing_exits_with_its_table(finished, capsys):
    (finished / "logs/score.log").write_text('| valid | {"valid_accuracy": "50"}\n')
    with pytest.raises(SystemExit, match="50.0 %"):
        demo.main(finished)
    assert "finetuned" in capsys.readouterr().out
