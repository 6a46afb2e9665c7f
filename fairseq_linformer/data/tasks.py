"""The tasks: files, columns and labels. ``TASKS`` has one entry per task."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

GLUE = "nyu-mll/glue", "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
IMDB = "stanfordnlp/imdb", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"
OWN = "own"
"""Name of a user's own task, which is described by the manifest of its folder."""
MAX_POSITIONS = 512
"""Default n, as in RoBERTa."""
TRUNCATIONS = ("head", "head+tail")
"""``head`` keeps the beginning of a text, ``head+tail`` its beginning and end, 128 : 382. The first is the default."""
CORRELATIONS = ("pearson", "spearman")
"""Metrics of tasks with scores."""
_NUMBER = re.compile(r"-?(0(\.[0-9]+)?|[1-9][0-9]*(\.[0-9]+)?(e[+-]?[0-9]{1,3})?)", re.IGNORECASE)


@dataclass(frozen=True)
class TaskTable:
    """How the rows of a task are stored, in the format of the files' suffix; a .txt is a row, labeled by its folder.

    Attributes:
        files: pattern of the paths by split, relative to the source.
        texts: columns of the inputs.
        label: column of the label.
        columns: names of the columns of files without a header.
    """

    files: Mapping[str, str]
    texts: Sequence[str]
    label: str = "label"
    columns: Sequence[str] | None = None


@dataclass(frozen=True)
class Task:
    """A task of one or two inputs, with classes or a score.

    Attributes:
        classes: names of the classes, in order, by the labels of the sources. A class name is a valid label, too.
        score_range: lowest and highest score, instead of classes; of a user's own task, those of the training file.
        splits: fairseq's names: train, valid and, if there is a second development set, valid1.
        folder: name of the folder of the official files.
        tsv: the official tab-separated files.
        hub: the hub's parquet files.
        hub_name: name and revision on the hub; the revision is a commit, so the data never changes.
        reviews: official files with a single text each.
        metrics: those to report; the first one selects learning rates.
        valid_is_test: ``valid`` is the test set, on which no epoch may be selected.
    """

    name: str
    classes: Mapping[str, str] = field(default_factory=dict)
    score_range: tuple[float, float] | None = None
    num_inputs: int = 1
    splits: Sequence[str] = ("train", "valid")
    license: str = ""
    folder: str = ""
    tsv: TaskTable | None = None
    hub: TaskTable | None = None
    hub_name: tuple[str, str] = GLUE
    reviews: TaskTable | None = None
    metrics: Sequence[str] = ("accuracy",)
    valid_is_test: bool = False

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, in the order of their indices."""
        return list(dict.fromkeys(self.classes.values()))

    def target(self, label: str) -> float:
        """The class index of a source's label, or its score scaled from ``score_range`` to 0 to 1, as in fairseq's
        script. A number is the same label in every spelling: 1, 1.0 and true.

        Raises:
            ValueError: the label is not one of the task's.
        """
        if self.score_range is None:
            index = self._indices.get(label, self._indices.get(label_key(label)))
            if index is None:
                raise ValueError(f"unknown label {label[:40]!r}")
            return index
        low, high = self.score_range
        score = parse_score(label)
        is_outside = self.name != OWN and not low <= score <= high
        if is_outside or not math.isfinite(score):
            raise ValueError(f"unknown label {label[:40]!r}")
        return (score - low) / (high - low)

    @cached_property
    def _indices(self) -> dict[str | Decimal, int]:
        index = {name: i for i, name in enumerate(self.class_names)}
        known = {label: index[name] for label, name in self.classes.items()} | index
        return {label_key(label): i for label, i in known.items()} | known


def label_key(label: str) -> str | Decimal:
    """What equal labels have in common: their number, with 1 for ``true`` and 0 for ``false``; or else their text, also
    of a code such as 007 or 0e1.

    >>> label_key("1.0"), label_key("True"), label_key("007"), label_key("yes")
    (Decimal('1.0'), Decimal('1'), '007', 'yes')
    """
    number = {"true": "1", "false": "0"}.get(label.lower(), label)
    return Decimal(number) if _NUMBER.fullmatch(number) else label


def parse_score(label: str) -> float:
    """The number that a label spells; NaN if it is none.

    >>> parse_score("1.5"), parse_score("1_5")
    (1.5, nan)
    """
    try:
        return math.nan if "_" in label else float(label)
    except ValueError:
        return math.nan


def own_task(classes: Sequence[str], num_inputs: int, score_range: Sequence[float] | None = None) -> Task:
    """A user's own task, whose labels are the names of its classes, or scores."""
    if score_range is None:
        return Task(OWN, classes={name: name for name in classes}, num_inputs=num_inputs)
    low, high = score_range
    return Task(OWN, score_range=(low, high), num_inputs=num_inputs, metrics=CORRELATIONS)


_TSV = {"train": "train.tsv", "valid": "dev.tsv"}
_REVIEWS = "[np]*/[0-9]*_[0-9]*.txt"  # in neg and pos


def _hub(config: str, valid: str = "validation", **others: str) -> dict[str, str]:
    """The hub's files of each split of a configuration."""
    splits = {"train": "train", "valid": valid, **others}
    return {split: f"{config}/{name}-*.parquet" for split, name in splits.items()}


_TASKS = [
    Task(
        "sst-2",
        license="none stated; published for research (Socher et al. 2013)",
        classes={"0": "negative", "1": "positive"},
        folder="SST-2",
        tsv=TaskTable(_TSV, ["sentence"]),
        hub=TaskTable(_hub("sst2"), ["sentence"]),
    ),
    Task(
        "qnli",
        license="CC BY-SA 4.0 (SQuAD)",
        classes={"entailment": "entailment", "not_entailment": "not_entailment"},
        num_inputs=2,
        folder="QNLI",
        tsv=TaskTable(_TSV, ["question", "sentence"]),
        hub=TaskTable(_hub("qnli"), ["question", "sentence"]),
    ),
    Task(
        "qqp",
        license="Quora's terms: non-commercial use",
        metrics=("accuracy", "f1"),
        classes={"0": "not_duplicate", "1": "duplicate"},
        num_inputs=2,
        folder="QQP",
        tsv=TaskTable(_TSV, ["question1", "question2"], "is_duplicate"),
        hub=TaskTable(_hub("qqp"), ["question1", "question2"]),
    ),
    Task(
        "imdb",
        license="none stated; published for research (Maas et al. 2011)",
        valid_is_test=True,
        classes={"0": "negative", "1": "positive", "neg": "negative", "pos": "positive"},
        folder="imdb",
        tsv=TaskTable({"train": "train.tsv", "valid": "test.tsv"}, ["text"]),
        hub=TaskTable(_hub("plain_text", valid="test"), ["text"]),
        hub_name=IMDB,
        reviews=TaskTable({"train": f"train/{_REVIEWS}", "valid": f"test/{_REVIEWS}"}, ["text"]),
    ),
    Task(
        "mrpc",
        license="Microsoft Research's terms of this corpus (Dolan and Brockett 2005)",
        metrics=("accuracy", "f1"),
        classes={"0": "not_equivalent", "1": "equivalent"},
        num_inputs=2,
        folder="MRPC",
        tsv=TaskTable(_TSV, ["#1 String", "#2 String"], "Quality"),
        hub=TaskTable(_hub("mrpc"), ["sentence1", "sentence2"]),
    ),
    Task(
        "rte",
        license="none stated; published for research (PASCAL RTE 1 to 3, TAC RTE 5)",
        classes={"entailment": "entailment", "not_entailment": "not_entailment"},
        num_inputs=2,
        folder="RTE",
        tsv=TaskTable(_TSV, ["sentence1", "sentence2"]),
        hub=TaskTable(_hub("rte"), ["sentence1", "sentence2"]),
    ),
    Task(
        "cola",
        license="none stated; sentences quoted from publications (Warstadt et al. 2019)",
        metrics=("matthews", "accuracy"),
        classes={"0": "unacceptable", "1": "acceptable"},
        folder="CoLA",
        tsv=TaskTable(_TSV, ["sentence"], columns=["source", "label", "star", "sentence"]),
        hub=TaskTable(_hub("cola"), ["sentence"]),
    ),
    Task(
        "mnli",
        license="that of each genre, mostly the OANC's (Williams et al. 2018)",
        classes={"entailment": "entailment", "neutral": "neutral", "contradiction": "contradiction"},
        num_inputs=2,
        splits=("train", "valid", "valid1"),
        folder="MNLI",
        tsv=TaskTable(
            {"train": "train.tsv", "valid": "dev_matched.tsv", "valid1": "dev_mismatched.tsv"},
            ["sentence1", "sentence2"],
            "gold_label",
        ),
        hub=TaskTable(
            _hub("mnli", valid="validation_matched", valid1="validation_mismatched"), ["premise", "hypothesis"]
        ),
    ),
    Task(
        "sts-b",
        license="that of each source, in LICENSE.txt next to the data (Cer et al. 2017)",
        score_range=(0.0, 5.0),
        metrics=CORRELATIONS,
        num_inputs=2,
        folder="STS-B",
        tsv=TaskTable(_TSV, ["sentence1", "sentence2"], "score"),
        hub=TaskTable(_hub("stsb"), ["sentence1", "sentence2"]),
    ),
]
TASKS = {task.name: task for task in _TASKS}
