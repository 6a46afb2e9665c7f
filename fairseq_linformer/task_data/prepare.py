"""From the rows of a task to a folder for ``--task sentence_prediction``, whole or not at all.

    OUT/input0/{train,valid}.{bin,idx}, dict.txt     the first text, with </s>
    OUT/input1/...                                   the second text of a pair
    OUT/label/{train,valid}.{bin,idx}, dict.txt      the class, with </s>; classes in the order of the table
    OUT/label/{train,valid}.label                    instead, one score from 0 to 1 per line
    OUT/sentencepiece.bpe.model, or encoder.json and vocab.bpe: the tokenizer
    OUT/manifest.json                                what it was made of, and what was skipped

fairseq's examples/roberta/preprocess_GLUE_tasks.sh makes the same, except that it numbers classes by frequency.
"""

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Iterator, List, Optional

import numpy as np

from ..corpus import spm
from ..corpus.binarised import Writer
from ..corpus.options import MAX_SKIPPED, check_max_skipped
from ..corpus.tokenizer import EOS, FIRST, UNKNOWN, Tokenizer
from ..files import check_new_folder, new_folder, write_lines
from . import cut as cutting
from .manifest import NAME, manifest_of
from .read import open_source
from .rows import Row, checked, score
from .table import Task

_ROWS, _CHARACTERS = 1000, 4_000_000  # tokenized at a time
_EXAMPLES = 3


def prepare(
    task: Task, out, source, tokenizer: Tokenizer, max_positions: int = cutting.MAX_POSITIONS,
    cut: str = cutting.HOW[0], max_skipped: float = MAX_SKIPPED,
) -> dict:  # fmt: skip
    """Write ``out``, a new or empty folder.

    Args:
        source: ``hub`` or a path; see ``read.py``.
        max_positions: n; longer rows are cut, see ``cut.py``.
        cut: ``head`` or ``head+tail``.
        max_skipped: the share of the rows of a split that may be skipped because they cannot be used.

    Returns:
        The manifest, as written. It has neither time nor paths: the same input makes the same bytes.

    Raises:
        ValueError: a source is missing or damaged, is not what the table says, or too much of it had to be skipped;
            or an option is out of range.
        OSError: ``out`` cannot be written, or a file of a source not be read.
    """
    check_new_folder(out)
    cutting.check(max_positions, task.inputs, cut)
    check_max_skipped(max_skipped)
    rows = open_source(task, source)
    try:
        with new_folder(out) as folder:
            splits = {}
            for name in task.splits:
                with closing(_Split(task, name, folder, tokenizer, max_positions, cut)) as split:
                    with closing(rows.rows(name)) as source_rows:
                        split.add(source_rows)
                    split.check(source, max_skipped)
                    splits[name] = split.finish()
            for i in range(task.inputs):
                write_lines(folder / f"input{i}" / "dict.txt", tokenizer.dictionary)
            for name, content in tokenizer.beside.items():
                (folder / name).write_bytes(content)
            if task.classes:
                write_lines(folder / "label" / "dict.txt", spm.entries(task.names))
            manifest = manifest_of(task, folder, source, rows, tokenizer, splits, max_positions, cut, max_skipped)
            write_lines(folder / NAME, [json.dumps(manifest, indent=2)])
    except OSError as error:  # it names the file, which need not be one of out
        raise OSError(f"{out} was not finished, nothing of it is left: {error}") from None
    return manifest


class _Split:
    """Writes and counts the rows of a split."""

    def __init__(self, task: Task, split: str, folder: Path, tokenizer: Tokenizer, max_positions: int, how: str):
        self._task, self._split, self._tokenizer, self._n, self._how = task, split, tokenizer, max_positions, how
        self._inputs = [Writer(folder / f"input{i}" / split, tokenizer.dtype) for i in range(task.inputs)]
        self._label = self._scores = None
        if task.classes:
            self._label = Writer(folder / "label" / split, np.uint16)
        else:
            (folder / "label").mkdir(exist_ok=True)
            self._scores = open(folder / "label" / f"{split}.label", "w", encoding="ascii", newline="\n")
        self._writers = [*self._inputs, *([self._label] if self._label else [])]
        self.read = self.cut = self.tokens = self.unknown = 0
        self.labels: Counter = Counter()
        self.skipped: dict = {}
        self.first: Optional[Row] = None

    def add(self, rows: Iterator[Row]) -> None:
        """Tokenize and write all rows, batch by batch."""
        batch: List[Row] = []
        characters = 0
        for row in rows:
            self.read += 1
            row = checked(self._task, row)
            if row.reason:
                self._skip(row)
                continue
            batch.append(row)
            characters += sum(map(len, row.texts))
            if len(batch) == _ROWS or characters > _CHARACTERS:
                self._write(batch)
                batch, characters = [], 0
        self._write(batch)

    def _skip(self, row: Row) -> None:
        self.first = self.first or row
        skips = self.skipped.setdefault(row.reason, {"rows": 0, "examples": []})
        skips["rows"] += 1
        if len(skips["examples"]) < _EXAMPLES:
            skips["examples"].append(f"{row.place}: {row.detail}" if row.detail else row.place)

    def _write(self, batch: List[Row]) -> None:
        encoded = [self._tokenizer.encode([row.texts[i] for row in batch]) for i in range(self._task.inputs)]
        empty = np.logical_or.reduce([sizes == 1 for _, sizes in encoded])
        if empty.any():
            # Sentencepiece normalises some characters away. It is rare, so that encoding again is simplest.
            for row, is_empty in zip(batch, empty):
                if is_empty:
                    self._skip(Row(row.place, reason="empty text", detail="no tokens"))
            return self._write([row for row, is_empty in zip(batch, empty) if not is_empty])
        ids, sizes, cut = cutting.cut(*zip(*encoded), self._n, self._how)
        self.cut += cut
        for writer, text_ids, text_sizes in zip(self._inputs, ids, sizes):
            writer.add(text_ids, text_sizes)
            self.tokens += len(text_ids)
            self.unknown += int((text_ids == UNKNOWN).sum())
        if self._label:
            self.labels.update(row.label for row in batch)
            numbers = [[FIRST + self._task.number(row.label), EOS] for row in batch]
            self._label.add(np.array(numbers, dtype=np.uint16).reshape(-1), np.full(len(batch), 2, dtype=np.int32))
        else:
            self._scores.writelines(f"{score(self._task, row.label):.6g}\n" for row in batch)  # as awk prints it

    def check(self, source, max_skipped: float) -> None:
        """Raise ValueError if there are no rows, or too many were skipped."""
        skipped = sum(skips["rows"] for skips in self.skipped.values())
        if skipped > max_skipped * self.read:
            raise ValueError(
                f"{source}: {skipped:,} of {self.read:,} rows of {self._split} cannot be used, which is more than "
                f"the share {max_skipped} that may be skipped; the first is {self.first}"
            )
        if skipped == self.read:
            raise ValueError(f"{source} has no rows of {self._split}")

    def finish(self) -> dict:
        """Put the files in place; the counts for the manifest."""
        for writer in self._writers:
            writer.finish()
        self.close()
        counts = {
            "read": self.read,
            "written": self._inputs[0].lines,
            "skipped": dict(sorted(self.skipped.items())),
            "cut": self.cut,
            "tokens": self.tokens,
            "unknown": self.unknown,
        }
        if self._label:
            counts["classes"] = dict.fromkeys(self._task.names, 0)
            for label, count in self.labels.items():
                counts["classes"][self._task.names[self._task.number(label)]] += count
            counts["labels"] = list(self.labels)
        return counts

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers:
            writer.close()
        if self._scores:
            self._scores.close()
