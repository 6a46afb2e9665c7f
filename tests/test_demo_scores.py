"""The demo's numbers are those of the logs, and a model that learned nothing fails."""

import json

import pytest

from scripts import demo_scores as demo

LOGS = {
    "validate-before": '| valid | {"valid_loss": "9", "valid_ppl": "512"}\n',
    "validate-after": '| valid | {"valid_loss": "6", "valid_ppl": "64"}\n',
    "score": '| valid | {"valid_accuracy": "60"}\n| valid | {"valid_accuracy": "75"}\n',
}
GOOD = {"pretrained": 60.0, "best without context": 213.0, "finetuned": 75.0, "most frequent class": 27.6}


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A folder as ``scripts/demo.sh`` leaves it, whose checkpoint and text need not be read."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "data/task").mkdir(parents=True)
    for name, text in LOGS.items():
        (tmp_path / "logs" / f"{name}.log").write_text(text)
    manifest = {"splits": {"valid": {"classes": {"a": 2, "b": 1, "c": 1}}}}
    (tmp_path / "data/task/manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setattr(demo, "read_checkpoint", lambda path: {"cfg": {"task": {"tokens_per_sample": 32}}})
    monkeypatch.setattr(demo.context_free, "measure_bits", lambda text, n: {32: 7.0}[n])
    return tmp_path


def test_numbers(finished, capsys):
    demo.main(finished)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "masked-LM perplexity, untrained 512.0",
        "masked-LM perplexity, best without context 128.0",
        "masked-LM perplexity, pretrained 64.0",
        "accuracy, most frequent class 50.0 %",
        "accuracy, finetuned 75.0 %",
    ]


@pytest.mark.parametrize(
    "change, number",
    [
        ({"pretrained": 212.9}, 0),
        ({"pretrained": 213.0}, 1),
        ({"pretrained": float("nan")}, 1),
        ({"finetuned": 27.7}, 0),
        ({"finetuned": 27.6}, 1),
    ],
)
def test_a_model_that_learned_nothing_fails(change, number):
    assert len(demo.failures({**GOOD, **change})) == number
