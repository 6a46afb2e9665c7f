"""A user's own rows: finetuned, evaluated and exported like those of a task."""

import json
import re
from pathlib import Path

import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset
from omegaconf import OmegaConf

from fairseq_linformer.cli import main

from ..checkpoint_fixtures import ROWS
from ..data.task_files import bins
from ..data.test_own_task import words, write
from .conftest import SHORT


@pytest.mark.slow
def test_finetuned_and_evaluated(command, masked_lm, pieces, tmp_path):
    """As any other task, with as many classes as the files have; prepared by ``finetune``, or before."""
    rows = [(text, "x", ("cat", "dog")[label]) for text, label in ROWS]
    rows += [("the the", "x", "neither")] * 4
    paths = write(tmp_path / "train.tsv", rows), write(tmp_path / "valid.tsv", rows[::2])
    checkpoint, columns = masked_lm / "checkpoint_last.pt", ["--text-column", "first", "--label-column", "mark"]
    files = [paths[0], checkpoint, "--valid", paths[1], "--data", tmp_path / "data"]
    options = ["--runs", tmp_path / "runs", "--device", "cpu", *SHORT]
    output = command("finetune", *files, *columns, *options, "--name", "cats")
    result = json.loads((tmp_path / "runs/cats/result.json").read_text())
    assert result["task"] == "own" and "train valid: accuracy" in output
    assert result["splits"]["valid"]["classes"] == ["cat", "dog", "neither"]
    accuracy = f"{100 * result['splits']['valid']['scores']['accuracy']['value']:.2f} %"
    best = tmp_path / "runs/cats/checkpoints/checkpoint_best.pt"
    assert accuracy in command("evaluate", tmp_path / "runs/cats", tmp_path / "data", "--device", "cpu")
    assert accuracy in command("evaluate", tmp_path / "runs/cats", paths[1], "--device", "cpu")  # with the same columns
    command("export", tmp_path / "runs/cats", tmp_path / "hf")
    assert json.loads((tmp_path / "hf/config.json").read_text())["id2label"] == {"0": "cat", "1": "dog", "2": "neither"}
    assert accuracy in command("evaluate", tmp_path / "hf", paths[1], "--device", "cpu")
    assert accuracy in command("evaluate", best, paths[1], *columns, "--device", "cpu")

    model = ["--tokenizer", pieces / "sentencepiece.bpe.model"]
    command("prepare", "own", tmp_path / "same", *words(*paths, ["first"]), *model, "--max-positions", 16)
    assert bins(tmp_path / "same") == bins(tmp_path / "data")
    again = command("finetune", tmp_path / "data", checkpoint, *options, "--name", "cats")
    assert again == output.replace("train valid", "data valid")
    error = command("finetune", tmp_path / "data", checkpoint, "task.num_classes=2")
    assert "task.num_classes=2 cannot be overridden" in error
    write(paths[1], rows[1::2])
    error = command("finetune", *files, *columns, *options, "--name", "cats")
    assert "data was made from other inputs: source must be" in error


@pytest.mark.slow
def test_a_file_without_options(masked_lm, tmp_path, monkeypatch, capsys):
    """Columns are recognized, rows are held out, and the learning rate is that of the width; all of this is said."""
    monkeypatch.chdir(tmp_path)
    texts = {f"{text} {word}": label for text, label in ROWS for word in ("cat", "dog", "mat", "the")}
    Path("pets.csv").write_text("text,label\n" + "".join(f"{text},{'cd'[label]}\n" for text, label in texts.items()))
    command = ["finetune", "pets.csv", str(masked_lm / "checkpoint_last.pt"), "--device", "cpu", *map(str, SHORT)]
    main([*command, "--dry-run"])
    assert "no error found; runs to train: 1 of 1" in capsys.readouterr().out and not Path("data").exists()
    main(command)
    output = capsys.readouterr()
    name = f"pets-{masked_lm.name}"
    counts = [len(MMapIndexedDataset(f"data/{name}/input0/{split}")) for split in ("train", "valid")]
    assert sum(counts) == len(texts) and 0 < counts[1] < 0.25 * len(texts)
    assert "pets.csv: text in text, labels in label" in output.err
    assert f"pets.csv: 2 classes in {len(texts)} rows: c, d" in output.err
    rows = f"data/{name}: {counts[0]} rows of train, {counts[1]} rows of valid"
    assert re.search(f"{rows}.*; own file, 10 % held out by the hash of the text, train [0-9a-f]{{12}}", output.err)
    assert "learning rate for a width of 16: 0.0005" in output.err
    result = json.loads(Path(f"runs/finetune/{name}/result.json").read_text())
    assert result["recipe"]["lr"] == 5e-4 and result["splits"]["valid"]["rows"] == counts[1]
    assert "pets valid: accuracy" in output.out and "warning: always predicting" in output.out


@pytest.mark.slow
def test_scores(masked_lm, tmp_path, monkeypatch, capsys):
    """300 different numbers are not 300 classes: the head has one output, and its correlation selects the epoch."""
    monkeypatch.chdir(tmp_path)
    texts = [f"{text} {word}" for text, _ in ROWS for word in ("cat", "dog", "mat", "the")]
    texts = [(texts[i % len(texts)], texts[i // len(texts)]) for i in range(300)]
    rows = [(a, b, round(5 * (a.count("cat") + i / 300) / (1 + len(a)), 4)) for i, (a, b) in enumerate(texts)]
    lines = ["sentence1,sentence2,score", *(",".join(map(str, row)) for row in rows)]
    Path("pairs.csv").write_text("\n".join(lines))
    command = ["finetune", "pairs.csv", masked_lm / "checkpoint_last.pt", "--device", "cpu", *SHORT, "--name", "pairs"]
    main([*map(str, command)])
    output = capsys.readouterr()
    low, high = min(row[2] for row in rows), max(row[2] for row in rows)
    assert f"pairs.csv: scores from {low:g} to {high:g}, scaled to 0 to 1, in 300 rows" in output.err
    assert "pairs valid: pearson" in output.out
    result = json.loads(Path("runs/pairs/result.json").read_text())
    scores = result["splits"]["valid"]["scores"]
    assert result["task"] == "own" and set(scores) == {"pearson", "spearman"}
    config = OmegaConf.load("runs/pairs/config.yaml")
    assert config.task.num_classes == 1 and config.criterion.regression_target
    assert config.checkpoint.best_checkpoint_metric == "pearson_and_spearman"
    name = f"data/pairs-{masked_lm.name}"
    main([*map(str, ["evaluate", "runs/pairs", name, "--device", "cpu", "--json", "a.json"])])
    assert json.loads(Path("a.json").read_text())["scores"] == scores
    words = ["evaluate", "runs/pairs", "pairs.csv", "--device", "cpu", "--json", "b.json", "--predictions", "p.jsonl"]
    main(words)
    predicted = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    assert [row["label"] for row in predicted] == [row[2] for row in rows]
    found = json.loads(Path("b.json").read_text())["scores"]
    main(["export", "runs/pairs", "hf"])
    main(["evaluate", "hf", "pairs.csv", "--device", "cpu", "--json", "c.json"])  # with the columns of its training
    exported = json.loads(Path("c.json").read_text())["scores"]
    assert {name: score["value"] for name, score in exported.items()} == pytest.approx(
        {name: score["value"] for name, score in found.items()}, abs=1e-4
    )
    with pytest.raises(SystemExit, match="was made from other inputs: source must be"):
        main([*map(str, [*command, "--no-regression", "--data", name])])


@pytest.mark.slow
def test_scores_that_have_no_correlation(masked_lm, tmp_path, monkeypatch):
    """With one row of validation no epoch is the best, so the last one is scored."""
    monkeypatch.chdir(tmp_path)
    Path("stars.csv").write_text("".join(["text,label\n", *(f"{text},{i / 4}\n" for i, (text, _) in enumerate(ROWS))]))
    Path("one.csv").write_text("text,label\nthe cat,0.5\n")
    options = ["--valid", "one.csv", "--device", "cpu", "--name", "stars", *SHORT]
    main([*map(str, ["finetune", "stars.csv", masked_lm / "checkpoint_last.pt", *options])])
    result = json.loads(Path("runs/stars/result.json").read_text())
    assert result["checkpoint"] == "checkpoints/checkpoint_last.pt"
    assert result["splits"]["valid"]["scores"]["pearson"] == {"value": 0, "interval": [-1, 1]}
