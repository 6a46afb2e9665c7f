"""One run: fairseq trains, the best checkpoint is judged, and what came out is written down.

    RUN/                          as launching/folder.py has it
    RUN/checkpoints/checkpoint_best.pt, and beside it dictionary, labels and tokenizer: ready to be used
    RUN/logs/finetune.txt         what fairseq said
    RUN/result.json
"""

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from ..checkpoints.files import read_checkpoint
from ..evaluation.classifier import FairseqClassifier
from ..evaluation.evaluate import What, evaluate
from ..files import atomic
from ..launching import folder as run_folder
from ..launching.checkpoints import LAST
from ..launching.training import Training
from ..progress import Progress
from ..task_data.table import Task
from .data import files_beside

_PR_SET_PDEATHSIG = 1  # of Linux's prctl: the signal at the death of the parent
BEST, RESULT, LOG = "checkpoint_best.pt", "result.json", "finetune.txt"
_STATS = re.compile(r"\| INFO \| (train_inner|train|valid|valid1) \| (\{.*\})$")
_FAILED = re.compile(r"\| ERROR \|.*\brank 0 of 1\b.* failed: (.*)$")


def train(training: Training) -> None:
    """Train to the end, from the last checkpoint if there is one.

    Raises:
        ValueError: as ``launching.folder.begin``; or training failed, with what to go on from.
        KeyboardInterrupt: it was told to stop, and has saved; the same call goes on.
    """
    for line in run_folder.begin(training):
        print(f"{training.folder}: {line}", file=sys.stderr)
    log = training.folder / run_folder.LOGS / LOG
    failed = _follow(_started(training), log, training.composed.lr_scheduler.total_num_update)
    if (training.folder / run_folder.STOPPED).exists():  # by a signal of its own
        raise KeyboardInterrupt
    if failed is not None:
        last = training.folder / run_folder.CHECKPOINTS / LAST
        left = f"the last good checkpoint is {last}" if last.exists() else "no epoch was finished, so there is no checkpoint"
        raise ValueError(f"training failed: {failed}; {left}; {log} has what fairseq said")
    (training.folder / run_folder.DONE).touch()


def _started(training: Training) -> subprocess.Popen:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = [f"--config={training.config}", f"--device={training.device}", f"--runs={training.runs}", f"--name={training.name}", *training.overrides]
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    # What stops this process stops the one that trains, however it comes.
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    return subprocess.Popen([sys.executable, "-m", "fairseq_linformer.launching.rank", "--processes", "1", *words],
                            env={**os.environ, **place, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                            preexec_fn=prctl and (lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)))  # fmt: skip


def _follow(process: subprocess.Popen, log: Path, updates: int) -> Optional[str]:
    """Show how far it is; why it failed, None if it did not."""
    failed, last, done, told = None, "", 0, []

    def hand_on(number: int, frame) -> None:
        told.append(number)
        process.send_signal(signal.SIGTERM)  # it finishes the update, saves and ends

    handlers = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with open(log, "a", encoding="utf-8", buffering=1) as file, Progress("finetuning", int(updates), "updates") as progress:
            for line in process.stdout:
                file.write(line)
                last = line.strip() or last
                if found := _FAILED.search(line):
                    failed = found[1].strip()
                elif found := _STATS.search(line.rstrip()):
                    stats = json.loads(found[2])
                    if found[1] in ("train_inner", "train"):
                        now = int(float(stats.get("num_updates", stats.get("train_num_updates", done))))
                        progress.add(max(0, now - done))
                        done = max(done, now)
                    else:
                        said = ", ".join(f"{key.removeprefix(found[1] + '_')} {value}" for key, value in stats.items() if re.search("loss$|accuracy$|spearman$", key))
                        print(f"epoch {stats.get('epoch')}, {found[1]}: {said}", file=sys.stderr)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    status = process.wait()
    if told:
        raise KeyboardInterrupt
    return None if status == 0 else failed or f"status {status}: {last[:300]}"


def finetune(task: Task, training: Training, facts: Dict[str, Any]) -> Dict[str, Any]:
    """Train what is not trained, judge the best checkpoint on each development set, write ``RESULT``.

    Args:
        facts: what else the result shall say.

    Returns:
        what ``RESULT`` holds.

    Raises:
        ValueError, OSError, KeyboardInterrupt: as ``train``.
    """
    result = training.folder / RESULT
    if result.exists():
        run_folder.is_new(training)  # refuses another configuration
        found = read_result(result)
        if changed := [key for key in ("model", "data") if found.get(key) != json.loads(json.dumps(facts[key]))]:
            raise ValueError(f"{training.folder} is of another {changed[0]}, which has changed under its name since; another --name is wanted")
        return found
    if not (training.folder / run_folder.DONE).exists():
        train(training)
    else:
        run_folder.is_new(training)
    data, checkpoints = Path(training.composed.task.data), training.folder / run_folder.CHECKPOINTS
    _put_beside(data, checkpoints)
    splits = [split for split in task.splits if split != "train"]
    classifier = FairseqClassifier(checkpoints / BEST, "cuda" if training.device == "gpu" else "cpu", dictionary=data / "input0" / "dict.txt")
    found = {split: evaluate(classifier, What(str(data), split=split)).as_dict() for split in splits}
    return write_result(result, {**facts, "task": task.name, "splits": found, "checkpoint": f"{run_folder.CHECKPOINTS}/{BEST}", "seconds": _seconds(checkpoints / LAST)})


def _seconds(checkpoint: Path) -> float:
    """That training took, over all stops."""
    return float(read_checkpoint(checkpoint)["extra_state"]["previous_training_time"])


def _put_beside(data: Path, checkpoints: Path) -> None:
    for path in files_beside(data):
        target = checkpoints / ("label/dict.txt" if path.parent.name == "label" else path.name)
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
        result["splits"]["valid"]["scores"], result["recipe"]["lr"], result["task"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no result of finetune; remove it, and the same command makes it again") from None
    return result


def headline(result: Dict[str, Any], split: str = "valid") -> List[str]:
    """The scores that a task is known by, in words: accuracy, and F1 of QQP and MRPC, Matthews of CoLA, correlations of STS-B."""
    scores = result["splits"][split]["scores"]
    wanted = {"qqp": ("accuracy", "f1"), "mrpc": ("accuracy", "f1"), "cola": ("matthews", "accuracy")}.get(result["task"], tuple(scores) if "pearson" in scores else ("accuracy",))
    return [f"{name} {_said(name, scores[name])}" for name in wanted]


def _said(name: str, score: Dict[str, Any]) -> str:
    factor, digits, unit = (100, 2, " %") if name == "accuracy" else (1, 4, "")
    low, high = (factor * x for x in score["interval"])
    return f"{factor * score['value']:.{digits}f}{unit} ({low:.{digits}f} to {high:.{digits}f})"
