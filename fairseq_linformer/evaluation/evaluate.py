"""Evaluates a finetuned model on rows: predictions, scores, throughput."""

import json
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Any

import numpy as np
import torch

from ..data.tasks import TASKS
from ..files import open_atomic
from . import scores
from .classifier import Classifier
from .encoded_rows import EncodedExample, normalize_names
from .predict import Throughput, predict

STDOUT = "-"
SUFFIXES = (".tsv", ".jsonl")


def evaluate(
    classifier: Classifier,
    total: int | None,
    rows: Iterable[EncodedExample],
    predictions: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Predict every row, write the predictions and score them.

    Args:
        total: number of rows, for progress; None if unknown.
        predictions: file to write, ``.tsv`` or ``.jsonl``; ``-`` for standard output, None for no file.
        options: of ``predict``.

    Returns:
        ``scores.Scores`` if rows have labels; ``classes``, the names, empty for regression; ``throughput``; and the
        number of ``parameters``, unless it is a graph.
    """
    throughput = Throughput()
    targets, outputs = array("d"), array("d")  # lists would need seven times the memory; classes or scores
    with open_writer(predictions, classifier.names) as write:
        for row, logits in predict(classifier, rows, throughput, total=total, **options):
            values = (logits.double() if classifier.is_score else torch.softmax(logits.double(), -1)).tolist()
            write(row.target, values)
            if row.target is not None:
                targets.append(row.target)
                outputs.append(values[0] if classifier.is_score else float(np.argmax(values)))
    if throughput.truncated_rows:
        share = throughput.dropped_tokens / (throughput.tokens + throughput.dropped_tokens)
        rows_truncated = f"{throughput.truncated_rows:,} of {throughput.rows:,} rows truncated"
        dropped = f"{classifier.max_positions:,} tokens ({100 * share:.0f} % of tokens dropped)"
        print(f"{rows_truncated} to {dropped}; --stride S reads all of a file (not of pairs)", file=sys.stderr)
    result: scores.Scores = {}
    if targets and classifier.is_score:
        result = scores.score_regression(targets, outputs)
    elif targets:
        names = classifier.names
        result = scores.score_classes(targets, outputs, len(names), find_positive_class(names))
    if classifier.model is not None:
        result["parameters"] = sum(parameter.numel() for parameter in classifier.model.parameters())
    return {**result, "classes": classifier.names, "throughput": vars(throughput)}


def format_report(result: dict[str, Any]) -> str:
    """The printed report of a result of ``evaluate``."""
    rows, tokens, seconds = (result["throughput"][key] for key in ("rows", "tokens", "seconds"))
    names, lines = result["classes"], ["no labels, so no scores"]
    if "scores" in result:
        lines = scores.format_scores(result, names, find_positive_class(names))
    totals = f"{rows:,} rows, {tokens:,} tokens in {seconds:.1f} s in the model"
    seconds = max(seconds, 1e-9)
    return "\n".join([*lines, "", f"{totals}: {rows / seconds:,.1f} rows/s, {tokens / seconds:,.0f} tokens/s"])


def find_positive_class(names: list[str]) -> int:
    """The index of ``1``, or of class 1 of the task with these two classes, in any order; 1 for other names."""
    names = normalize_names(names)
    known = [t.class_names[1] for t in TASKS.values() if t.classes and sorted(t.class_names) == sorted(names)]
    return next((names.index(name) for name in ("1", *known) if name in names), 1)


@contextmanager
def open_writer(path: str | None, names: list[str]) -> Iterator[Callable[[float | None, Sequence[float]], None]]:
    """Yield a function that writes a row, given its target (or None) and its class probabilities (or its score).

    Args:
        path: output file, written atomically; ``-`` for TSV on standard output; None to write nothing.
        names: class names; empty for a regression head.
    """
    if path is None:
        yield lambda target, values: None
        return
    if path != STDOUT and not path.endswith(SUFFIXES):
        raise ValueError(f"--predictions must end in {' or '.join(SUFFIXES)} or be {STDOUT}, got {path}")
    with nullcontext(sys.stdout) if path == STDOUT else open_atomic(path) as file:
        numbers = count(1)

        def write(target: float | None, values: Sequence[float]) -> None:
            label = names[int(target)] if names and target is not None else target
            row: dict[str, Any] = {"row": next(numbers), "label": label}
            row["prediction"] = names[int(np.argmax(values))] if names else values[0]
            if path.endswith(".jsonl"):
                if label is None:
                    del row["label"]
                if names:
                    row["probabilities"] = {name: round(value, 6) for name, value in zip(names, values)}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                return
            row |= {f"p({name})": f"{value:.6f}" for name, value in zip(names, values)}
            if row["row"] == 1:  # not before a row is predicted, which may fail
                file.write("\t".join(row) + "\n")
            file.write("\t".join("" if value is None else str(value) for value in row.values()) + "\n")

        yield write
