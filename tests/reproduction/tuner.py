"""A stand-in for finetuning, and a prepared task. Fixtures are imported from here."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import finetuning_experiment
from fairseq_linformer.reproduction.finetuning_plan import SIZES
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import find

from .trainer import DATE, HARDWARE, VERSIONS

NAMES = ["sst-2-linformer", "sst-2-linformer-from-scratch", "sst-2-roberta", "sst-2-roberta-from-scratch"]
"""What is finetuned at the smoke scale, in order."""
SECONDS = 7.0


def splits(value: float):
    """Scores of one development set."""
    return {
        "valid": {
            "scores": {"accuracy": {"value": value, "interval": [value - 0.1, value + 0.1]}},
            "rows": 20,
            "majority": 0.5,
        }
    }


class Tuner:
    """Takes the place of ``finetuning.finetune.finetune``.

    Attributes:
        jobs: requested jobs in order; ``tuned``, names of those that were not finished.
        accuracy: by a part of the job's name; 0.75 for others.
        stops: finish no other job.
        rescored: trainings whose checkpoint was scored again; each has the accuracy ``again``.
    """

    def __init__(self, clock):
        self.jobs, self.tuned, self.accuracy, self.stops, self.rescored, self.again, self.clock = (
            [],
            [],
            {},
            False,
            [],
            0.75,
            clock,
        )

    def __call__(self, job, until=None):
        self.jobs.append(job)
        path = Path(job.runs, job.name, "result.json")
        if path.exists():
            return [json.loads(path.read_text())]
        self.tuned.append(job.name)
        if self.stops:
            return []
        self.clock.now += 10
        start, (recipe,) = job.prepare(), job.recipes
        value = next((a for part, a in self.accuracy.items() if part in job.name), 0.75)
        result = {
            **job.result_fields(recipe, start),
            "task": job.task.name,
            "splits": splits(value),
            "checkpoint": "checkpoints/checkpoint_best.pt",
            "seconds": SECONDS,
            "commit": f"of seed {recipe.seed}",
            "hardware": HARDWARE,
            "versions": VERSIONS,
            "date": DATE,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result))
        return [result]

    def judge(self, task, training):
        self.rescored.append(training.folder.name)
        return {"splits": splits(self.again), "checkpoint": "checkpoints/checkpoint_best.pt"}


@pytest.fixture
def tuner(trainer, monkeypatch):
    """Nothing is finetuned; a finetuning takes 10 seconds."""
    tuner = Tuner(trainer)
    monkeypatch.setattr(finetuning_experiment.finetune, "finetune", tuner)
    monkeypatch.setattr(finetuning_experiment.single_run, "evaluate_best", tuner.judge)
    return tuner


@pytest.fixture(scope="session")
def tasks(tmp_path_factory, pieces, glue):
    """SST-2 for n = 16 and n = 32."""
    folder = tmp_path_factory.mktemp("tasks")
    for name, n in (("sst-2", 16), ("sst-2-n32", 32)):
        main(
            [
                "prepare",
                "sst-2",
                str(folder / name),
                "--source",
                str(glue),
                "--sentencepiece-model",
                str(pieces / "sentencepiece.bpe.model"),
                "--max-positions",
                str(n),
            ]
        )
    return folder


@pytest.fixture
def small(monkeypatch):
    """One task."""
    sizes = replace(SIZES["smoke"], epochs={"sst-2": 1})
    monkeypatch.setitem(SIZES, "smoke", sizes)
    return sizes


@pytest.fixture
def table():
    return find("table-2")


@pytest.fixture
def inputs(tmp_path, pieces, tasks):
    return Inputs(tmp_path / "runs", pieces, tasks)


@pytest.fixture
def measure(table, small, tuner, inputs):
    """Records by name."""

    def measure(minutes=None, inputs=inputs):
        found = table.measure("smoke", replace(inputs, minutes=minutes), "the command")
        return {record.identifier.removeprefix("finetuning-").removesuffix("-smoke"): record for record in found}

    return measure
