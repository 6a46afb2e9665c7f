"""What a folder of a task was made of, for ``manifest.json`` and for a reader."""

import platform
import shlex
from importlib.metadata import version
from pathlib import Path

from .. import __version__
from ..corpus.tokenizer import Tokenizer
from ..files import sha256
from .hub import Parquet
from .table import Task

NAME = "manifest.json"
_PACKAGES = {"gpt2": "tiktoken", "sentencepiece": "sentencepiece"}


def manifest_of(
    task: Task, folder: Path, source, rows, tokenizer: Tokenizer, splits: dict, max_positions: int, cut: str,
    max_skipped: float,
) -> dict:  # fmt: skip
    """The manifest of a ``folder`` in which all else is written. It has neither times nor paths of this machine.

    Args:
        source: as the command line has it.
        rows: the source that was opened, and read to its end.
        splits: the counts of each split; ``labels`` are the labels that its source has.
    """
    packages = [_PACKAGES[tokenizer.name], *(["datasets"] if isinstance(rows, Parquet) else [])]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    command = [
        "fairseq-linformer", "prepare", task.name, "OUT",
        "--source", "hub" if str(source) == "hub" else Path(source).absolute().name,
        f"--{tokenizer.name}", "FOLDER" if tokenizer.name == "gpt2" else "MODEL",
        "--max-positions", str(max_positions), "--cut", cut, "--max-skipped", str(max_skipped),
    ]  # fmt: skip
    return {
        "task": task.name,
        "licence": task.licence,
        "command": shlex.join(command),
        "source": rows.described(),
        "tokenizer": {"name": tokenizer.name, "sha256": tokenizer.files},
        "max_positions": max_positions,
        "cut": cut,
        "labels": _labels(task, splits),
        "splits": {split: {k: v for k, v in counts.items() if k != "labels"} for split, counts in splits.items()},
        "versions": {
            "fairseq-linformer": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "files": {path.relative_to(folder).as_posix(): sha256(path) for path in files},
    }


def _labels(task: Task, splits: dict) -> dict:
    """What the source's labels became: its word -> name and number of the class."""
    if task.score:
        return {"lowest": task.score[0], "highest": task.score[1], "written": "divided by the highest"}
    labels = {label for counts in splits.values() for label in counts["labels"]}
    numbers = {label: task.number(label) for label in sorted(labels, key=lambda label: (task.number(label), label))}
    return {label: {"class": task.names[number], "number": number} for label, number in numbers.items()}


def summary(task: Task, out, manifest: dict) -> str:
    """What was done, and fairseq's options that fit."""
    lines = [f"{out}: {task.name} in the tokens of {manifest['tokenizer']['name']}"]
    n = manifest["max_positions"]
    for split, counts in manifest["splits"].items():
        skipped = sum(reason["rows"] for reason in counts["skipped"].values())
        cut = f"{counts['cut']:,} cut to {n} positions"
        lines.append(f"{split}: {counts['written']:,} rows, {skipped:,} skipped, {cut}, {counts['tokens']:,} tokens")
        for reason, skips in counts["skipped"].items():
            more = ["..."] if skips["rows"] > len(skips["examples"]) else []
            lines.append(f"  {skips['rows']:,} skipped, {reason}: {'; '.join(skips['examples'] + more)}")
    head = f"--num-classes {len(task.names)}" if task.classes else "--num-classes 1 --regression-target"
    valid = ",".join(split for split in manifest["splits"] if split != "train")
    lines.append(
        f"fairseq-train {out} --task sentence_prediction --criterion sentence_prediction {head} --max-positions {n} "
        "--init-token 0 --separator-token 2" + (f" --valid-subset {valid}" if valid != "valid" else "")
    )
    return "\n".join(lines)
