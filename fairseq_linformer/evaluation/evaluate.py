"""Evaluates a finetuned model on rows: predictions, scores, throughput."""

import json
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import IO, Any

import numpy as np
import torch

from ..checkpoints.identify import Kind
from ..data.tasks import TASKS
from ..files import open_atomic
from . import scores
from .classifier import Classifier, OnnxClassifier, TransformersClassifier
from .encoded_rows import EncodedExample, is_prepared, normalize_names, read_task
from .example_files import read_file
from .predict import Throughput, predict

STDOUT = "-"
SUFFIXES = (".tsv", ".jsonl")
WriteRow = Callable[[float | None, Sequence[float]], None]


def choose_classifier(kind: Kind) -> Callable[..., Classifier]:
    """The class that opens a model of a kind."""
    if kind is Kind.FAIRSEQ:
        from .fairseq_classifier import FairseqClassifier  # the others do without fairseq

        return FairseqClassifier
    return OnnxClassifier if kind is Kind.ONNX else TransformersClassifier


def choose_reader(name: str) -> Callable[..., tuple[int | None, Iterable[EncodedExample]]]:
    """The function that reads the rows of a task, a folder that ``prepare`` wrote, or a file."""
    if name in TASKS:
        return read_task
    if is_prepared(name):
        from .fairseq_classifier import read_prepared_rows

        return read_prepared_rows
    return read_file


def evaluate(
    classifier: Classifier, rows: Iterable[EncodedExample], predictions: str | None = None, **options: Any
) -> dict[str, Any]:
    """Predict every row, write the predictions and score them.

    Args:
        predictions: file to write, ``.tsv`` or ``.jsonl``; ``-`` for standard output, None for no file.
        options: of ``predict``.

    Returns:
        ``scores.Scores`` if rows have labels; ``classes``, the names, empty for regression; ``throughput``; and the
        number of ``parameters``, unless it is a graph.
    """
    throughput = Throughput()
    targets, outputs = array("d"), array("d")  # lists would need seven times the memory
    with open_writer(predictions, classifier.names) as write:
        for row, logits in predict(classifier, rows, throughput, **options):
            values = (logits.double() if classifier.is_score else torch.softmax(logits.double(), -1)).tolist()
            write(row.target, values)
            if row.target is not None:
                targets.append(row.target)
                outputs.extend(values)
    if throughput.truncated_rows:
        share = throughput.dropped_tokens / (throughput.tokens + throughput.dropped_tokens)
        rows_truncated = f"{throughput.truncated_rows:,} of {throughput.rows:,} rows truncated"
        dropped = f"{classifier.max_positions:,} tokens ({100 * share:.0f} % of tokens dropped)"
        print(f"{rows_truncated} to {dropped}; --stride S reads all (not of pairs)", file=sys.stderr)
    result: scores.Scores = {}
    if targets and classifier.is_score:
        result = scores.score_regression(targets, outputs)
    elif targets:
        probabilities = np.reshape(outputs, (len(targets), -1))
        result = scores.score_classes(targets, probabilities, find_positive_class(classifier.names))
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
def open_writer(path: str | None, names: list[str]) -> Iterator[WriteRow]:
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
        yield _writer(file, names, as_json=path.endswith(".jsonl"))


def _writer(file: IO, names: list[str], as_json: bool) -> WriteRow:
    count = 0

    def write(target: float | None, values: Sequence[float]) -> None:
        nonlocal count
        count += 1
        label = names[int(target)] if names and target is not None else target
        prediction = names[int(np.argmax(values))] if names else values[0]
        probabilities = dict(zip(names, values))
        if as_json:
            row: dict[str, Any] = {"row": count, "label": label, "prediction": prediction}
            if label is None:
                del row["label"]
            if names:
                row["probabilities"] = {name: round(value, 6) for name, value in probabilities.items()}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            return
        if count == 1:  # not before a row is predicted, which may fail
            file.write("\t".join(["row", "label", "prediction", *(f"p({name})" for name in names)]) + "\n")
        fields = [count, "" if label is None else label, prediction, *(f"{p:.6f}" for p in probabilities.values())]
        file.write("\t".join(map(str, fields)) + "\n")

    return write
