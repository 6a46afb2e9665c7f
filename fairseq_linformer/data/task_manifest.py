"""``manifest.json`` of a prepared task, and its summary."""

import platform
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import __version__
from ..files import sha256
from .task_hub import ParquetSource
from .task_source import TaskSource
from .tasks import Task
from .tokenizer import Tokenizer
from .tokenizer_files import TOKENIZER_FLAGS

_PACKAGES = {"gpt2": "tiktoken", "sentencepiece": "sentencepiece"}
_PATHS = {"gpt2": "FOLDER", "sentencepiece": "MODEL"}


def build_manifest(
    task: Task,
    folder: Path,
    source,
    task_source: TaskSource,
    tokenizer: Tokenizer,
    splits: dict[str, dict],
    max_positions: int,
    truncation: str,
    max_skipped: float,
    num_rows: dict[str, int],
) -> dict[str, Any]:
    """The manifest of a folder whose other files are finished. It has neither times nor local paths.

    Args:
        source: ``--source`` of the command line.
        task_source: the opened source.
        splits: counts per split; ``labels`` lists the source's labels.
        num_rows: selected rows by split, ``train`` or ``valid``.
    """
    packages = [_PACKAGES.get(tokenizer.name, "tokenizers")]
    packages += ["datasets"] if isinstance(task_source, ParquetSource) else []
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    command = ["fairseq-linformer", "prepare", task.name, "OUT"]
    command += ["--source", "hub" if str(source) == "hub" else Path(source).absolute().name]
    kind = tokenizer.name if tokenizer.name in TOKENIZER_FLAGS else "tokenizer_json"
    command += [TOKENIZER_FLAGS[kind], _PATHS.get(kind, "FILE")]
    command += ["--max-positions", str(max_positions), "--truncation", truncation, "--max-skipped", str(max_skipped)]
    command += [word for split, number in sorted(num_rows.items()) for word in (f"--{split}-rows", str(number))]
    return {
        "task": task.name,
        "license": task.license,
        "command": shlex.join(command),
        "source": task_source.describe(),
        "tokenizer": {"name": tokenizer.name, "sha256": tokenizer.checksums},
        "max_positions": max_positions,
        "cut": truncation,
        "labels": _describe_labels(task, splits),
        "splits": {split: {k: v for k, v in counts.items() if k != "labels"} for split, counts in splits.items()},
        "versions": {
            "fairseq-linformer": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "files": {path.relative_to(folder).as_posix(): sha256(path) for path in files},
    }


def _describe_labels(task: Task, splits: dict[str, dict]) -> dict[str, Any]:
    """The range of scores, or class name and index by the source's label."""
    if task.score_range:
        return {"lowest": task.score_range[0], "highest": task.score_range[1], "written": "divided by the highest"}
    labels = {label for counts in splits.values() for label in counts["labels"]}
    indices = {label: task.class_index(label) for label in sorted(labels, key=lambda x: (task.class_index(x), x))}
    return {label: {"class": task.class_names[i], "number": i} for label, i in indices.items()}


def summarize_task(task: Task, out, manifest: dict[str, Any]) -> str:
    """Counts of a prepared task, and the ``fairseq-train`` options for it."""
    lines = [f"{out}: {task.name}, tokenized with {manifest['tokenizer']['name']}"]
    n = manifest["max_positions"]
    for split, counts in manifest["splits"].items():
        skipped = sum(reason["rows"] for reason in counts["skipped"].values())
        truncated = f"{counts['cut']:,} truncated to {n} positions"
        lines.append(
            f"{split}: {counts['written']:,} rows, {skipped:,} skipped, {truncated}, {counts['tokens']:,} tokens"
        )
        for reason, skips in counts["skipped"].items():
            more = ["..."] if skips["rows"] > len(skips["examples"]) else []
            lines.append(f"  {skips['rows']:,} skipped, {reason}: {'; '.join(skips['examples'] + more)}")
    head = f"--num-classes {len(task.class_names)}" if task.classes else "--num-classes 1 --regression-target"
    valid = ",".join(split for split in manifest["splits"] if split != "train")
    lines.append(
        f"fairseq-train {out} --task sentence_prediction --criterion sentence_prediction {head} --max-positions {n} "
        "--init-token 0 --separator-token 2" + (f" --valid-subset {valid}" if valid != "valid" else "")
    )
    return "\n".join(lines)
