"""The data of a task for a checkpoint: used as it is, or prepared."""

import json
from pathlib import Path
from typing import Any, Dict, List, Optional

from ..corpus.tokenizer import GPT2_FILES, SENTENCEPIECE, Tokenizer, load_tokenizer, tokenizer_beside
from ..evaluation.classifier import DICTIONARY, MANIFEST
from ..evaluation.rows import is_prepared, prepared_task
from ..task_data.prepare import prepare
from ..task_data.read import open_source
from ..task_data.table import Task
from .start import Start


def ready(
    task: Task, folder, start: Start, source: Optional[str] = None, gpt2=None, sentencepiece=None,
    cut: Optional[str] = None,
) -> List[str]:  # fmt: skip
    """Make sure that ``folder`` has the task, in the tokens of the checkpoint.

    Args:
        source: as for ``prepare``; None for the hub.
        gpt2, sentencepiece: the tokenizer; None for the one beside the checkpoint.
        cut: of longer texts; None for ``head``.

    Returns:
        lines that say what was done.

    Raises:
        ValueError: the folder holds something else, or what is needed to prepare it is missing.
    """
    folder = Path(folder)
    done = "used as it is"
    if not is_prepared(folder):
        tokenizer = find_tokenizer(start, gpt2, sentencepiece)
        prepare(task, folder, source or "hub", tokenizer, start.max_positions, **({"cut": cut} if cut else {}))
        done = "prepared"
    manifest = check_fits(task, folder, start.max_positions)
    start.check_data(folder)
    _check_same(task, folder, manifest, start, source, gpt2, sentencepiece, cut)
    return [f"{folder}: {done}"]


def folder_of(tasks, task: str, n) -> Path:
    """Of a task for a model of n in a folder of tasks: ``imdb-n1024`` if that exists, else ``imdb``."""
    longer = Path(tasks) / f"{task}-n{n}"
    return longer if longer.is_dir() else Path(tasks) / task


def check_fits(task: Task, folder: Path, n: int) -> Dict[str, Any]:
    """
    Returns:
        the manifest; empty if there is none.

    Raises:
        ValueError: a file is missing, the folder is of another task, or its rows were cut for another n.
    """
    check_whole(task, folder)
    found = prepared_task(folder)
    if found not in (None, task):
        raise ValueError(f"{folder} holds {found.name}, not {task.name}; give another folder")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8")) if found else {}
    positions, cut = manifest.get("max_positions", 0), _rows_cut(manifest)
    again = f"the model has {n}; prepare it again, in another folder"
    if positions > n:
        raise ValueError(f"{folder} has rows of up to {positions} positions, {again}")
    if positions < n and cut:
        raise ValueError(f"{folder} has {cut:,} rows cut to {positions} positions, {again}")
    return manifest


def _rows_cut(manifest: Dict[str, Any]) -> int:
    return sum(counts.get("cut", 0) for counts in manifest.get("splits", {}).values())


def check_whole(task: Task, folder: Path) -> None:
    """Raise ValueError if a file of a prepared folder is missing."""
    binarised = ["dict.txt", *(f"{split}.{end}" for split in task.splits for end in ("idx", "bin"))]
    labels = binarised if task.classes else [f"{split}.label" for split in task.splits]
    for part, names in {"label": labels, **{f"input{i}": binarised for i in range(task.inputs)}}.items():
        for name in names:
            if not (folder / part / name).is_file():
                command = f"fairseq-linformer prepare {task.name}"
                raise ValueError(f"there is no {folder / part / name}; rerun `{command}`, with another folder")


def _check_same(
    task: Task, folder: Path, manifest: Dict[str, Any], start: Start, source, gpt2, sentencepiece, cut
) -> None:
    """The options must be those that the folder was made with, where it says that."""
    if not any((source, gpt2, sentencepiece, cut)):
        return
    if not manifest:
        raise ValueError(
            f"{folder} does not say what it was made of; --source, --gpt2, --sentencepiece and --cut are for data that "
            "is prepared here"
        )
    differing = []
    if source and open_source(task, source).described() != manifest.get("source"):
        differing.append(f"--source {source}")
    if gpt2 or sentencepiece:
        ours, theirs = find_tokenizer(start, gpt2, sentencepiece).files, manifest.get("tokenizer", {}).get("sha256", {})
        if sorted(ours.values()) != sorted(theirs.values()):  # the names of files do not matter
            differing.append("this tokenizer")
    if cut and cut != manifest.get("cut"):
        differing.append(f"--cut {cut}")
    if differing:
        options = " and ".join(differing)
        raise ValueError(f"{folder} was not made with {options}; leave that out, or give another --data")


def described(folder) -> str:
    """The data in words: sources with their sums, and rows."""
    path = Path(folder) / MANIFEST
    manifest = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if not {"splits", "source", "tokenizer"} <= set(manifest):
        return "a folder that does not say"
    rows = ", ".join(f"{counts['written']:,} rows of {split}" for split, counts in manifest["splits"].items())
    if cut := _rows_cut(manifest):
        rows += f", {cut:,} of them cut to {manifest.get('max_positions')} positions ({manifest.get('cut')})"
    source = manifest["source"]
    sums = source.get("sha256", {})
    sums = sums if isinstance(sums, dict) else {"all": sums}  # of a folder of texts that an earlier version prepared
    files = ", ".join(f"{name} {value[:12]}" for name, value in sums.items())
    files = files or f"{source.get('name')} at {source.get('revision')}"
    return f"{rows}; {source['kind']}, {files}; {manifest['tokenizer']['name']}"


def find_tokenizer(start: Start, gpt2=None, sentencepiece=None) -> Tokenizer:
    """The tokenizer of the options, else that beside the checkpoint; ValueError if there is none."""
    folder = start.given.parent
    files = {"gpt2": gpt2, "sentencepiece": sentencepiece}
    if gpt2 is None and sentencepiece is None:
        files = tokenizer_beside(folder)
    if not files:
        raise ValueError(
            f"the task must be prepared, and there is no tokenizer beside {start.given}; --sentencepiece or --gpt2 "
            "names the one of its pretraining"
        )
    dictionary = folder / DICTIONARY
    return load_tokenizer(**files, dictionary=dictionary if dictionary.is_file() else None)


def files_beside(folder) -> List[Path]:
    """The files that a checkpoint finetuned on a folder needs beside it to evaluate texts."""
    names = [f"input0/{DICTIONARY}", f"label/{DICTIONARY}", MANIFEST, SENTENCEPIECE, *GPT2_FILES]
    return [path for name in names if (path := Path(folder) / name).is_file()]
