"""``evaluate`` against a loop with fairseq's own interface."""

import io
import json
import shutil
import sys

import numpy as np
import torch

from fairseq_linformer.cli import main
from fairseq_linformer.models import LinformerRobertaModel

from .labeled_rows import NAMES, ROWS, read_predictions


def predict_in_a_loop(finetuned, pieces):
    """Probabilities (rows, classes) from fairseq's own interface, one sentence at a time."""
    hub = LinformerRobertaModel.from_pretrained(str(finetuned.parent), finetuned.name, str(pieces)).eval()
    rows = [hub.encode(text) for text, _ in ROWS]
    rows = [row if len(row) <= 16 else torch.cat([row[:15], row[-1:]]) for row in rows]
    return np.array([hub.predict("animal", row).exp()[0].tolist() for row in rows])


def test_predictions_equal_a_loop_with_fairseqs_interface(evaluate, finetuned, pieces, table, tmp_path):
    expected = predict_in_a_loop(finetuned, pieces)
    report = evaluate(finetuned, table, "--predictions", tmp_path / "p.jsonl", "--json", tmp_path / "s.json")
    rows, summary = read_predictions(tmp_path / "p.jsonl"), json.loads((tmp_path / "s.json").read_text())
    probabilities = np.array([[row["probabilities"][name] for name in NAMES] for row in rows])
    assert len(set(probabilities.argmax(1))) == 2  # both classes are predicted
    np.testing.assert_allclose(probabilities, expected, atol=2e-6)
    assert [row["prediction"] for row in rows] == [NAMES[c] for c in expected.argmax(1)]
    assert [row["row"] for row in rows] == list(range(1, len(ROWS) + 1))
    accuracy = (expected.argmax(1) == [NAMES.index(label) for _, label in ROWS]).mean()
    assert summary["scores"]["accuracy"]["value"] == accuracy and f"{100 * accuracy:.2f} %" in report
    assert set(summary) >= {"checkpoint", "on", "rows", "scores", "majority", "confusion", "classes"}
    assert summary["throughput"]["rows"] == len(ROWS)


def test_unlabeled_rows_are_only_predicted(finetuned, monkeypatch, capsys):
    """Also a blank line, so that line N of the output belongs to line N of the input."""
    texts = [*(text for text, _ in ROWS), "", "cat"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    main(["evaluate", str(finetuned), "-", "--predictions", "-", "--device", "cpu"])
    output = capsys.readouterr()
    header, *lines = output.out.splitlines()
    assert header == "row\tlabel\tprediction\tp(animal: cat)\tp(dog)" and len(lines) == len(texts)
    assert all(line.split("\t")[:2] == [str(i), ""] and line.split("\t")[2] in NAMES for i, line in enumerate(lines, 1))
    assert "no labels, so no scores" in output.err and f"1 of {len(texts)} lines are blank" in output.err


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


def test_rejects_rows_that_were_prepared_for_longer_inputs(evaluate, finetuned, pieces, tmp_path):
    shutil.copytree(pieces, tmp_path / "ready")
    (tmp_path / "ready/manifest.json").write_text('{"max_positions": 17}')
    assert "ready was prepared for n = 17, but the model has n = 16" in evaluate(finetuned, tmp_path / "ready")
