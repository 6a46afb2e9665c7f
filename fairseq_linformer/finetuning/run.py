"""One run: fairseq trains, its best checkpoint (or the last, where there is no set to choose it on) is judged, and what came out is written down.

    RUN/                          as launching/run_folder.py has it
    RUN/checkpoints/checkpoint_best.pt, and beside it dictionary, labels and tokenizer: ready to be used
    RUN/logs/finetune.txt         what fairseq said
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
from ..files import atomic
from ..launching import local, run_folder
from ..launching.checkpoints import LAST
from ..launching.training import Training
from ..task_data.table import TASKS, Task
from .data import files_beside

BEST, RESULT, LOG, ORIGIN = "checkpoint_best.pt", "result.json", "finetune.txt", ".origin.json"


_ORIGINS = ("model", "data")
"""Of the facts of a result, those that a run began from."""


def finetune(task: Task, training: Training, facts: Dict[str, Any], until: Optional[float] = None) -> Optional[Dict[str, Any]]:
    """Train what is not trained, judge the checkpoint on each development set, write ``RESULT``.

    Args:
        facts: what else the result shall say.
        until: the time, of ``time.monotonic``, at which training is told to stop; the same call goes on.

    Returns:
        what ``RESULT`` holds; None if the time was up.

    Raises:
        ValueError, OSError, KeyboardInterrupt: as ``launching.local.train``; or it began from another checkpoint or other data.
    """
    result = training.folder / RESULT
    if result.exists():
        run_folder.is_new(training)  # refuses another configuration
        found = read_result(result)
        _check_origin(training, {key: _identity(found[key]) for key in _ORIGINS}, facts)
        return found
    remember_origin(training, facts)
    if not (training.folder / run_folder.DONE).exists() and not local.train(training, LOG, training.composed.lr_scheduler.total_num_update, "training", until):
        if until is None:  # by a signal of its own
            raise KeyboardInterrupt
        return None
    _put_beside(Path(training.composed.task.data), training.folder / run_folder.CHECKPOINTS)
    return write_result(result, {**facts, "task": task.name, **judge(task, training), "seconds": seconds(training),
                                 **run_folder.training_provenance(training.folder)})  # fmt: skip


def remember_origin(training: Training, facts: Dict[str, Any]) -> None:
    """Write down what a run begins from, before it does.

    Raises:
        ValueError: it has begun from something else, which was under the same name, or with another configuration.
    """
    path, is_new = training.folder / ORIGIN, run_folder.is_new(training)
    if path.exists():
        _check_origin(training, json.loads(path.read_text(encoding="utf-8")), facts)
    elif is_new:
        with atomic(path) as file:
            file.write(json.dumps({key: _identity(facts[key]) for key in _ORIGINS}) + "\n")


def _check_origin(training: Training, was: Dict[str, Any], facts: Dict[str, Any]) -> None:
    if changed := [key for key in _ORIGINS if was[key] != _identity(facts[key])]:
        raise ValueError(f"{training.folder} is of another {changed[0]}, which has changed under its name since; another --name is wanted")


def seconds(training: Training) -> float:
    """That training took, without what its start had taken."""
    return training_seconds(training.folder / run_folder.CHECKPOINTS / LAST, training.composed.checkpoint.finetune_from_model)


def judge(task: Task, training: Training) -> Dict[str, Any]:
    """Scores of the best checkpoint, or of the last where there is no set to choose it on, and which that is."""
    data, name = Path(training.composed.task.data), f"{run_folder.CHECKPOINTS}/{LAST if task.valid_is_test else BEST}"
    # What a GPU of a cluster has trained may be judged where there is none.
    device = "cuda" if training.device == "gpu" and torch.cuda.is_available() else "cpu"
    classifier = FairseqClassifier(training.folder / name, device, dictionary=data / "input0" / DICTIONARY)
    splits = [split for split in task.splits if split != "train"]
    return {"splits": {split: evaluate(classifier, What(str(data), split=split)).as_dict() for split in splits}, "checkpoint": name}


def _identity(fact: Any) -> Any:
    """Of a model its weights and what is done with them, and not what else is known of it."""
    return [fact["pretraining"]["sha256"], fact["max_positions"], fact["from_scratch"]] if isinstance(fact, dict) else fact


def _put_beside(data: Path, checkpoints: Path) -> None:
    for path in files_beside(data):
        target = checkpoints / (LABELS if path.parent.name == "label" else path.name)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)


def write_result(path: Path, result: Dict[str, Any]) -> Dict[str, Any]:
    """Whole or not at all."""
    with atomic(path) as file:
        file.write(json.dumps(result, indent=1) + "\n")
    return result


def read_result(path: Path) -> Dict[str, Any]:
    """
    Raises:
        ValueError: it was changed or cut off.
    """
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        result["splits"]["valid"]["scores"], result["recipe"]["lr"], result["task"], result["model"], result["data"], result["commit"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no result of finetune; remove it, and the same command makes it again") from None
    return result


def headline(result: Dict[str, Any], split: str = "valid") -> List[str]:
    """The scores that a task is known by, in words: accuracy, and F1 of QQP and MRPC, Matthews of CoLA, correlations of STS-B."""
    said = []
    for name in TASKS[result["task"]].metrics:
        score = result["splits"][split]["scores"][name]
        value, low, high = in_words(name, score["value"], *score["interval"])
        said.append(f"{name} {value}{unit_of(name)} ({low} to {high})")
    return said
