"""Data for finetuning: a task or a user's files, and the folder that they are prepared in."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..checkpoints.files import LABELS
from ..config import flag_of
from ..data.manifest import MANIFEST, read_manifest
from ..data.own_files import open_own
from ..data.task_sources import TaskFiles
from ..data.tasks import TASKS, Task
from ..data.tokenizer_files import DICTIONARY, TOKENIZER_FILES, find_tokenizer_files
from ..evaluation.encoded_rows import is_prepared, read_prepared_task
from ..files import check_same
from ..models.datasets import check_dataset
from .initial_checkpoint import InitialCheckpoint


def open_task(name: str, source: str | None, own: dict[str, Any]) -> tuple[Task, str | TaskFiles, str, str | None]:
    """Open what a user finetunes on.

    Args:
        name: of a task, a user's file or folder, or a folder that ``prepare`` wrote.
        source: as for ``open_source``.
        own: options of ``open_own``, for a user's files.

    Returns:
        The task; the source of its rows; its name, or that of the file or folder, for new folders; and the folder that
        ``prepare`` wrote, None if ``name`` is none.
    """
    path = Path(name)
    if source and name not in TASKS:
        raise ValueError(f"--source needs a task, got {name}")
    if name not in TASKS and not is_prepared(path):
        return *open_own(path, **own), path.resolve().name if path.is_dir() else path.stem, None
    if own:
        raise ValueError(f"{flag_of(next(iter(own)))} needs a file of yours, got {name}")
    if name in TASKS:
        return TASKS[name], source or "hub", name, None
    if not (task := read_prepared_task(path)):
        raise ValueError(f"{name} does not say its task; pass it, with --data {name}")
    return task, "hub", path.resolve().name, name


def find_tokenizer(checkpoint: InitialCheckpoint, tokenizer: Path | None) -> Path:
    """The path of ``tokenizer``, or of the one next to the checkpoint; ValueError if there is none."""
    if not (path := tokenizer or find_tokenizer_files(checkpoint.companions)):
        raise ValueError(
            f"there is no tokenizer next to {checkpoint.path}; pass that of its pretraining with --tokenizer"
        )
    return path


def check_folder(
    task: Task, folder: Path, n: int, source: Mapping[str, Any] | None = None, truncation: str | None = None
) -> None:
    """Raise ValueError unless a prepared folder is complete, and was prepared for this task and n, and from this source
    and with this truncation, unless they are None or the folder does not say."""
    manifest = read_manifest(folder)
    before = {"task": manifest.get("task"), "source": manifest.get("source"), "truncation": manifest.get("cut")}
    now = {"task": task.name, "source": source, "truncation": truncation}
    check_same(folder, *({key: each[key] for key in now if before[key] and now[key]} for each in (before, now)))
    for part in (*(f"input{i}" for i in range(task.num_inputs)), *(["label"] if task.classes else [])):
        for split in task.splits:
            check_dataset(folder / part / split)
    positions, truncated = manifest.get("max_positions", n), _num_truncated(manifest)
    if positions > n or (positions < n and truncated):
        raise ValueError(
            f"{folder} was prepared for n = {positions} and has {truncated:,} truncated rows, but the model has "
            f"n = {n}; prepare the data again in another folder, or resize the model (a RoBERTa with --arch roberta): "
            f"fairseq-linformer convert CHECKPOINT OUT --max-positions {positions}"
        )


def _num_truncated(manifest: dict[str, Any]) -> int:
    return sum(counts.get("cut", 0) for counts in manifest.get("splits", {}).values())


def describe_data(folder) -> str:
    """Describe rows, sources (with checksums) and tokenizer. Results store and compare this text: never change it."""
    manifest = read_manifest(folder)
    if not {"splits", "source", "tokenizer"} <= set(manifest):
        return "a folder that does not say"
    rows = ", ".join(f"{counts['written']:,} rows of {split}" for split, counts in manifest["splits"].items())
    if truncated := _num_truncated(manifest):
        rows += f", {truncated:,} of them cut to {manifest.get('max_positions')} positions ({manifest.get('cut')})"
    source = manifest["source"]
    files = ", ".join(f"{name} {checksum[:12]}" for name, checksum in source.get("sha256", {}).items())
    files = files or f"{source.get('name')} at {source.get('revision')}"
    return f"{rows}; {source['kind']}, {files}; {manifest['tokenizer']['name']}"


def copy_companions(data: Path, checkpoints: Path) -> None:
    """Copy the files of a task's folder that evaluating text needs next to a finetuned checkpoint."""
    for name in (f"input0/{DICTIONARY}", LABELS, MANIFEST, *TOKENIZER_FILES):
        if (data / name).is_file():
            target = checkpoints / name.removeprefix("input0/")
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(data / name, target)
