"""``evaluate`` against a loop, fairseq's own accuracy and the same model in transformers."""

import io
import json
import shutil
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairseq_linformer.cli import main
from fairseq_linformer.evaluation import evaluate as evaluate_module
from fairseq_linformer.evaluation.encoded_rows import EncodedRow
from fairseq_linformer.models import LinformerRobertaModel

from .. import fairseq_commands
from .labeled_rows import NAMES, ROWS, read_predictions


def predict_in_a_loop(finetuned, pieces):
    """Probabilities (rows, classes) from fairseq's own interface, one sentence at a time."""
    hub = LinformerRobertaModel.from_pretrained(str(finetuned.parent), finetuned.name, str(pieces)).eval()
    rows = [hub.encode(text) for text, _ in ROWS]
    rows = [row if len(row) <= 16 else torch.cat([row[:15], row[-1:]]) for row in rows]
    return np.array([hub.predict("animal", row).exp()[0].tolist() for row in rows])


def test_predictions_equal_a_loop_with_fairseqs_interface(evaluate, finetuned, pieces, table, tmp_path):
    expected = predict_in_a_loop(finetuned, pieces)
    report = evaluate(
        finetuned, table, "--predictions", tmp_path / "p.jsonl", "--json", tmp_path / "s.json", "--device", "cpu"
    )
    rows, summary = read_predictions(tmp_path / "p.jsonl"), json.loads((tmp_path / "s.json").read_text())
    probabilities = np.array([[row["probabilities"][name] for name in NAMES] for row in rows])
    assert len(set(probabilities.argmax(1))) == 2  # both classes are predicted
    np.testing.assert_allclose(probabilities, expected, atol=2e-6)
    assert [row["prediction"] for row in rows] == [NAMES[c] for c in expected.argmax(1)]
    assert [row["row"] for row in rows] == list(range(1, len(ROWS) + 1))
    accuracy = (expected.argmax(1) == [NAMES.index(label) for _, label in ROWS]).mean()
    assert summary["scores"]["accuracy"]["value"] == accuracy and f"{100 * accuracy:.2f} %" in report
    assert summary["throughput"]["rows"] == len(ROWS)


def test_batch_limits_do_not_change_predictions(evaluate, finetuned, table, tmp_path):
    first, *others = (["--batch-size", 1], ["--max-tokens", 40], ["--batch-size", 7], [])

    def predict(options):
        path = tmp_path / f"predictions{''.join(map(str, options))}.jsonl"
        evaluate(finetuned, table, "--predictions", path, "--device", "cpu", *options)
        return read_predictions(path)

    expected = predict(first)
    for options in others:
        rows = predict(options)
        assert [row["prediction"] for row in rows] == [row["prediction"] for row in expected]
        for row, expected_row in zip(rows, expected):
            assert row["probabilities"] == pytest.approx(expected_row["probabilities"], abs=2e-6)


def test_fairseq_and_transformers_models_agree(evaluate, finetuned, classifier_folder, table, tmp_path):
    for name, model in (("fairseq", finetuned), ("transformers", classifier_folder)):
        evaluate(
            model,
            table,
            "--predictions",
            tmp_path / f"{name}.jsonl",
            "--json",
            tmp_path / f"{name}.json",
            "--device",
            "cpu",
        )
    names = ("fairseq", "transformers")
    rows, other_rows = (read_predictions(tmp_path / f"{name}.jsonl") for name in names)
    assert len(rows) == len(other_rows)
    for row, other in zip(rows, other_rows):
        assert row["prediction"] == other["prediction"]
        assert row["probabilities"] == pytest.approx(other["probabilities"], abs=2e-6)
    summary, other_summary = (json.loads((tmp_path / f"{name}.json").read_text()) for name in names)
    assert summary["scores"] == other_summary["scores"] and summary["confusion"] == other_summary["confusion"]


@pytest.mark.slow
def test_accuracy_of_a_prepared_folder_equals_fairseqs(evaluate, finetuned, pieces, capsys, caplog, tmp_path):
    evaluate(finetuned, pieces, "--json", tmp_path / "s.json", "--device", "cpu")
    caplog.set_level("INFO")
    fairseq_commands.command(
        "validate",
        pieces,
        "--user-dir",
        fairseq_commands.PLUGIN,
        "--path",
        finetuned,
        "--task",
        "sentence_prediction",
        "--criterion",
        "sentence_prediction",
        "--classification-head-name",
        "animal",
        "--num-classes",
        2,
        "--init-token",
        0,
        "--max-positions",
        16,
        "--batch-size",
        8,
        "--cpu",
        "--log-format",
        "json",
    )
    accuracy = fairseq_commands.last_number(caplog.text, "valid_accuracy")
    assert 100 * json.loads((tmp_path / "s.json").read_text())["scores"]["accuracy"]["value"] == pytest.approx(
        accuracy, abs=0.006
    )


def test_unlabeled_rows_are_only_predicted(evaluate, finetuned, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(text for text, _ in ROWS).encode())))
    main(["evaluate", str(finetuned), "-", "--predictions", "-", "--device", "cpu"])
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0] == "row\tlabel\tprediction\tp(animal: cat)\tp(dog)" and len(lines) == 1 + len(ROWS)
    assert lines[1].split("\t")[:2] == ["1", ""] and lines[1].split("\t")[2] in NAMES
    assert "no labels, so no scores" in output.err


def test_long_texts_are_truncated_as_by_prepare(evaluate, finetuned, tmp_path):
    words = "a cat sat on the mat and a dog ran to the mat"
    (tmp_path / "long.txt").write_text(f"{words} {words} {words}\n{words} {words}\n")
    evaluate(finetuned, tmp_path / "long.txt", "--predictions", tmp_path / "p.jsonl", "--device", "cpu")
    longer, shorter = read_predictions(tmp_path / "p.jsonl")
    assert longer["probabilities"] == shorter["probabilities"]  # the same first 14 tokens
    evaluate(
        finetuned,
        tmp_path / "long.txt",
        "--predictions",
        tmp_path / "q.jsonl",
        "--device",
        "cpu",
        "--truncation",
        "head+tail",
    )
    assert read_predictions(tmp_path / "q.jsonl")[0]["probabilities"] != longer["probabilities"]


def test_default_truncation_is_that_of_training(evaluate, finetuned, tmp_path):
    long = " ".join(["the cat sat"] * 20 + ["dog"])
    (tmp_path / "long.txt").write_text(f"{long}\n")
    folder, outputs = tmp_path / "model", {}
    shutil.copytree(finetuned.parent, folder)
    arguments = (tmp_path / "long.txt", "--predictions", "-")
    for truncation in ("head", "head+tail"):
        (folder / "manifest.json").write_text(json.dumps({"cut": truncation}))
        outputs[truncation] = evaluate(folder / finetuned.name, *arguments)
        assert outputs[truncation] == evaluate(finetuned, *arguments, "--truncation", truncation)
    assert outputs["head"] != outputs["head+tail"]
    (folder / "manifest.json").write_text("{")
    assert "manifest.json cannot be read" in evaluate(folder / finetuned.name, tmp_path / "long.txt")


@pytest.mark.parametrize("classes", [0, 2])
def test_labeled_rows_need_little_memory(classes, tmp_path, monkeypatch):
    """A million rows are scored at the end: 8 bytes per target and output until then."""
    rows, held = 4000, {}

    def predict(_, __, throughput, *___):
        for i in range(rows):
            yield EncodedRow(f"rows:{i}", None, i % 2), torch.full((max(classes, 1),), float(i))
            throughput.rows += 1
            if i + 1 in (rows // 4, rows):
                held[i + 1] = tracemalloc.get_traced_memory()[0]

    monkeypatch.setattr(evaluate_module.predict, "predict", predict)
    monkeypatch.setattr(evaluate_module, "_rows", lambda *_: (rows, iter(())))
    (tmp_path / "rows.txt").touch()
    classifier = SimpleNamespace(names=["no", "yes"][:classes], is_score=not classes)
    data = evaluate_module.EvaluationData(str(tmp_path / "rows.txt"))
    tracemalloc.start()
    try:
        result = evaluate_module.evaluate(classifier, data)
    finally:
        tracemalloc.stop()
    assert result.scores.rows == rows
    assert (held[rows] - held[rows // 4]) / (0.75 * rows) < 2 * 8 * (1 + max(classes, 1))
