"""The data of a task for a checkpoint: taken if it is there, prepared if it is not."""

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


def ready(task: Task, folder, start: Start, source: Optional[str] = None, gpt2=None, sentencepiece=None, cut: Optional[str] = None) -> List[str]:
    """See to it that ``folder`` has the task, in the tokens of the checkpoint.

    Args:
        source: as for ``prepare``; None for the hub.
        gpt2, sentencepiece: the tokenizer; None for what lies beside the checkpoint.
        cut: of longer texts; None for ``head``.

    Returns:
        lines that say what was done.

    Raises:
        ValueError: the folder holds something else, or what is needed to prepare it is missing; one sentence.
    """
    folder = Path(folder)
    if not is_prepared(folder):
        tokenizer = find_tokenizer(start, gpt2, sentencepiece)
        prepare(task, folder, source or "hub", tokenizer, start.max_positions, **({"cut": cut} if cut else {}))
        said = [f"{folder}: prepared"]
    else:
        said = [f"{folder}: taken as it is"]
    manifest = check_fits(task, folder, start.max_positions)
    start.check_data(folder)
    _check_same(task, folder, manifest, start, source, gpt2, sentencepiece, cut)
    return said


def folder_of(tasks, task: str, n) -> Path:
    """Of a task for a model of n in a folder of tasks: ``imdb-n1024`` if that is there, else ``imdb``."""
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
    of = prepared_task(folder)
    if of is not None and of != task:
        raise ValueError(f"{folder} holds {of.name}; {task.name} is wanted, in another folder")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8")) if of else {}
    if (there := manifest.get("max_positions", 0)) > n:
        raise ValueError(f"{folder} has rows of up to {there} positions, the model has {n}; prepare it anew, in another folder")
    if there < n and (short := sum(counts.get("cut", 0) for counts in manifest.get("splits", {}).values())):
        raise ValueError(f"{folder} has {short:,} rows cut to {there} positions, the model has {n}; prepare it anew, in another folder")
    return manifest


def check_whole(task: Task, folder: Path) -> None:
    """
    Raises:
        ValueError: a file of it is missing.
    """
    of_numbers = ["dict.txt", *(f"{split}.{end}" for split in task.splits for end in ("idx", "bin"))]
    labels = of_numbers if task.classes else [f"{split}.label" for split in task.splits]
    parts = {"label": labels, **{f"input{i}": of_numbers for i in range(task.inputs)}}
    for part, names in parts.items():
        for name in names:
            if not (folder / part / name).is_file():
                raise ValueError(f"there is no {folder / part / name}, as `fairseq-linformer prepare {task.name}` writes it; prepare it anew, in another folder")


def _check_same(task: Task, folder: Path, manifest: Dict[str, Any], start: Start, source, gpt2, sentencepiece, cut) -> None:
    """What is asked for must be what is there, where the folder says what that is."""
    if not any((source, gpt2, sentencepiece, cut)):
        return
    if not manifest:
        raise ValueError(f"{folder} does not say what it was made of; --source, --gpt2, --sentencepiece and --cut are for data that is prepared here")
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
        raise ValueError(f"{folder} was not made with {' and '.join(differing)}; leave that out to take it as it is, or give another --data")


def described(folder) -> str:
    """What the data is, in words: sources with their sums, and rows."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return "a folder that does not say"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    if not {"splits", "source", "tokenizer"} <= set(manifest):
        return "a folder that does not say"
    rows = ", ".join(f"{counts['written']:,} rows of {split}" for split, counts in manifest["splits"].items())
    if short := sum(counts.get("cut", 0) for counts in manifest["splits"].values()):
        rows += f", {short:,} of them cut to {manifest.get('max_positions')} positions ({manifest.get('cut')})"
    source = manifest["source"]
    of_files = source.get("sha256", {})
    of_files = of_files if isinstance(of_files, dict) else {"all": of_files}  # of a folder of texts that an earlier version prepared
    sums = ", ".join(f"{name} {value[:12]}" for name, value in of_files.items()) or f"{source.get('name')} at {source.get('revision')}"
    return f"{rows}; {source['kind']}, {sums}; {manifest['tokenizer']['name']}"


def find_tokenizer(start: Start, gpt2=None, sentencepiece=None) -> Tokenizer:
    """
    Raises:
        ValueError: none is given, and none lies beside the checkpoint.
    """
    beside = start.given.parent
    if gpt2 is None and sentencepiece is None:
        found = tokenizer_beside(beside)
        if not found:
            raise ValueError(f"the task is still to be prepared, and there is no tokenizer beside {start.given}; --sentencepiece or --gpt2 says which it was pretrained with")
    else:
        found = {"gpt2": gpt2, "sentencepiece": sentencepiece}
    dictionary = beside / DICTIONARY
    return load_tokenizer(**found, dictionary=dictionary if dictionary.is_file() else None)


def files_beside(folder) -> List[Path]:
    """What a checkpoint that was finetuned on a folder needs beside it to judge texts."""
    folder = Path(folder)
    names = [f"input0/{DICTIONARY}", f"label/{DICTIONARY}", MANIFEST, SENTENCEPIECE, *GPT2_FILES]
    return [folder / name for name in names if (folder / name).is_file()]
