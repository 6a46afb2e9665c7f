"""Writes a task as a folder for ``--task sentence_prediction``, atomically.

    OUT/input0/{train,valid}.{bin,idx}, dict.txt     the first text, with </s>
    OUT/input1/...                                   the second text of a pair
    OUT/label/{train,valid}.{bin,idx}, dict.txt      the class, with </s>; classes in the order of ``tasks.py``
    OUT/label/{train,valid}.label                    instead, one score from 0 to 1 per line
    OUT/sentencepiece.bpe.model, tokenizer.json, or encoder.json and vocab.bpe: the tokenizer
    OUT/manifest.json                                source, options, and what was skipped

fairseq's examples/roberta/preprocess_GLUE_tasks.sh writes the same, except that it orders classes by frequency.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..data import sentencepiece_model
from ..files import check_new_folder, new_folder, write_lines
from ..progress import Progress
from .binarized import BinarizedWriter
from .manifest import MANIFEST
from .options import MAX_SKIPPED, check_max_skipped
from .task_manifest import build_manifest
from .task_rows import Row, clean_row, scale_score
from .task_source import open_source
from .tasks import Task
from .tokenizer import EOS, FIRST_ID, UNK, Tokenizer
from .truncation import MAX_POSITIONS, TRUNCATIONS, check_truncation, truncate

_BATCH_ROWS, _BATCH_CHARACTERS = 1000, 4_000_000  # tokenized per call
_MAX_EXAMPLES = 3
SAMPLE_SEED = 1
"""Seed of the rows that ``num_rows`` selects."""


def prepare_task(
    task: Task,
    out,
    source,
    tokenizer: Tokenizer,
    max_positions: int = MAX_POSITIONS,
    truncation: str = TRUNCATIONS[0],
    max_skipped: float = MAX_SKIPPED,
    num_rows: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Prepare a task in a new or empty folder ``out``.

    Args:
        source: ``hub`` or a path; see ``task_source.py``.
        max_positions: n; longer rows are truncated, see ``truncation.py``.
        truncation: ``head`` or ``head+tail``.
        max_skipped: limit on the share of a split's rows that are skipped because they are unusable.
        num_rows: rows to select at random, in their order, of ``train`` and of each development set, ``valid``;
            None for all.

    Returns:
        The manifest. It has neither times nor paths, so the same input gives the same bytes.

    Raises:
        ValueError: the source is missing, damaged or of another task, too many rows are unusable, or an option is out
            of range.
        OSError: ``out`` cannot be written, or the source cannot be read.
    """
    check_new_folder(out)
    check_truncation(max_positions, task.num_inputs, truncation)
    check_max_skipped(max_skipped)
    num_rows = dict(num_rows or {})
    for name, number in num_rows.items():
        if number < 1:
            raise ValueError(f"--{name}-rows must be at least 1, got {number}")
    task_source = open_source(task, source)
    try:
        with new_folder(out) as folder:
            splits = {}
            for name in task.splits:
                with closing(_SplitWriter(task, name, folder, tokenizer, max_positions, truncation)) as split:
                    kind = "train" if name == "train" else "valid"
                    total = num_rows.get(kind) or task_source.count_rows(name)
                    progress = Progress(f"{task.name} {name}", total, "rows")
                    with closing(task_source.read_rows(name)) as rows, progress:  # type: ignore[type-var]
                        split.add(_sample(rows, kind, num_rows.get(kind)), progress)
                    split.check(source, max_skipped)
                    splits[name] = split.finish()
            for i in range(task.num_inputs):
                write_lines(folder / f"input{i}" / "dict.txt", tokenizer.dictionary)
            for name, content in tokenizer.model_files.items():
                (folder / name).write_bytes(content)
            if task.classes:
                write_lines(folder / "label" / "dict.txt", sentencepiece_model.dictionary_lines(task.class_names))
            limits = (max_positions, truncation, max_skipped, num_rows)
            manifest = build_manifest(task, folder, source, task_source, tokenizer, splits, *limits)
            write_lines(folder / MANIFEST, [json.dumps(manifest, indent=2)])
    except OSError as error:  # names a file of out or of the source
        raise OSError(f"preparing {out} failed, and nothing was written: {error}") from None
    return manifest


def _sample(rows: Iterator[Row], split: str, number: int | None) -> Iterator[Row]:
    """All rows, or a random selection of this number of them; ValueError if there are fewer."""
    if number is None:
        return rows
    every = list(rows)
    if number > len(every):
        raise ValueError(f"--{split}-rows must be at most {len(every)}, the rows of the source, got {number}")
    return (every[i] for i in sorted(random.Random(SAMPLE_SEED).sample(range(len(every)), number)))


class _SplitWriter:
    """Writes and counts the rows of a split."""

    def __init__(self, task: Task, split: str, folder: Path, tokenizer: Tokenizer, max_positions: int, truncation: str):
        self._task, self._split, self._tokenizer = task, split, tokenizer
        self._max_positions, self._truncation = max_positions, truncation
        self._inputs = [BinarizedWriter(folder / f"input{i}" / split, tokenizer.dtype) for i in range(task.num_inputs)]
        self._labels: BinarizedWriter | IO[str]
        if task.classes:
            self._labels = BinarizedWriter(folder / "label" / split, np.uint16)
        else:
            (folder / "label").mkdir(exist_ok=True)
            self._labels = open(folder / "label" / f"{split}.label", "w", encoding="ascii", newline="\n")
        self._num_read = self._num_truncated = self._num_tokens = self._num_unknown = 0
        self._label_counts: Counter[str] = Counter()
        self._skipped: dict[str, dict[str, Any]] = {}
        self._first_skipped: Row | None = None

    def add(self, rows: Iterator[Row], progress: Progress) -> None:
        """Tokenize and write all rows, batch by batch."""
        batch: list[Row] = []
        characters = 0
        for row in rows:
            self._num_read += 1
            progress.add(1)
            row = clean_row(self._task, row)
            if row.reason:
                self._skip(row)
                continue
            batch.append(row)
            characters += sum(map(len, row.texts))
            if len(batch) == _BATCH_ROWS or characters > _BATCH_CHARACTERS:
                self._write(batch)
                batch, characters = [], 0
        self._write(batch)

    def _skip(self, row: Row) -> None:
        self._first_skipped = self._first_skipped or row
        skips = self._skipped.setdefault(row.reason, {"rows": 0, "examples": []})
        skips["rows"] += 1
        if len(skips["examples"]) < _MAX_EXAMPLES:
            skips["examples"].append(f"{row.location}: {row.detail}" if row.detail else row.location)

    def _write(self, batch: list[Row]) -> None:
        encoded = [self._tokenizer.encode([row.texts[i] for row in batch]) for i in range(self._task.num_inputs)]
        is_empty = np.logical_or.reduce([sizes == 1 for _, sizes in encoded])
        if is_empty.any():
            # SentencePiece removes some characters. That is rare, so the other rows are simply encoded again.
            for i in np.flatnonzero(is_empty):
                self._skip(Row(batch[i].location, reason="empty text", detail="no tokens"))
            return self._write([batch[i] for i in np.flatnonzero(~is_empty)])
        ids, sizes, num_truncated = truncate(
            [ids for ids, _ in encoded], [sizes for _, sizes in encoded], self._max_positions, self._truncation
        )
        self._num_truncated += num_truncated
        for writer, input_ids, input_sizes in zip(self._inputs, ids, sizes):
            writer.add(input_ids, input_sizes)
            self._num_tokens += len(input_ids)
            self._num_unknown += int((input_ids == UNK).sum())
        if isinstance(self._labels, BinarizedWriter):
            self._label_counts.update(row.label for row in batch)
            labels = [[FIRST_ID + self._task.class_index(row.label), EOS] for row in batch]
            self._labels.add(np.array(labels, dtype=np.uint16).reshape(-1), np.full(len(batch), 2, dtype=np.int32))
        else:
            # the format of awk in fairseq's script
            self._labels.writelines(f"{scale_score(self._task, row.label):.6g}\n" for row in batch)

    def check(self, source, max_skipped: float) -> None:
        """Raise ValueError if there are no rows, or too many were skipped."""
        skipped = sum(skips["rows"] for skips in self._skipped.values())
        if skipped > max_skipped * self._num_read:
            raise ValueError(
                f"{source}: at most --max-skipped {max_skipped} of the rows of {self._split} may be unusable, got "
                f"{skipped:,} of {self._num_read:,}; the first is {self._first_skipped}"
            )
        if skipped == self._num_read:
            raise ValueError(f"{source} has no rows of {self._split}")

    def finish(self) -> dict[str, Any]:
        """Move the files to their final names, and return the counts for the manifest."""
        for writer in (*self._inputs, self._labels):
            if isinstance(writer, BinarizedWriter):
                writer.finish()
        self.close()
        counts = {
            "read": self._num_read,
            "written": self._inputs[0].num_lines,
            "skipped": dict(sorted(self._skipped.items())),
            "cut": self._num_truncated,
            "tokens": self._num_tokens,
            "unknown": self._num_unknown,
        }
        if self._task.classes:
            classes = dict.fromkeys(self._task.class_names, 0)
            for label, count in self._label_counts.items():
                classes[self._task.class_names[self._task.class_index(label)]] += count
            counts |= {"classes": classes, "labels": list(self._label_counts)}
        return counts

    def close(self) -> None:
        """Close all files and remove the unfinished ones."""
        for writer in (*self._inputs, self._labels):
            writer.close()
