"""Table 2 at the paper's scale, without its models: which checkpoints of a grid are compared."""

from dataclasses import asdict
from pathlib import Path

import pytest

from fairseq_linformer.machine import provenance
from fairseq_linformer.reproduction.paper import table_2
from fairseq_linformer.reproduction.result import Inputs, Row


def test_the_seeds_of_the_best_setting_count(tmp_path, monkeypatch):
    def finetune(job):
        assert job.checkpoint.path == str(tmp_path / "n512-k128-headwise/checkpoints/checkpoint_last.pt")
        return [
            {
                "recipe": asdict(recipe),
                "splits": {"valid": {"scores": {"accuracy": {"value": 0.9 if recipe.lr == 2e-5 else 0.8}}}},
                "checkpoint": "best.pt",
                "data": "rows",
                "seconds": 1.0,
                **provenance(),
            }
            for recipe in job.recipes
        ]

    def answer_rows(checkpoint, task, name, model, seed, inputs):
        return [Row(metric="right", checkpoint=checkpoint, seed=seed)]

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
    chosen = [folder / f"lr2e-05-batch16-seed{seed}/best.pt" for seed in (1, 2, 3)]
    assert [(row.checkpoint, row.seed) for row in result.rows] == list(zip(chosen, (1, 2, 3)))
    assert result.configuration == {"recipe": {"lr": 2e-5, "batch_size": 16}} and result.environment["seconds"] == 18
