"""Predictions for a reader or a program: TSV or JSON lines, a line a row, in the order of the rows."""

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
    """
    Raises:
        ValueError: it exists, cannot be written, or is neither TSV nor JSON lines.
    """
    if path in (None, STDOUT):
        return
    if Path(path).suffix not in ENDINGS:
        raise ValueError(f"--predictions is {path}; it must end in {' or '.join(ENDINGS)}, or be {STDOUT} for standard output")
    check_new_file(path)


@contextmanager
def writing(path: Optional[str], names: List[str]) -> Iterator[Write]:
    """A function that writes a row: of its target, None if it has none, and of the probability of each class, or of its score.

    Args:
        path: of the file, which is there whole or not at all; ``-`` for TSV on standard output; None for nothing.
        names: of the classes; none for scores.
    """
    if path is None:
        yield lambda target, found: None
    elif path == STDOUT:
        yield _Lines(sys.stdout, names, False)
    else:
        with atomic(path) as file:
            yield _Lines(file, names, Path(path).suffix == ".jsonl")


class _Lines:
    def __init__(self, file: IO, names: List[str], as_json: bool):
        self._file, self._names, self._json, self._row = file, names, as_json, 0
        if not as_json:
            columns = ["prediction", *(f"p({name})" for name in names)]
            self._line(["row", "label", *columns])

    def __call__(self, target: Optional[float], found: Sequence[float]) -> None:
        self._row += 1
        label = target if target is None or not self._names else self._names[int(target)]
        prediction = self._names[max(range(len(found)), key=found.__getitem__)] if self._names else found[0]
        if self._json:
            row = {"row": self._row, **({} if label is None else {"label": label}), "prediction": prediction}
            more = {"probabilities": {name: round(p, 6) for name, p in zip(self._names, found)}} if self._names else {}
            self._file.write(json.dumps({**row, **more}, ensure_ascii=False) + "\n")
        else:
            self._line([self._row, "" if label is None else label, prediction, *(f"{p:.6f}" for p in found if self._names)])

    def _line(self, values) -> None:
        self._file.write("\t".join(str(value).replace("\t", " ") for value in values) + "\n")
