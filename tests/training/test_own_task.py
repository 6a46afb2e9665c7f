"""A user's own task: finetuned, evaluated and exported like any other."""

import json

import pytest

from fairseq_linformer.cli import main

from ..checkpoint_fixtures import ROWS
from ..data.test_own_task import words, write
from .conftest import SHORT


@pytest.mark.slow
def test_finetuned_and_evaluated(masked_lm, pieces, tmp_path, capsys):
    """As any other task, with as many classes as it has."""

    def run(*arguments):
        capsys.readouterr()
        main([*map(str, arguments)])
        return capsys.readouterr().out

    rows = [(text, "x", ("cat", "dog")[label]) for text, label in ROWS]
    rows += [("the the", "x", "neither")] * 4
    paths = write(tmp_path / "train.tsv", rows), write(tmp_path / "valid.tsv", rows[::2])
    model = ["--tokenizer", pieces / "sentencepiece.bpe.model"]
    run("prepare", "own", tmp_path / "data", *words(*paths, ["first"]), *model, "--max-positions", 16)
    checkpoint, folders = masked_lm / "checkpoint_last.pt", ["--data", tmp_path / "data", "--runs", tmp_path / "runs"]
    output = run("finetune", "own", checkpoint, *folders, "--name", "cats", "--device", "cpu", *SHORT)
    result = json.loads((tmp_path / "runs/cats/result.json").read_text())
    assert result["task"] == "own" and "own valid: accuracy" in output
    assert result["splits"]["valid"]["classes"] == ["cat", "dog", "neither"]
    accuracy = f"{100 * result['splits']['valid']['scores']['accuracy']['value']:.2f} %"
    best = tmp_path / "runs/cats/checkpoints/checkpoint_best.pt"
    assert accuracy in run("evaluate", tmp_path / "runs/cats", tmp_path / "data", "--device", "cpu")
    run("export", tmp_path / "runs/cats", tmp_path / "hf")
    assert json.loads((tmp_path / "hf/config.json").read_text())["id2label"] == {"0": "cat", "1": "dog", "2": "neither"}
    columns = ["--text-column", "first", "--label-column", "mark"]
    assert accuracy in run("evaluate", best, paths[1], *columns, "--device", "cpu")
    with pytest.raises(SystemExit, match="task.num_classes=2 cannot be overridden"):
        run("finetune", "own", checkpoint, *folders, "--device", "cpu", "task.num_classes=2")
