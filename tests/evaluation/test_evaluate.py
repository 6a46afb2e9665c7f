"""``fairseq-linformer evaluate`` against a loop written by hand, fairseq's own numbers and the same model in transformers."""

import io
import json
import shutil
import sys

import numpy as np
import pytest
import torch

from fairseq_linformer.cli import main
from fairseq_linformer.models import LinformerRobertaModel

from .. import stock
from .rows import ROWS, NAMES, read_predictions


def by_hand(finetuned, pieces):
    """(rows, classes) probabilities, each sentence alone, through fairseq's own interface."""
    hub = LinformerRobertaModel.from_pretrained(str(finetuned.parent), finetuned.name, str(pieces)).eval()
    rows = [hub.encode(text) for text, _ in ROWS]
    rows = [row if len(row) <= 16 else torch.cat([row[:15], row[-1:]]) for row in rows]
    return np.array([hub.predict("animal", row).exp()[0].tolist() for row in rows])


def test_it_is_what_a_loop_by_hand_finds(evaluate, finetuned, pieces, table, tmp_path):
    expected = by_hand(finetuned, pieces)
    said = evaluate(finetuned, table, "--predictions", tmp_path / "p.jsonl", "--json", tmp_path / "s.json", "--device", "cpu")
    rows, summary = read_predictions(tmp_path / "p.jsonl"), json.loads((tmp_path / "s.json").read_text())
    found = np.array([[row["probabilities"][name] for name in NAMES] for row in rows])
    assert len(set(found.argmax(1))) == 2  # and not one answer for all
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert [row["prediction"] for row in rows] == [NAMES[c] for c in expected.argmax(1)] and [row["row"] for row in rows] == list(range(1, len(ROWS) + 1))
    accuracy = (expected.argmax(1) == [label for _, label in ROWS]).mean()
    assert summary["scores"]["accuracy"]["value"] == accuracy and f"{100 * accuracy:.2f} %" in said
    assert summary["throughput"]["rows"] == len(ROWS)


def test_the_batch_does_not_matter(evaluate, finetuned, table, tmp_path):
    found = []
    for i, options in enumerate((["--batch-size", 1], ["--max-tokens", 40], ["--batch-size", 7], [])):
        evaluate(finetuned, table, "--predictions", tmp_path / f"{i}.jsonl", "--device", "cpu", *options)
        found.append(read_predictions(tmp_path / f"{i}.jsonl"))
    for other in found[1:]:
        assert [row["prediction"] for row in other] == [row["prediction"] for row in found[0]]
        for one, two in zip(found[0], other):
            assert one["probabilities"] == pytest.approx(two["probabilities"], abs=2e-6)


def test_it_is_what_transformers_finds(evaluate, finetuned, classifier_folder, table, tmp_path):
    for name, model in (("ours", finetuned), ("theirs", classifier_folder)):
        evaluate(model, table, "--predictions", tmp_path / f"{name}.jsonl", "--json", tmp_path / f"{name}.json", "--device", "cpu")
    ours, theirs = (read_predictions(tmp_path / f"{name}.jsonl") for name in ("ours", "theirs"))
    for one, two in zip(ours, theirs):
        assert one["prediction"] == two["prediction"] and one["probabilities"] == pytest.approx(two["probabilities"], abs=2e-6)
    ours, theirs = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("ours", "theirs"))
    assert ours["scores"] == theirs["scores"] and ours["confusion"] == theirs["confusion"]


def test_a_prepared_folder_gives_fairseqs_accuracy(evaluate, finetuned, pieces, capsys, caplog, tmp_path):
    evaluate(finetuned, pieces, "--json", tmp_path / "s.json", "--device", "cpu")
    caplog.set_level("INFO")
    stock.command("validate", pieces, "--user-dir", stock.PLUGIN, "--path", finetuned, "--task", "sentence_prediction", "--criterion", "sentence_prediction",
                  "--classification-head-name", "animal", "--num-classes", 2, "--init-token", 0, "--max-positions", 16, "--batch-size", 8, "--cpu",
                  "--log-format", "json")  # fmt: skip
    accuracy = stock.last_number(caplog.text, "valid_accuracy")
    assert 100 * json.loads((tmp_path / "s.json").read_text())["scores"]["accuracy"]["value"] == pytest.approx(accuracy, abs=0.006)


def test_without_labels_it_only_predicts(evaluate, finetuned, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(text for text, _ in ROWS).encode())))
    main(["evaluate", str(finetuned), "-", "--predictions", "-", "--device", "cpu"])
    found = capsys.readouterr()
    lines = found.out.splitlines()
    assert lines[0] == "row\tlabel\tprediction\tp(animal: cat)\tp(dog)" and len(lines) == 1 + len(ROWS)
    assert lines[1].split("\t")[:2] == ["1", ""] and lines[1].split("\t")[2] in NAMES
    assert "no labels: nothing is scored" in found.err


def test_long_texts_are_cut_as_prepare_does(evaluate, finetuned, tmp_path):
    words = "a cat sat on the mat and a dog ran to the mat"
    (tmp_path / "long.txt").write_text(f"{words} {words} {words}\n{words} {words}\n")
    evaluate(finetuned, tmp_path / "long.txt", "--predictions", tmp_path / "p.jsonl", "--device", "cpu")
    one, two = read_predictions(tmp_path / "p.jsonl")
    assert one["probabilities"] == two["probabilities"]  # the same first 14 tokens
    evaluate(finetuned, tmp_path / "long.txt", "--predictions", tmp_path / "q.jsonl", "--device", "cpu", "--cut", "head+tail")
    assert read_predictions(tmp_path / "q.jsonl")[0]["probabilities"] != one["probabilities"]


def test_texts_are_cut_as_in_training(evaluate, finetuned, tmp_path):
    long = " ".join(["the cat sat"] * 20 + ["dog"])
    (tmp_path / "long.txt").write_text(f"{long}\n")
    shutil.copytree(finetuned.parent, tmp_path / "beside")
    found = {}
    for cut in ("head", "head+tail"):
        (tmp_path / "beside" / "manifest.json").write_text(json.dumps({"cut": cut}))
        found[cut] = evaluate(tmp_path / "beside" / finetuned.name, tmp_path / "long.txt", "--predictions", "-")
        assert found[cut] == evaluate(finetuned, tmp_path / "long.txt", "--predictions", "-", "--cut", cut)
    assert found["head"] != found["head+tail"]
    (tmp_path / "beside" / "manifest.json").write_text("{")
    assert "manifest.json cannot be read; --cut says how texts are cut" in evaluate(tmp_path / "beside" / finetuned.name, tmp_path / "long.txt")
