"""One run: fairseq trains, its best checkpoint is evaluated (the last, if no set may choose it), the result is written.

    RUN/                          as launching/run_folder.py has it
    RUN/checkpoints/checkpoint_best.pt, and beside it dictionary, labels and tokenizer: ready to be used
    RUN/logs/finetune.txt         fairseq's output
    RUN/.origin.json              the checkpoint and the data that it began from; others under their names are refused
    RUN/result.json
"""

import json
import shutil
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch

from ..checkpoints.files import training_seconds
from ..evaluation.classifier import DICTIONARY, LABELS, FairseqClassifier
from ..evaluation.evaluate import What, evaluate
from ..evaluation.scores import in_words, unit_of
from ..files import write_lines
from ..launching import local, run_folder
from ..launching.checkpoints import LAST
from ..launching.training import Training
from ..task_data.table import TASKS, Task
from .data import files_beside

BEST, RESULT, LOG, ORIGIN = "checkpoint_best.pt", "result.json", "finetune.txt", ".origin.json"
_ORIGINS = ("model", "data")
"""Of the facts of a result, those that a run began from."""


def finetune(
    task: Task, training: Training, facts: Dict[str, Any], until: Optional[float] = None
) -> Optional[Dict[str, Any]]:
    """Train unless that is done, evaluate the checkpoint on each development set, write ``RESULT``.

    Args:
        facts: the other fields of the result.
        until: the time, of ``time.monotonic``, at which training stops; rerun to resume.

    Returns:
        the content of ``RESULT``; None if the time was up.

    Raises:
        ValueError, OSError, KeyboardInterrupt: as ``launching.local.train``; or it began from another checkpoint or
            other data.
    """
    result = training.folder / RESULT
    if result.exists():
        run_folder.is_new(training)  # refuses another configuration
        found = read_result(result)
        _check_origin(training, {key: _identity(found[key]) for key in _ORIGINS}, facts)
        return found
    remember_origin(training, facts)
    if not (training.folder / run_folder.DONE).exists():
        updates = training.composed.lr_scheduler.total_num_update
        if not local.train(training, LOG, updates, "training", until):
            if until is None:  # by a signal of its own
                raise KeyboardInterrupt
            return None
    _put_beside(Path(training.composed.task.data), training.folder / run_folder.CHECKPOINTS)
    found = {**facts, "task": task.name, **judge(task, training), "seconds": seconds(training)}
    return write_result(result, {**found, **run_folder.training_provenance(training.folder)})


def remember_origin(training: Training, facts: Dict[str, Any]) -> None:
    """Write down what a run begins from, before it does.

    Raises:
        ValueError: it has begun from something else of the same name, or with another configuration.
    """
    path, is_new = training.folder / ORIGIN, run_folder.is_new(training)
    if path.exists():
        _check_origin(training, json.loads(path.read_text(encoding="utf-8")), facts)
    elif is_new:
        write_lines(path, [json.dumps({key: _identity(facts[key]) for key in _ORIGINS})])


def _check_origin(training: Training, before: Dict[str, Any], facts: Dict[str, Any]) -> None:
    if changed := [key for key in _ORIGINS if before[key] != _identity(facts[key])]:
        raise ValueError(
            f"{training.folder} is of another {changed[0]}, which has changed under its name since; give another --name"
        )


def seconds(training: Training) -> float:
    """Of the training, without those of the checkpoint that it started from."""
    last = training.folder / run_folder.CHECKPOINTS / LAST
    return training_seconds(last, training.composed.checkpoint.finetune_from_model)


def judge(task: Task, training: Training) -> Dict[str, Any]:
    """Scores of the best checkpoint, or of the last if no set may choose it, and the name of that checkpoint."""
    data, name = Path(training.composed.task.data), f"{run_folder.CHECKPOINTS}/{LAST if task.valid_is_test else BEST}"
    # A checkpoint that a GPU of a cluster has trained may be evaluated where there is none.
    device = "cuda" if training.device == "gpu" and torch.cuda.is_available() else "cpu"
    classifier = FairseqClassifier(training.folder / name, device, dictionary=data / "input0" / DICTIONARY)
    return {"splits": evaluate_splits(classifier, task, str(data)), "checkpoint": name}


def evaluate_splits(classifier, task: Task, name: str, source: Optional[str] = None) -> Dict[str, Any]:
    """Scores on each development set of a task; ``name`` and ``source`` are those of ``What``."""
    splits = [split for split in task.splits if split != "train"]
    return {split: evaluate(classifier, What(name, source, split)).as_dict() for split in splits}


def _identity(fact: Any) -> Any:
    """Of a model its weights and how they are used, and nothing else about it."""
    if not isinstance(fact, dict):
        return fact
    return [fact["pretraining"]["sha256"], fact["max_positions"], fact["from_scratch"]]


def _put_beside(data: Path, checkpoints: Path) -> None:
    for path in files_beside(data):
        target = checkpoints / (LABELS if path.parent.name == "label" else path.name)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)


def write_result(path: Path, result: Dict[str, Any]) -> Dict[str, Any]:
    """Whole or not at all."""
    write_lines(path, [json.dumps(result, indent=1)])
    return result


def read_result(path: Path) -> Dict[str, Any]:
    """The content of a ``RESULT``; ValueError if it was changed or cut off."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        result["splits"]["valid"]["scores"], result["recipe"]["lr"]
        result["task"], result["model"], result["data"], result["commit"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no result of finetune; remove it, and rerun to make it again") from None
    return result


def headline(result: Dict[str, Any], split: str = "valid") -> List[str]:
    """The usual scores of a task in words: accuracy, F1 for QQP and MRPC, Matthews for CoLA, correlations for STS-B."""
    lines = []
    for name in TASKS[result["task"]].metrics:
        score = result["splits"][split]["scores"][name]
        value, low, high = in_words(name, score["value"], *score["interval"])
        lines.append(f"{name} {value}{unit_of(name)} ({low} to {high})")
    return lines
