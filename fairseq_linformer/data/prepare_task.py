"""Writes a task as a folder for ``--task sentence_prediction``, atomically.

    OUT/input0/{train,valid}.{bin,idx}, dict.txt     the first text, with </s>
    OUT/input1/...                                   the second text of a pair
    OUT/label/{train,valid}.{bin,idx}, dict.txt      the class, with </s>; classes in the order of ``tasks.py``
    OUT/label/{train,valid}.label                    instead, one score from 0 to 1 per line
    OUT/sentencepiece.bpe.model, tokenizer.json, or encoder.json and vocab.bpe: the tokenizer
    OUT/manifest.json                                source, options, and what was skipped

fairseq's examples/roberta/preprocess_GLUE_tasks.sh writes the same, except that it orders classes by frequency.
"""

import random
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..files import new_folder, write_files, write_lines
from ..progress import progress_bar
from .binarized import BinarizedWriter
from .manifest import write_manifest
from .tables import Example
from .task_sources import TaskFiles, check_unusable, read_task_rows
from .tasks import MAX_POSITIONS, OWN, TRUNCATIONS, Task
from .tokenizer import EOS, FIRST_ID, UNK, Tokenizer
from .tokenizer_files import DICTIONARY
from .truncation import check_max_positions, truncate

SAMPLE_SEED = 1
"""Seed of the rows that ``num_rows`` selects."""
_BATCH_ROWS = 1000  # tokenized per call


def prepare_task(
    task: Task,
    out,
    source: TaskFiles,
    tokenizer: Tokenizer,
    max_positions: int = MAX_POSITIONS,
    truncation: str = TRUNCATIONS[0],
    num_rows: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Prepare a task in a new or empty folder ``out``. The rows of a split are held in memory.

    Args:
        max_positions: n; longer rows are truncated, see ``truncation.py``.
        truncation: ``head`` or ``head+tail``.
        num_rows: rows to select at random, in their order, of ``train`` and of each development set, ``valid``;
            None for all.

    Returns:
        The manifest, without files and versions.
    """
    check_max_positions(max_positions, task.num_inputs)
    num_rows = num_rows or {}
    with new_folder(out) as folder:
        splits = {}
        for split in task.splits:
            rows = read_task_rows(task, source, split)
            kind = "train" if split == "train" else "valid"
            if kind in num_rows:
                rows = _sample(rows, kind, num_rows[kind])
            inputs = [BinarizedWriter(folder / f"input{i}" / split, tokenizer.dtype) for i in range(task.num_inputs)]
            written, unusable, counts = _write_inputs(inputs, split, rows, tokenizer, max_positions, truncation)
            check_unusable(split, unusable, len(rows))
            splits[split] = {
                "read": len(rows),
                "written": len(written),
                "skipped": len(unusable),
                "first_skipped": str(unusable[0]) if unusable else None,
                **counts,
                **_write_labels(task, folder / "label", split, written),
            }
        # fairseq reads those of the inputs; the first one is next to the tokenizer, for inputs that are text.
        for part in (".", *(f"input{i}" for i in range(task.num_inputs))):
            write_lines(folder / part / DICTIONARY, tokenizer.dictionary)
        write_files(folder, tokenizer.model_files)
        if task.classes:
            write_lines(folder / "label" / DICTIONARY, (f"{name} 1" for name in task.class_names))
        manifest = {
            "task": task.name,
            "license": task.license,
            "source": source.description,
            "tokenizer": {"name": tokenizer.name, "sha256": tokenizer.checksums},
            "max_positions": max_positions,
            "cut": truncation,
            "selected_rows": num_rows,
            "num_inputs": task.num_inputs,
            "classes": task.class_names,
            "splits": splits,
        }
        if task.name == OWN and task.score_range:
            manifest["score_range"] = task.score_range
        write_manifest(folder, manifest)
    return manifest


def _sample(rows: Sequence[Example], kind: str, number: int) -> list[Example]:
    """A random selection of this number of rows, in their order; ValueError if there are fewer."""
    if number > len(rows):
        raise ValueError(f"--{kind}-rows must be at most {len(rows)}, the rows of the source, got {number}")
    return [rows[i] for i in sorted(random.Random(SAMPLE_SEED).sample(range(len(rows)), number))]


def _write_inputs(
    writers: Sequence[BinarizedWriter],
    split: str,
    rows: Sequence[Example],
    tokenizer: Tokenizer,
    max_positions: int,
    truncation: str,
) -> tuple[list[Example], list[Example], Counter[str]]:
    """Write the texts of the usable rows of a split, with a writer per input; returns these rows, the unusable ones, to
    which those without tokens belong, and the numbers of truncated rows, of tokens, and of <unk> among them."""
    unusable, usable = [row for row in rows if row.problem], [row for row in rows if not row.problem]
    written: list[Example] = []
    totals: Counter[str] = Counter(cut=0, tokens=0, unknown=0)
    with progress_bar(f"preparing {split}", len(usable), "row") as progress:
        for start in range(0, len(usable), _BATCH_ROWS):
            batch = usable[start : start + _BATCH_ROWS]
            encoded = [tokenizer.encode(texts) for texts in zip(*(row.texts for row in batch))]
            has_tokens = np.all([sizes > 1 for _, sizes in encoded], axis=0)  # SentencePiece removes characters
            unusable += [replace(row, problem="no tokens") for row, kept in zip(batch, has_tokens) if not kept]
            written += [row for row, kept in zip(batch, has_tokens) if kept]
            ids = [ids[np.repeat(has_tokens, sizes)] for ids, sizes in encoded]
            sizes = [sizes[has_tokens] for _, sizes in encoded]
            ids, sizes, num_truncated = truncate(ids, sizes, max_positions, truncation)
            num_unknown = sum(int((each == UNK).sum()) for each in ids)
            totals.update(cut=num_truncated, tokens=sum(map(len, ids)), unknown=num_unknown)
            for writer, *text in zip(writers, ids, sizes):
                writer.add(*text)
            progress.update(len(batch))
    for writer in writers:
        writer.finish()
    return written, unusable, totals


def _write_labels(task: Task, folder: Path, split: str, rows: Sequence[Example]) -> dict[str, Any]:
    """Write the labels of a split; returns the number of rows of each class for the manifest, if there are classes."""
    targets = [task.target(str(row.label)) for row in rows]
    if task.score_range:
        write_lines(folder / f"{split}.label", (f"{score:.6g}" for score in targets))  # as awk in fairseq's script
        return {}
    classes = np.array(targets, dtype=int)
    writer = BinarizedWriter(folder / split, np.uint16)
    writer.add(np.stack([FIRST_ID + classes, np.full(len(classes), EOS)], 1).ravel(), np.full(len(classes), 2))
    writer.finish()
    counts = np.bincount(classes, minlength=len(task.class_names)).tolist()
    return {"classes": dict(zip(task.class_names, counts))}


def describe_skipped(counts: Mapping[str, Any]) -> str:
    """How many rows of a split were skipped, and the first of them, by its counts in the manifest."""
    first = f" (the first is {counts['first_skipped']})" if counts["skipped"] else ""
    return f"{counts['skipped']:,} skipped{first}"


def summarize_task(task: Task, out, manifest: Mapping[str, Any]) -> str:
    """Counts of a prepared task, and the ``fairseq-train`` options for it."""
    lines = [f"{out}: {task.name}, tokenized with {manifest['tokenizer']['name']}"]
    n = manifest["max_positions"]
    for split, counts in manifest["splits"].items():
        truncated = f"{counts['cut']:,} truncated to {n} positions"
        written = f"{counts['written']:,} rows, {describe_skipped(counts)}"
        lines.append(f"{split}: {written}, {truncated}, {counts['tokens']:,} tokens")
    head = f"--num-classes {len(task.class_names)}" if task.classes else "--num-classes 1 --regression-target"
    valid = ",".join(split for split in task.splits if split != "train")
    folder = shlex.quote(str(out))
    lines.append(
        f"fairseq-train {folder} --task sentence_prediction --criterion sentence_prediction {head} --max-positions {n} "
        "--init-token 0 --separator-token 2" + (f" --valid-subset {valid}" if valid != "valid" else "")
    )
    return "\n".join(lines)
