"""Writes predictions as TSV or JSON lines, in the order of the rows."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ..checkpoints.files import check_new_file
from ..files import open_atomic

STDOUT = "-"
SUFFIXES = (".tsv", ".jsonl")
WriteRow = Callable[[float | None, Sequence[float]], None]


def check_predictions(path: str | None) -> None:
    """Raise ValueError if the file exists, cannot be written, or has a suffix not in ``SUFFIXES``."""
    if path in (None, STDOUT):
        return
    if Path(path).suffix not in SUFFIXES:
        raise ValueError(f"--predictions must end in {' or '.join(SUFFIXES)} or be {STDOUT}, got {path}")
    check_new_file(path)


@contextmanager
def open_writer(path: str | None, names: list[str]) -> Iterator[WriteRow]:
    """Yield a function that writes a row, given its target (or None) and its class probabilities (or its score).

    Args:
        path: output file, written atomically; ``-`` for TSV on standard output; None to write nothing.
        names: class names; empty for a regression head.
    """
    if path is None:
        yield lambda target, values: None
    elif path == STDOUT:
        yield _writer(sys.stdout, names, as_json=False)
    else:
        with open_atomic(path) as file:
            yield _writer(file, names, as_json=Path(path).suffix == ".jsonl")


def _writer(file: IO, names: list[str], as_json: bool) -> WriteRow:
    count = 0

    def write_fields(fields) -> None:
        file.write("\t".join(str(field).replace("\t", " ") for field in fields) + "\n")

    def write(target: float | None, values: Sequence[float]) -> None:
        nonlocal count
        count += 1
        label = names[int(target)] if names and target is not None else target
        prediction = names[max(range(len(values)), key=values.__getitem__)] if names else values[0]
        if not as_json:
            probabilities = [f"{value:.6f}" for value in values] if names else []
            write_fields([count, "" if label is None else label, prediction, *probabilities])
            return
        row: dict[str, Any] = {"row": count, "label": label, "prediction": prediction}
        if label is None:
            del row["label"]
        if names:
            row["probabilities"] = {name: round(value, 6) for name, value in zip(names, values)}
        file.write(json.dumps(row, ensure_ascii=False) + "\n")

    if not as_json:
        write_fields(["row", "label", "prediction", *(f"p({name})" for name in names)])
    return write
