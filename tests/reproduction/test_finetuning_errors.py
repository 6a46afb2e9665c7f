"""What Table 2 rejects before anything is trained, and its verification."""
# ruff: noqa: F811 (fixtures are imported)

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_linformer.reproduction.task_checks import check_task

from .trainer import trainer  # noqa: F401
from .tuner import inputs, measure, small, table, tasks, tuner  # noqa: F401

# Refusals


@pytest.fixture
def copied_tasks(tasks, tmp_path):
    return Path(shutil.copytree(tasks, tmp_path / "tasks"))


def test_a_task_must_be_there(copied_tasks, pieces):
    check_task("sst-2", 16, copied_tasks, pieces)
    check_task("sst-2", 32, copied_tasks, pieces)
    shutil.rmtree(copied_tasks / "sst-2")
    with pytest.raises(ValueError, match=f"--tasks.* {copied_tasks}.* sst-2"):
        check_task("sst-2", 16, copied_tasks, pieces)


def test_a_task_must_fit_the_model(copied_tasks, pieces):
    """Rows for n = 16 are too long for n = 8."""
    with pytest.raises(ValueError, match=f"n = 16.* n = 8.*{copied_tasks}/sst-2-n8"):
        check_task("sst-2", 8, copied_tasks, pieces)


def test_a_task_must_have_the_tokens_of_the_text(copied_tasks, pieces):
    path = copied_tasks / "sst-2/input0/dict.txt"
    path.write_text(path.read_text().replace("a", "b", 1))
    (copied_tasks / "sst-2/manifest.json").unlink()  # which has the checksum
    with pytest.raises(ValueError, match=f"{path} .*--data"):
        check_task("sst-2", 16, copied_tasks, pieces)


def test_tasks_are_checked_before_anything_is_trained(measure, inputs, copied_tasks, trainer):
    shutil.rmtree(copied_tasks / "sst-2")
    with pytest.raises(ValueError, match="--tasks"):
        measure(inputs=replace(inputs, tasks=copied_tasks))
    assert not trainer.trained


def test_damaged_runs_are_found_before_others_are_trained(measure, inputs, trainer):
    measure()
    runs = Path(inputs.runs) / "smoke/table-2"
    (runs / "roberta-n8-scratch/seed1/attempts.jsonl").unlink()
    shutil.rmtree(runs / "roberta-n16-continued")
    trainer.trained.clear()
    with pytest.raises(ValueError, match="attempts.jsonl"):
        measure()
    assert not trainer.trained


@pytest.fixture
def there(measure):
    return measure()["sst-2-linformer"]


# Verification
