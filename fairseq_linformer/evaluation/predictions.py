"""Predictions for a reader or a program: TSV or JSON lines, in the order of the rows."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Callable, Iterator, List, Optional, Sequence

from ..checkpoints.files import check_new_file
from ..files import atomic

STDOUT = "-"
ENDINGS = (".tsv", ".jsonl")
Write = Callable[[Optional[float], Sequence[float]], None]


def check_predictions(path: Optional[str]) -> None:
    """Raise ValueError if the file exists, cannot be written, or is neither TSV nor JSON lines."""
    if path in (None, STDOUT):
        return
    if Path(path).suffix not in ENDINGS:
        raise ValueError(f"--predictions is {path}; it must end in {' or '.join(ENDINGS)}, or be {STDOUT}")
    check_new_file(path)


@contextmanager
def writing(path: Optional[str], names: List[str]) -> Iterator[Write]:
    """A function that writes a row: from its target, or None, and the probability of each class, or its score.

    Args:
        path: of the file, written whole or not at all; ``-`` for TSV on standard output; None for nothing.
        names: of the classes; none for scores.
    """
    if path is None:
        yield lambda target, values: None
    elif path == STDOUT:
        yield _writer(sys.stdout, names, as_json=False)
    else:
        with atomic(path) as file:
            yield _writer(file, names, as_json=Path(path).suffix == ".jsonl")


def _writer(file: IO, names: List[str], as_json: bool) -> Write:
    count = 0

    def write_fields(fields) -> None:
        file.write("\t".join(str(field).replace("\t", " ") for field in fields) + "\n")

    def write(target: Optional[float], values: Sequence[float]) -> None:
        nonlocal count
        count += 1
        label = names[int(target)] if names and target is not None else target
        prediction = names[max(range(len(values)), key=values.__getitem__)] if names else values[0]
        if not as_json:
            probabilities = [f"{value:.6f}" for value in values] if names else []
            write_fields([count, "" if label is None else label, prediction, *probabilities])
            return
        row = {"row": count, "label": label, "prediction": prediction}
        if label is None:
            del row["label"]
        if names:
            row["probabilities"] = {name: round(value, 6) for name, value in zip(names, values)}
        file.write(json.dumps(row, ensure_ascii=False) + "\n")

    if not as_json:
        write_fields(["row", "label", "prediction", *(f"p({name})" for name in names)])
    return write
