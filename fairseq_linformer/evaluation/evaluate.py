"""Evaluates a finetuned model on a task, a prepared folder or a file: predictions, scores, throughput."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data.tasks import TASKS
from . import predict, scores
from .classifier import FairseqClassifier
from .encoded_rows import (
    EncodedRow,
    build_target_lookup,
    encode_rows,
    is_numbered,
    is_prepared,
    normalize_names,
    num_inputs,
    read_prepared_rows,
    read_published_rows,
)
from .example_files import FORMATS, STDIN, read_examples
from .predictions import check_predictions, open_writer


@dataclass(frozen=True)
class EvaluationData:
    """Data to evaluate a model on.

    Attributes:
        name: a task, a folder written by ``prepare``, a file, or ``-`` for standard input.
        source: source of a task, as for ``prepare``.
        split: split of a task or a folder.
        file_format: format of a file, one of ``FORMATS``; None to infer it from the file name.
        text_columns, label_column: columns of a file; empty and None to infer them.
    """

    name: str
    source: str | None = None
    split: str | None = None
    file_format: str | None = None
    text_columns: tuple[str, ...] = ()
    label_column: str | None = None

    def __post_init__(self):
        is_task, is_folder = self.name in TASKS, is_prepared(self.name)
        file_options = {
            "--format": self.file_format,
            "--text-column": self.text_columns,
            "--label-column": self.label_column,
        }
        inapplicable = {} if is_task else {"--source": self.source}
        inapplicable |= file_options if is_task or is_folder else {"--split": self.split}
        if options := [option for option, value in inapplicable.items() if value]:
            kind = "a task" if is_task else "a prepared folder" if is_folder else "a file"
            raise ValueError(f"{options[0]} does not apply to {self.name}, which is {kind}")
        if not (is_task or is_folder or self.name == STDIN or Path(self.name).is_file()):
            tasks = ", ".join(TASKS)
            raise ValueError(f"unknown task or file {self.name!r}; choose from {tasks}, a prepared folder or a file")
        if self.file_format not in (None, *FORMATS.values()):
            formats = ", ".join(dict.fromkeys(FORMATS.values()))
            raise ValueError(f"unknown --format {self.file_format!r}; choose from {formats}")

    @property
    def needs_tokenizer(self) -> bool:
        """Whether the data is text, not token IDs."""
        return self.name in TASKS or not is_prepared(self.name)


@dataclass(frozen=True)
class Evaluation:
    """The result of ``evaluate``.

    Attributes:
        scores: None if no row has a label.
        throughput: rows, tokens and seconds in the model.
        names: class names; empty for regression.
    """

    scores: scores.Scores | None
    throughput: predict.Throughput
    names: list[str]

    def as_dict(self) -> dict[str, Any]:
        return {
            **(self.scores.as_dict() if self.scores else {}),
            "classes": self.names,
            "throughput": vars(self.throughput),
        }

    def report(self) -> str:
        """The report that is printed."""
        t = self.throughput
        seconds = max(t.seconds, 1e-9)
        lines = scores.format_scores(self.scores, self.names) if self.scores else ["no labels, so no scores"]
        totals = f"{t.rows:,} rows, {t.tokens:,} tokens in {t.seconds:.1f} s in the model"
        return "\n".join([*lines, "", f"{totals}: {t.rows / seconds:,.1f} rows/s, {t.tokens / seconds:,.0f} tokens/s"])


def evaluate(
    classifier,
    data: EvaluationData,
    predictions: str | None = None,
    max_tokens: int = predict.MAX_TOKENS,
    batch_size: int = predict.BATCH_SIZE,
) -> Evaluation:
    """Predict every row of ``data``, write the predictions and score them.

    Args:
        classifier: a ``FairseqClassifier``, with a tokenizer if ``data.needs_tokenizer``, a
            ``TransformersClassifier``, an ``OnnxClassifier`` or a ``StridedClassifier``.
        predictions: file to write, ``.tsv`` or ``.jsonl``; ``-`` for standard output, None for no file.
        max_tokens, batch_size: limits of a batch; they do not change the result.

    Raises:
        ValueError: an option or the data is invalid (no file is written), or the labels cannot be scored (predictions
            are written).
        OSError: a file cannot be read or written.
    """
    check_predictions(predictions)
    predict.check_batch_limits(max_tokens, batch_size)
    throughput = predict.Throughput()
    targets, outputs = array("d"), array("d")  # lists would need seven times the memory
    total, rows = _rows(classifier, data)
    with open_writer(predictions, classifier.names) as write:
        for row, logits in predict.predict(classifier, rows, throughput, max_tokens, batch_size, total):
            values = (logits.double() if classifier.is_score else torch.softmax(logits.double(), -1)).tolist()
            write(row.target, values)
            if row.target is not None:
                targets.append(row.target)
                outputs.extend(values)
        if not throughput.rows:
            raise ValueError(f"{data.name} has no rows")
    result = None
    if targets and classifier.is_score:
        result = scores.score_regression(targets, outputs)
    elif targets:
        probabilities = np.reshape(outputs, (len(targets), -1))
        result = scores.score_classes(targets, probabilities, find_positive_class(classifier.names))
    return Evaluation(result, throughput, classifier.names)


def find_positive_class(names: Sequence[str]) -> int:
    """The index of ``1``, or of class 1 of the task with these two classes, in any order; 1 for other names."""
    names = normalize_names(names)
    known = [t.class_names[1] for t in TASKS.values() if t.classes and sorted(t.class_names) == sorted(names)]
    return next((names.index(name) for name in ("1", *known) if name in names), 1)


def _rows(classifier, data: EvaluationData) -> tuple[int | None, Iterator[EncodedRow]]:
    """The number of rows, or None if unknown, and the rows."""
    target = build_target_lookup(classifier)
    if data.name in TASKS:
        task = TASKS[data.name]
        _check_names(task, classifier)
        published = read_published_rows(task, data.source or "hub", data.split or "valid")
        names = normalize_names(classifier.names)
        if task.classes and is_numbered(names):
            target = lambda label: names.index(str(int(task.target(label))))  # noqa: E731
        return len(published), encode_rows(classifier, published, target)
    if is_prepared(data.name):
        if not isinstance(classifier, FairseqClassifier):
            raise ValueError(
                f"{data.name} has fairseq's token IDs, which {classifier.path} cannot read; "
                "pass the task with --source, or a file"
            )
        return read_prepared_rows(classifier, data.name, data.split or "valid")
    rows = read_examples(data.name, data.file_format, data.text_columns, data.label_column, num_inputs(classifier))
    return None, encode_rows(classifier, rows, target)


def _check_names(task, classifier) -> None:
    """Raise ValueError if the head cannot have been trained on this task."""
    if bool(task.score_range) != classifier.is_score:
        labels, head = ("scores", "classes") if task.score_range else ("classes", "a score")
        raise ValueError(f"the labels of {task.name} are {labels}, but the model's head predicts {head}")
    names = normalize_names(classifier.names)
    same = len(task.class_names) == len(names) and (is_numbered(names) or sorted(task.class_names) == sorted(names))
    if task.classes and not same:
        expected, got = ", ".join(task.class_names), ", ".join(classifier.names)
        raise ValueError(f"the model must have the classes of {task.name}, {expected}, got {got}")
