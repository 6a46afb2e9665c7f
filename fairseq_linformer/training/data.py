"""Data for finetuning: prepared unless the folder exists, and checked against task and model."""

import shutil
from pathlib import Path
from typing import Any

from ..checkpoints.files import LABELS
from ..config import flag_of
from ..data.manifest import MANIFEST, read_manifest
from ..data.own_files import open_own
from ..data.prepare_task import prepare_task
from ..data.task_sources import TaskFiles, open_source
from ..data.tasks import TASKS, TRUNCATIONS, Task
from ..data.tokenizer import load_tokenizer
from ..data.tokenizer_files import DICTIONARY, TOKENIZER_FILES, find_tokenizer_files
from ..evaluation.encoded_rows import is_prepared, read_prepared_task
from ..files import check_data_path, check_same
from ..models.datasets import check_dataset
from ..models.dictionaries import check_dictionary
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


def prepare_data(
    task: Task,
    folder: Path,
    checkpoint: InitialCheckpoint,
    source: str | TaskFiles = "hub",
    tokenizer: Path | None = None,
    truncation: str | None = None,
) -> None:
    """Prepare ``folder`` unless it exists, and check that it matches task, checkpoint and truncation.

    Args:
        source: as for ``open_source``; existing data are used whatever their source and tokenizer were. Or a user's
            files, which existing data must have been prepared from.
        tokenizer: its path; None for the one next to the checkpoint.
        truncation: how rows longer than n are truncated, also in existing data; None for ``head`` in new data.
    """
    check_data_path(folder, "--data")
    dictionary = checkpoint.companions / DICTIONARY
    if not is_prepared(folder):
        encoder = load_tokenizer(find_tokenizer(checkpoint, tokenizer), dictionary if dictionary.is_file() else None)
        how = truncation or TRUNCATIONS[0]
        files_of_task = source if isinstance(source, TaskFiles) else open_source(task, source)
        prepare_task(task, folder, files_of_task, encoder, checkpoint.max_positions, how)
    manifest = read_manifest(folder)
    before = {"task": manifest.get("task"), "source": manifest.get("source"), "truncation": manifest.get("cut")}
    files = source.description if isinstance(source, TaskFiles) else None
    now = {"task": task.name, "source": files, "truncation": truncation}
    known = [key for key in now if before[key] and now[key]]
    check_same(folder, {key: before[key] for key in known}, {key: now[key] for key in known})
    check_folder(task, folder, checkpoint.max_positions)
    words = folder / "input0" / DICTIONARY
    check_dictionary(words, checkpoint.vocab_size, checkpoint.path, "prepare the data again", same_as=[dictionary])


def check_folder(task: Task, folder: Path, n: int) -> None:
    """Raise ValueError unless a prepared folder is complete, and was prepared for this task and n."""
    manifest = read_manifest(folder)
    check_same(folder, {"task": manifest.get("task", task.name)}, {"task": task.name})
    for part in (*(f"input{i}" for i in range(task.num_inputs)), *(["label"] if task.classes else [])):
        for split in task.splits:
            check_dataset(folder / part / split)
    positions, truncated = manifest.get("max_positions", n), _num_truncated(manifest)
    if positions > n or (positions < n and truncated):
        raise ValueError(
            f"{folder} was prepared for n = {positions} and has {truncated:,} truncated rows, but the model has "
            f"n = {n}; prepare the data again in another folder, or resize the model: "
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
    targets = {f"input0/{DICTIONARY}": DICTIONARY, f"label/{DICTIONARY}": LABELS, MANIFEST: MANIFEST}
    for name, target in {**targets, **{name: name for name in TOKENIZER_FILES}}.items():
        if (data / name).is_file():
            (checkpoints / target).parent.mkdir(exist_ok=True)
            shutil.copyfile(data / name, checkpoints / target)
