"""A finetuned model on a task or on a file: predictions, scores, throughput."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from ..task_data.table import TASKS
from . import predict, scores
from .classifier import FairseqClassifier
from .predictions import check_predictions, writing
from .rows import (
    Row, encode_rows, inputs_of, is_prepared, numbered, plain_names, prepared_rows, targets_of, task_examples,
)  # fmt: skip
from .texts import FORMATS, STDIN, read_examples


@dataclass(frozen=True)
class What:
    """The data that a model is evaluated on.

    Attributes:
        name: a task of the table, a folder that ``prepare`` wrote, a file, or ``-`` for standard input.
        source: of a task, as for ``prepare``.
        split: of a task or a folder.
        kind: of a file, ``tsv``, ``jsonl`` or ``text``; None to choose by its name.
        texts, label: columns of a file; empty and None to find them.
    """

    name: str
    source: Optional[str] = None
    split: Optional[str] = None
    kind: Optional[str] = None
    texts: Tuple[str, ...] = ()
    label: Optional[str] = None

    def __post_init__(self):
        is_task, is_folder = self.name in TASKS, is_prepared(self.name)
        file_options = {"--format": self.kind, "--text": self.texts, "--label": self.label}
        refused = {} if is_task else {"--source": self.source}
        refused |= file_options if is_task or is_folder else {"--split": self.split}
        if wrong := [option for option, value in refused.items() if value]:
            kind = "a task" if is_task else "a prepared folder" if is_folder else "a file"
            raise ValueError(f"{wrong[0]} is given, and {self.name} is {kind}, which has none")
        if not (is_task or is_folder or self.name == STDIN or Path(self.name).is_file()):
            tasks = ", ".join(TASKS)
            raise ValueError(f"{self.name} is neither a task ({tasks}), nor a folder that prepare wrote, nor a file")
        if self.kind not in (None, *FORMATS.values()):
            formats = ", ".join(dict.fromkeys(FORMATS.values()))
            raise ValueError(f"--format is {self.kind}; it must be one of {formats}")

    @property
    def needs_tokenizer(self) -> bool:
        """Whether it has texts, not tokens."""
        return self.name in TASKS or not is_prepared(self.name)


@dataclass(frozen=True)
class Evaluation:
    """
    Attributes:
        scores: None if no row has a label.
        work: rows, tokens, and the seconds of the model.
        names: of the classes; empty for a score.
    """

    scores: Optional[scores.Scores]
    work: predict.Work
    names: List[str]

    def as_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return {**(self.scores.as_dict() if self.scores else {}), "classes": self.names, "throughput": vars(self.work)}

    def report(self) -> str:
        """For a reader."""
        seconds = max(self.work.seconds, 1e-9)
        lines = scores.table(self.scores, self.names) if self.scores else ["no labels: nothing is scored"]
        done = f"{self.work.rows:,} rows, {self.work.tokens:,} tokens in {self.work.seconds:.1f} s of the model"
        rates = f"{self.work.rows / seconds:,.1f} rows/s, {self.work.tokens / seconds:,.0f} tokens/s"
        return "\n".join([*lines, "", f"{done}: {rates}"])


def evaluate(
    classifier, what: What, predictions: Optional[str] = None, max_tokens: int = predict.MAX_TOKENS,
    batch_size: int = predict.BATCH_SIZE,
) -> Evaluation:  # fmt: skip
    """
    Args:
        classifier: a ``FairseqClassifier``, with a tokenizer if ``what`` needs it, or a ``TransformersClassifier``.
        predictions: file to write, ``.tsv`` or ``.jsonl``, or ``-``; None for none.
        max_tokens, batch_size: of a batch; the result does not depend on them.

    Raises:
        ValueError: an option or the data is not what it should be, and no file is written; or, after that, the labels
            cannot be scored.
        OSError: a file cannot be read or written.
    """
    check_predictions(predictions)
    predict.check_sizes(max_tokens, batch_size)
    work, targets, outputs = predict.Work(), [], []
    total, rows = _rows(classifier, what)
    with writing(predictions, classifier.names) as write:
        for row, logits in predict.predict(classifier, rows, work, max_tokens, batch_size, total):
            values = (logits.double() if classifier.is_score else torch.softmax(logits.double(), -1)).tolist()
            write(row.target, values)
            if row.target is not None:
                targets.append(row.target)
                outputs.append(values)
        if not work.rows:
            raise ValueError(f"{what.name} has no rows")
    found = None  # the predictions are written, whatever their scores are
    if targets and classifier.is_score:
        found = scores.of_scores(targets, [value for value, in outputs])
    elif targets:
        found = scores.of_classes(targets, outputs)
    return Evaluation(found, work, classifier.names)


def _rows(classifier, what: What) -> Tuple[Optional[int], Iterator[Row]]:
    """The number of rows, None if it is not known, and the rows."""
    target = targets_of(classifier)
    if what.name in TASKS:
        task = TASKS[what.name]
        _check_names(task, classifier)
        examples = task_examples(task, what.source or "hub", what.split or "valid")
        names = plain_names(classifier.names)
        if task.classes and numbered(names):
            target = lambda label: names.index(str(task.number(label)))  # noqa: E731
        return len(examples), encode_rows(classifier, examples, target)
    if is_prepared(what.name):
        if not isinstance(classifier, FairseqClassifier):
            tokens = f"{what.name} has the tokens of fairseq, and {classifier.path} is of transformers"
            raise ValueError(f"{tokens}; give the task with --source, or a file")
        return prepared_rows(classifier, what.name, what.split or "valid")
    examples = read_examples(what.name, what.kind, what.texts, what.label, inputs_of(classifier))
    return None, encode_rows(classifier, examples, target)


def _check_names(task, classifier) -> None:
    """Raise ValueError if the head was trained on another task."""
    if bool(task.score) != classifier.is_score:
        labels, head = ("scores", "classes") if task.score else ("classes", "a score")
        raise ValueError(f"the labels of {task.name} are {labels}; the model's head gives {head}")
    names = plain_names(classifier.names)
    same = len(task.names) == len(names) and (numbered(names) or sorted(task.names) == sorted(names))
    if task.classes and not same:
        theirs, ours = ", ".join(task.names), ", ".join(classifier.names)
        raise ValueError(f"{task.name} has the classes {theirs}; the model's are {ours}")
