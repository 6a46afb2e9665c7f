"""A finetuned model on a task or on a file: predictions, scores, throughput."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from ..task_data.table import TASKS
from . import predict, scores
from .classifier import FairseqClassifier
from .predictions import check_predictions, writing
from .rows import Row, encode_rows, inputs_of, is_prepared, numbered, plain_names, prepared_rows, targets_of, task_examples
from .texts import FORMATS, STDIN, read_examples


@dataclass(frozen=True)
class What:
    """What a model is to be judged on.

    Attributes:
        name: a task of the table, a folder that ``prepare`` wrote, a file, or ``-`` for standard input.
        source: of a task, as for ``prepare``.
        split: of a task or a folder.
        kind: of a file, ``tsv``, ``jsonl`` or ``text``; None for what its name says.
        texts, label: columns of a file; none for those that are found.
    """

    name: str
    source: Optional[str] = None
    split: Optional[str] = None
    kind: Optional[str] = None
    texts: Tuple[str, ...] = ()
    label: Optional[str] = None

    def __post_init__(self):
        is_task, is_folder = self.name in TASKS, is_prepared(self.name)
        of_files = {"--format": self.kind, "--text": self.texts, "--label": self.label}
        refused = {"--source": self.source} if not is_task else {}
        refused |= {"--split": self.split} if not (is_task or is_folder) else of_files
        if wrong := [name for name, value in refused.items() if value]:
            kind = "a task" if is_task else "a prepared folder" if is_folder else "a file"
            raise ValueError(f"{wrong[0]} is given, and {self.name} is {kind}, which has none")
        if not (is_task or is_folder or self.name == STDIN or Path(self.name).is_file()):
            raise ValueError(f"{self.name} is neither a task ({', '.join(TASKS)}), nor a folder that `fairseq-linformer prepare` wrote, nor a file")
        if self.kind not in (None, *FORMATS.values()):
            raise ValueError(f"--format is {self.kind}; it must be one of {', '.join(dict.fromkeys(FORMATS.values()))}")

    @property
    def needs_tokenizer(self) -> bool:
        """Are there texts, and not tokens?"""
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
        rate = max(self.work.seconds, 1e-9)
        lines = scores.table(self.scores, self.names) if self.scores else ["no labels: nothing is scored"]
        return "\n".join([*lines, "", f"{self.work.rows:,} rows, {self.work.tokens:,} tokens in {self.work.seconds:.1f} s of the model: "
                          f"{self.work.rows / rate:,.1f} rows/s, {self.work.tokens / rate:,.0f} tokens/s"])  # fmt: skip


def evaluate(classifier, what: What, predictions: Optional[str] = None, max_tokens: int = predict.MAX_TOKENS, batch_size: int = predict.BATCH_SIZE) -> Evaluation:
    """
    Args:
        classifier: a ``FairseqClassifier``, with a tokenizer if ``what`` needs it, or a ``TransformersClassifier``.
        predictions: where to write them, ``.tsv`` or ``.jsonl``, or ``-``; None for nowhere.
        max_tokens, batch_size: of a batch; the result does not depend on them.

    Raises:
        ValueError: anything that is given is not what it should be, one sentence, and no file is written; or, after that, there
            are labels that cannot be scored.
        OSError: a file cannot be read or written.
    """
    check_predictions(predictions)
    predict.check_sizes(max_tokens, batch_size)
    work, targets, found = predict.Work(), [], []
    total, rows = _rows(classifier, what)
    with writing(predictions, classifier.names) as write:
        for row, logits in predict.predict(classifier, rows, work, max_tokens, batch_size, total):
            values = logits.double()
            values = values.tolist() if classifier.is_score else torch.softmax(values, -1).tolist()
            write(row.target, values)
            if row.target is not None:
                targets.append(row.target)
                found.append(values)
        if not work.rows:
            raise ValueError(f"{what.name} has no rows")
    scored = None  # the predictions are there, whatever their scores are
    if targets:
        scored = scores.of_scores(targets, [value for value, in found]) if classifier.is_score else scores.of_classes(targets, found)
    return Evaluation(scored, work, classifier.names)


def _rows(classifier, what: What) -> Tuple[Optional[int], Iterator[Row]]:
    """How many rows there are, if that is known, and the rows."""
    target = targets_of(classifier)
    if what.name in TASKS:
        task = TASKS[what.name]
        _check_names(task, classifier)
        examples = task_examples(task, what.source or "hub", what.split or "valid")
        names = plain_names(classifier.names)
        by_number = lambda label: names.index(str(task.number(label)))  # noqa: E731
        return len(examples), encode_rows(classifier, examples, by_number if task.classes and numbered(names) else target)
    if is_prepared(what.name):
        if not isinstance(classifier, FairseqClassifier):
            raise ValueError(f"{what.name} has the tokens of fairseq, and {classifier.path} is of transformers; the task with --source is wanted, or a file")
        return prepared_rows(classifier, what.name, what.split or "valid")
    return None, encode_rows(classifier, read_examples(what.name, what.kind, what.texts, what.label, inputs_of(classifier)), target)


def _check_names(task, classifier) -> None:
    """
    Raises:
        ValueError: the head was trained on another task.
    """
    if bool(task.score) != classifier.is_score:
        raise ValueError(f"the labels of {task.name} are {'scores' if task.score else 'classes'}; the model's head gives {'a score' if classifier.is_score else 'classes'}")
    names = plain_names(classifier.names)
    if task.classes and (len(task.names) != len(names) or not (numbered(names) or sorted(task.names) == sorted(names))):
        raise ValueError(f"{task.name} has the classes {', '.join(task.names)}; the model's are {', '.join(classifier.names)}")

