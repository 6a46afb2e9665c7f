"""Data for finetuning: prepared unless the folder exists, and checked against checkpoint and options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..corpus.manifest import MANIFEST
from ..corpus.tokenizer import Tokenizer, load_tokenizer
from ..corpus.tokenizer_files import DICTIONARY, FLAGS_TEXT, TOKENIZER_FILES, TokenizerFiles, find_tokenizer_files
from ..evaluation.encoded_rows import is_prepared, read_prepared_task
from ..files import read_json
from ..models.datasets import check_dataset
from ..task_data.prepare import prepare_task
from ..task_data.task_source import open_source
from ..task_data.tasks import Task
from ..task_data.truncation import TRUNCATIONS
from .initial_checkpoint import InitialCheckpoint


@dataclass(frozen=True)
class DataOptions:
    """How to prepare a task. Existing data must match the options that are set.

    Attributes:
        source: as for ``open_source``; None for the hub.
        tokenizer: its files; None for those next to the checkpoint.
        truncation: how rows longer than n are truncated; None for ``head``.
    """

    source: str | None = None
    tokenizer: TokenizerFiles | None = None
    truncation: str | None = None


def prepare_data(task: Task, folder: Path, checkpoint: InitialCheckpoint, options: DataOptions) -> str:
    """Prepare ``folder`` unless it exists, and check it.

    Returns:
        A line for the log.

    Raises:
        ValueError: the folder does not match the task, the checkpoint or the options, or there is no tokenizer.
    """
    action = "already prepared"
    if not is_prepared(folder):
        tokenizer = find_tokenizer(checkpoint, options)
        truncation = options.truncation or TRUNCATIONS[0]
        prepare_task(task, folder, options.source or "hub", tokenizer, checkpoint.max_positions, truncation)
        action = "prepared"
    manifest = check_folder(task, folder, checkpoint.max_positions)
    checkpoint.check_data(folder)
    _check_options(task, folder, manifest, checkpoint, options)
    return f"{folder}: {action}"


def task_folder(tasks, task: str, n) -> Path:
    """The folder of a task in ``tasks`` for a model of n: for example ``imdb-n1024`` if it exists, else ``imdb``."""
    for_n = Path(tasks) / f"{task}-n{n}"
    return for_n if for_n.is_dir() else Path(tasks) / task


def check_folder(task: Task, folder: Path, n: int) -> dict[str, Any]:
    """Check that a prepared folder is complete, and was prepared for this task and n.

    Returns:
        The manifest; empty if there is none.

    Raises:
        ValueError: a file is missing, or the folder has another task or rows for another n.
    """
    check_complete(task, folder)
    prepared = read_prepared_task(folder)
    if prepared not in (None, task):
        raise ValueError(f"{folder} must be a folder of {task.name}, got {prepared.name}; choose another --data")
    manifest: dict[str, Any] = {}
    try:
        manifest = read_json(folder / MANIFEST) if prepared else {}
        positions, truncated = int(manifest.get("max_positions", 0)), _num_truncated(manifest)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise ValueError(f"{folder / MANIFEST} cannot be read; prepare the data again") from None
    advice = f"but the model has n = {n}; prepare the task in another folder"
    if positions > n:
        raise ValueError(f"{folder} was prepared for n = {positions}, {advice}")
    if positions < n and truncated:
        raise ValueError(f"{folder} has {truncated:,} rows truncated to n = {positions}, {advice}")
    return manifest


def _num_truncated(manifest: dict[str, Any]) -> int:
    return sum(counts.get("cut", 0) for counts in manifest.get("splits", {}).values())


def check_complete(task: Task, folder: Path) -> None:
    """Raise ValueError if a file of a prepared folder is missing, or a dataset is damaged."""
    binarized = [DICTIONARY, *(f"{split}.{end}" for split in task.splits for end in ("idx", "bin"))]
    labels = binarized if task.classes else [f"{split}.label" for split in task.splits]
    for part, names in {"label": labels, **{f"input{i}": binarized for i in range(task.num_inputs)}}.items():
        for name in names:
            if not (folder / part / name).is_file():
                command = f"fairseq-linformer prepare {task.name}"
                raise ValueError(f"{folder / part / name} is missing; run `{command}` with another folder")
            if name.endswith(".bin"):  # its index, which precedes it, exists
                check_dataset((folder / part / name).with_suffix(""))


def _check_options(
    task: Task, folder: Path, manifest: dict[str, Any], checkpoint: InitialCheckpoint, options: DataOptions
) -> None:
    """Raise ValueError if the folder was prepared with different options."""
    if options == DataOptions():
        return
    if not manifest:
        names = f"--source, --truncation and {FLAGS_TEXT}"
        raise ValueError(f"{folder} has no {MANIFEST} to check options against; omit {names}")
    different = []
    if options.source and open_source(task, options.source).describe() != manifest.get("source"):
        different.append(f"--source {options.source}")
    if options.tokenizer:
        checksums = find_tokenizer(checkpoint, options).checksums
        # File names may differ.
        if sorted(checksums.values()) != sorted(manifest.get("tokenizer", {}).get("sha256", {}).values()):
            different.append("this tokenizer")
    if options.truncation and options.truncation != manifest.get("cut"):
        different.append(f"--truncation {options.truncation}")
    if different:
        it = "it" if len(different) == 1 else "them"
        raise ValueError(
            f"{folder} was not prepared with {' and '.join(different)}; omit {it}, or choose another --data"
        )


def describe_data(folder) -> str:
    """Describe rows, sources (with checksums) and tokenizer. Results store and compare this text: never change it."""
    path = Path(folder) / MANIFEST
    manifest = read_json(path) if path.is_file() else {}
    if not {"splits", "source", "tokenizer"} <= set(manifest):
        return "a folder that does not say"
    rows = ", ".join(f"{counts['written']:,} rows of {split}" for split, counts in manifest["splits"].items())
    if truncated := _num_truncated(manifest):
        rows += f", {truncated:,} of them cut to {manifest.get('max_positions')} positions ({manifest.get('cut')})"
    source = manifest["source"]
    checksums = source.get("sha256", {})
    if not isinstance(checksums, dict):  # text prepared by an earlier version
        checksums = {"all": checksums}
    files = ", ".join(f"{name} {checksum[:12]}" for name, checksum in checksums.items())
    files = files or f"{source.get('name')} at {source.get('revision')}"
    return f"{rows}; {source['kind']}, {files}; {manifest['tokenizer']['name']}"


def find_tokenizer(checkpoint: InitialCheckpoint, options: DataOptions) -> Tokenizer:
    """The tokenizer of the options, else the one next to the checkpoint; ValueError if there is none."""
    folder = checkpoint.original.parent
    files = options.tokenizer or find_tokenizer_files(folder)
    if not files:
        raise ValueError(
            f"there is no tokenizer next to {checkpoint.original}; pass the one of its pretraining with {FLAGS_TEXT}"
        )
    dictionary = folder / DICTIONARY
    return load_tokenizer(files, dictionary if dictionary.is_file() else None)


def companion_files(folder) -> list[Path]:
    """Files of a task's folder that must be next to a finetuned checkpoint to evaluate text."""
    names = [f"input0/{DICTIONARY}", f"label/{DICTIONARY}", MANIFEST, *TOKENIZER_FILES]
    return [path for name in names if (path := Path(folder) / name).is_file()]
