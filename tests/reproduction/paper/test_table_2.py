"""Table 2 without its models: which checkpoints of a grid are compared, and what their answers are compared with."""

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fairseq_linformer.machine import provenance
from fairseq_linformer.reproduction.paired import unpack
from fairseq_linformer.reproduction.paper import table_2
from fairseq_linformer.reproduction.result import Inputs, Row
from fairseq_linformer.reproduction.run import Model


def test_the_seeds_of_the_best_setting_count(tmp_path, monkeypatch):
    def finetune(job):
        assert job.checkpoint.path == str(tmp_path / "n512-k128-headwise/checkpoints/checkpoint_last.pt")
        return [
            {
                "recipe": asdict(recipe),
                "splits": {"valid": {"scores": {"accuracy": {"value": 0.9 if recipe.lr == 2e-5 else 0.8}}}},
                "data": "rows",
                "seconds": 1.0,
                **provenance(),
            }
            for recipe in job.recipes
        ]

    def answer_rows(run, task, name, model, seed, inputs):
        return [Row(metric="right", run=run, seed=seed)]

    monkeypatch.setattr(table_2, "finetune", finetune)
    monkeypatch.setattr(table_2, "answer_rows", answer_rows)
    monkeypatch.setattr(table_2, "task_folder", lambda *_: Path("data"))
    inputs = Inputs("qnli: n=512, k=128", "paper", "command", tmp_path)
    with pytest.raises(ValueError, match="n512-k128-headwise must be a finished pretraining"):
        table_2.run(inputs)
    (tmp_path / "n512-k128-headwise/checkpoints").mkdir(parents=True)
    (tmp_path / "n512-k128-headwise/done").touch()
    (tmp_path / "n512-k128-headwise/checkpoints/checkpoint_last.pt").touch()
    result = table_2.run(inputs)
    folder = tmp_path / "table-2/n512-k128-headwise/qnli"
    chosen = [folder / f"lr2e-05-batch16-seed{seed}" for seed in (1, 2, 3)]
    assert [(row.run, row.seed) for row in result.rows] == list(zip(chosen, (1, 2, 3)))
    assert result.configuration == {"recipe": {"lr": 2e-5, "batch_size": 16}} and result.environment["seconds"] == 18


def test_a_transformer_brings_along_what_its_answers_are_compared_with(tmp_path, monkeypatch):
    """The answers of the most frequent class, and which rows have more than n / 8 tokens."""
    answers = [{"label": label, "prediction": prediction} for label, prediction in ("aa", "ba", "ab")]
    (tmp_path / "valid.jsonl").write_text("".join(json.dumps(each) + "\n" for each in answers))
    (tmp_path / "input0").mkdir()
    (tmp_path / "input1").mkdir()
    sizes = {"input0": np.array([1, 1, 3]), "input1": np.array([1, 2, 4])}  # <s> a </s> </s> b </s>: 4, 5 and 9 tokens
    monkeypatch.setattr(table_2, "open_dataset", lambda path: SimpleNamespace(sizes=sizes[path.parent.name]))
    monkeypatch.setattr(table_2, "task_folder", lambda *_: tmp_path)
    inputs = Inputs("", "smoke", "command", tmp_path)

    def rows_of(model):
        found = table_2.answer_rows(tmp_path, "imdb", model.label, model, 1, inputs)
        return [(row.metric, row.get("model"), unpack(row).tolist()) for row in found]

    right = [True, False, False]
    assert rows_of(Model(32, 8)) == [("right", Model(32, 8).label, right)]
    majority = ("right", table_2.MAJORITY, [True, False, True])
    assert rows_of(Model(32)) == [("right", Model(32).label, right), majority, ("long", None, [False, True, True])]
