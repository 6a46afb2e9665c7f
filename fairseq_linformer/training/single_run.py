"""A single run: fairseq trains; then the best checkpoint is evaluated (the last one, if there is no development set).

RUN/                   as in training/run_folder.py
RUN/checkpoints/       checkpoint_best.pt, with dictionary, labels and tokenizer: ready to use
RUN/logs/finetune.txt  fairseq's output
RUN/.origin.json       checkpoint and data of the run, which resumes only with the same ones
RUN/result.json        scores, recipe and provenance
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.files import training_seconds
from ..checkpoints.provenance import RESULT
from ..corpus.tokenizer_files import DICTIONARY
from ..evaluation.classifier import LABELS, FairseqClassifier
from ..evaluation.evaluate import EvaluationData, evaluate
from ..evaluation.scores import format_unit, format_values
from ..files import read_json, write_json
from ..task_data.tasks import TASKS, Task
from . import local, run_folder
from .checkpoints import LAST
from .data import companion_files
from .job import TrainingJob

BEST, LOG, ORIGIN = "checkpoint_best.pt", "finetune.txt", ".origin.json"
_ORIGIN_FIELDS = ("model", "data")
"""Fields of a result that identify the origin of the run."""


def finetune(
    task: Task, training: TrainingJob, fields: Mapping[str, Any], until: float | None = None
) -> dict[str, Any] | None:
    """Train, evaluate and write the result, unless it exists.

    Args:
        fields: ``model``, ``data`` and ``recipe`` of the result.
        until: value of ``time.monotonic()`` at which to stop; call again to resume.

    Returns:
        The result; None if training was stopped at ``until``.

    Raises:
        ValueError, OSError, KeyboardInterrupt: as ``training.local.train``; or the run started from another checkpoint
            or other data.
    """
    record_origin(training, fields)
    path = training.folder / RESULT
    if path.exists():
        return read_result(path)
    updates = int(training.cfg.lr_scheduler.total_num_update)  # a float in fairseq
    local.train(training, updates)
    _copy_companions(Path(training.cfg.task.data), training.folder / run_folder.CHECKPOINTS)
    found, last = evaluate_best(task, training), training.folder / run_folder.CHECKPOINTS / LAST
    if not last.is_file():  # deleted after an earlier evaluation
        last = training.folder / found["checkpoint"]
    result = {
        **fields,
        "task": task.name,
        **found,
        # Without the seconds of the pretraining.
        "seconds": training_seconds(last, training.cfg.checkpoint.finetune_from_model),
        **run_folder.training_provenance(training.folder),
    }
    write_json(path, result)
    return result


def is_finished(folder: Path) -> bool:
    """Whether a run folder has its result."""
    return (folder / RESULT).exists()


def check(training: TrainingJob, fields: Mapping[str, Any]) -> None:
    """Check that a run can start, resume, or be reported, without writing anything.

    Raises:
        ValueError, OSError: as ``run_folder.check_run``; or the run started from different content under the same
            names, or with another configuration.
    """
    run_folder.is_new(training)
    if (training.folder / run_folder.CONFIG).exists():  # else a rejected submission may have left its origin
        _check_origin(training, fields)


def _check_origin(training: TrainingJob, fields: Mapping[str, Any]) -> None:
    if is_finished(training.folder):
        result = read_result(training.folder / RESULT)
        origin = {key: _identify(result[key]) for key in _ORIGIN_FIELDS}
    elif (path := training.folder / ORIGIN).exists():
        try:
            origin = {key: read_json(path)[key] for key in _ORIGIN_FIELDS}
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} is damaged; choose another --name") from None
    else:
        return
    for key in _ORIGIN_FIELDS:
        if origin[key] != _identify(fields[key]):
            raise ValueError(f"{training.folder} started from a different {key}; choose another --name")


def record_origin(training: TrainingJob, fields: Mapping[str, Any]) -> None:
    """Store the origin of a new run, or check that of another.

    Raises:
        ValueError: as ``check``.
    """
    if run_folder.is_new(training):  # an earlier submission may have been rejected
        path = training.folder / ORIGIN
        write_json(path, {key: _identify(fields[key]) for key in _ORIGIN_FIELDS})
    else:
        _check_origin(training, fields)


def _identify(field: Any) -> Any:
    """Reduce ``model`` to its checksum, n and use of weights; ``data`` is a description already."""
    if not isinstance(field, dict):
        return field
    return [field["pretraining"]["sha256"], field["max_positions"], field["from_scratch"]]


def evaluate_best(task: Task, training: TrainingJob) -> dict[str, Any]:
    """Evaluate the best checkpoint (or the last, see above): ``splits``, its scores, and ``checkpoint``, its name."""
    data, name = Path(training.cfg.task.data), f"{run_folder.CHECKPOINTS}/{LAST if task.valid_is_test else BEST}"
    # A run trained on a cluster's GPU may be evaluated on a machine without one.
    device = "cuda" if training.device == "cuda" and torch.cuda.is_available() else "cpu"
    classifier = FairseqClassifier(training.folder / name, device, dictionary=data / "input0" / DICTIONARY)
    return {"splits": evaluate_splits(classifier, task, str(data)), "checkpoint": name}


def evaluate_splits(classifier, task: Task, name: str, source: str | None = None) -> dict[str, Any]:
    """Evaluate each development set of a task; ``name`` and ``source`` are as in ``EvaluationData``."""
    splits = [split for split in task.splits if split != "train"]
    return {split: evaluate(classifier, EvaluationData(name, source, split)).as_dict() for split in splits}


def _copy_companions(data: Path, checkpoints: Path) -> None:
    for path in companion_files(data):
        target = checkpoints / (LABELS if path.parent.name == "label" else path.name)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)


def read_result(path: Path) -> dict[str, Any]:
    """Read a result file; ValueError if it is damaged."""
    try:
        stored: dict[str, Any] = read_json(path)
        stored["splits"]["valid"]["scores"], stored["recipe"]["lr"]
        stored["task"], stored["model"], stored["data"], stored["commit"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged; delete it, and rerun to evaluate again") from None
    return stored


def format_headline(result: Mapping[str, Any], split: str = "valid") -> list[str]:
    """Format the task's metrics: accuracy, also F1 for QQP and MRPC, Matthews for CoLA, correlations for STS-B."""
    lines = []
    for name in TASKS[result["task"]].metrics:
        score = result["splits"][split]["scores"][name]
        value, low, high = format_values(name, score["value"], *score["interval"])
        lines.append(f"{name} {value}{format_unit(name)} ({low} to {high})")
    return lines
