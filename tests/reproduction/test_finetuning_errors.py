"""What Table 2 rejects before anything is trained, and its verification."""
# ruff: noqa: F811 (fixtures are imported)

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_linformer.reproduction.experiment import Unfinished
from fairseq_linformer.reproduction.finetuning_plan import SIZES
from fairseq_linformer.reproduction.inputs import Inputs
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


def test_a_record_of_a_model_that_is_gone(there, table, inputs, monkeypatch, small):
    """Or of a task that is gone."""
    table.check_ledger("smoke", inputs, [there])
    other = there.copy_with(identifier="finetuning-sst-2-linformer-n64-k8-headwise-smoke")
    with pytest.raises(ValueError, match=f"{other.identifier} .*{other.commit}"):
        table.check_ledger("smoke", inputs, [other])
    monkeypatch.setitem(SIZES, "smoke", replace(small, epochs={"qnli": 1}))
    with pytest.raises(ValueError, match=there.identifier):
        table.check_ledger("smoke", inputs, [there])


@pytest.mark.parametrize("key", ["sizes", "seeds", "runs"])
def test_a_record_of_another_plan(there, table, inputs, key):
    other = there.copy_with(configuration={**there.configuration, key: {"linformer": {}}})
    for check in (lambda: table.check_ledger("smoke", inputs, [other]), lambda: table.measure_again(other, inputs)):
        with pytest.raises(ValueError, match=f"{there.identifier} .*{key}"):
            check()


@pytest.mark.parametrize("old, new", [("rows", "lines"), ("pretrained on: ", "pretrained on: other ")])
def test_a_record_of_other_data(there, table, inputs, old, new):
    """Another task, or another text."""
    other = there.copy_with(data=there.data.replace(old, new, 1))
    assert other.data != there.data
    with pytest.raises(ValueError, match=f"{there.identifier} .*data"):
        table.check_ledger("smoke", inputs, [other])


@pytest.mark.parametrize(
    "missing",
    [
        "roberta-n8-scratch/seed1/done",
        "linformer-n16-k8-headwise-default-converted/seed1/done",
        "finetuned/sst-2-linformer-seed1/result.json",
    ],
)
def test_a_record_whose_runs_are_elsewhere(there, table, inputs, missing):
    (Path(inputs.runs) / "smoke/table-2" / missing).unlink()
    with pytest.raises(ValueError, match=f"--verify {there.identifier}"):
        table.check_ledger("smoke", inputs, [there])


def test_other_runs_may_be_missing(there, table, inputs):
    for missing in ("roberta-n16-continued/seed1/done", "finetuned/sst-2-roberta-seed1/result.json"):
        (Path(inputs.runs) / "smoke/table-2" / missing).unlink()
    table.check_ledger("smoke", inputs, [there])


# Verification


def test_measured_again_from_the_checkpoint(there, table, inputs, tuner, trainer):
    """Of its model and task alone; what was written down is not believed."""
    tuner.again = 0.5
    tuner.jobs.clear(), trainer.trained.clear()
    how, (record,) = table.measure_again(there, inputs)
    assert record.identifier == there.identifier and record.find("accuracy").value == 50.0 and "1" in how
    assert tuner.rescored == ["sst-2-linformer-seed1"] and [job.name for job in tuner.jobs] == [
        "finetuned/sst-2-linformer-seed1"
    ]
    assert record.command == there.command and not trainer.trained
    result = json.loads((Path(inputs.runs) / "smoke/table-2/finetuned/sst-2-linformer-seed1/result.json").read_text())
    assert result["splits"]["valid"]["scores"]["accuracy"]["value"] == 0.75


def test_measured_again_elsewhere(there, table, inputs, tuner, trainer, tmp_path):
    """Trained again, with what it starts from; no other model."""
    trainer.trained.clear()
    how, (record,) = table.measure_again(there, replace(inputs, runs=tmp_path / "again"))
    assert record.measurements == there.measurements and len(trainer.trained) == 3
    assert not any("continued" in name for name in trainer.trained)
    with pytest.raises(ValueError, match="--tasks"):
        table.measure_again(there, Inputs(inputs.runs, inputs.data))
    with pytest.raises(Unfinished):
        table.measure_again(there, replace(inputs, runs=tmp_path / "third", minutes=0.0))
