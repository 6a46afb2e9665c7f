"""The tasks: files, columns and labels. ``TASKS`` has one entry per task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

GLUE = "nyu-mll/glue", "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
IMDB = "stanfordnlp/imdb", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"


@dataclass(frozen=True)
class Tsv:
    """Tab-separated files with one row per line; as in GLUE, quotes are ordinary characters."""

    folder: str
    """Name of the folder in GLUE and in its archives."""
    columns: Sequence[str]
    """The header, or names for the columns of files without one."""
    texts: Sequence[str]
    """Columns of the inputs."""
    label: str = "label"
    header: bool = True
    files: Mapping[str, str] = field(default_factory=lambda: {"train": "train.tsv", "valid": "dev.tsv"})
    """File names by fairseq's name of the split."""
    split_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Columns of splits whose files differ from ``columns``."""

    def columns_of_split(self, split: str) -> Sequence[str]:
        """The columns of a split's file."""
        return self.split_columns.get(split, self.columns)


@dataclass(frozen=True)
class Hub:
    """A dataset on the Hugging Face hub: parquet files named CONFIG/SPLIT-*.parquet."""

    config: str
    texts: Sequence[str]
    """Columns of the inputs."""
    label: str = "label"
    name_and_revision: tuple[str, str] = GLUE
    """The revision is a commit, so the data never changes."""
    splits: Mapping[str, str] = field(default_factory=lambda: {"train": "train", "valid": "validation"})
    """The hub's names of the splits by fairseq's."""


@dataclass(frozen=True)
class TextFiles:
    """One text per file, ROOT/SPLIT/LABEL/NUMBER_RATING.txt, as in aclImdb."""

    root: str
    labels: Sequence[str]
    splits: Mapping[str, str]


@dataclass(frozen=True)
class Task:
    """A task of one or two inputs, with classes or a score.

    Raises:
        ValueError: the fields contradict each other.
    """

    name: str
    """As on the command line."""
    license: str
    classes: Mapping[str, str] = field(default_factory=dict)
    """Names of the classes, in order, by the labels of the sources. A class name is a valid label, too."""
    score_range: tuple[float, float] | None = None
    """Lowest and highest score, instead of classes."""
    tsv: Tsv | None = None
    hub: Hub | None = None
    text_files: TextFiles | None = None
    metrics: tuple[str, ...] = ("accuracy",)
    """The first one selects learning rates."""
    valid_is_test: bool = False
    """Without a development set, ``valid`` is the test set, on which no epoch may be selected."""

    def __post_init__(self):
        if not self._sources or bool(self.classes) == bool(self.score_range):
            raise ValueError(f"task {self.name} needs at least one source, and either classes or score_range")
        if len({tuple(_splits(source)) for source in self._sources}) > 1 or "train" not in self.splits:
            raise ValueError(f"task {self.name} needs the same splits, including train, in all sources")
        num_inputs = {_num_inputs(source) for source in self._sources}
        if len(num_inputs) > 1 or not num_inputs <= {1, 2}:
            raise ValueError(f"task {self.name} needs one or two texts per row, the same number in all sources")
        for split, file in self.tsv.files.items() if self.tsv else ():
            missing = {*self.tsv.texts, self.tsv.label} - set(self.tsv.columns_of_split(split))
            if missing:
                raise ValueError(f"task {self.name} has no column {', '.join(sorted(missing))} in {file}")

    @property
    def _sources(self) -> list[Tsv | Hub | TextFiles]:
        return [source for source in (self.tsv, self.hub, self.text_files) if source]

    @property
    def splits(self) -> list[str]:
        """fairseq's names: train, valid and, if there is a second development set, valid1."""
        return _splits(self._sources[0])

    @property
    def num_inputs(self) -> int:
        """Texts per row, 1 or 2."""
        return _num_inputs(self._sources[0])

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, in the order of their indices."""
        return list(dict.fromkeys(self.classes.values()))

    def class_index(self, label: str) -> int:
        """Index of the class of a source's label. Raises KeyError for an unknown label."""
        names = self.class_names
        return names.index(label if label in names else self.classes[label])


def _splits(source: Tsv | Hub | TextFiles) -> list[str]:
    return list(source.files if isinstance(source, Tsv) else source.splits)


def _num_inputs(source: Tsv | Hub | TextFiles) -> int:
    return 1 if isinstance(source, TextFiles) else len(source.texts)


_MNLI = ["index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"]
_MNLI += ["sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1"]
_MNLI_DEV = [*_MNLI, *["label2", "label3", "label4", "label5", "gold_label"]]

_TASKS = [
    Task(
        "sst-2",
        license="none stated; published for research (Socher et al. 2013)",
        classes={"0": "negative", "1": "positive"},
        tsv=Tsv("SST-2", ["sentence", "label"], texts=["sentence"]),
        hub=Hub("sst2", texts=["sentence"]),
    ),
    Task(
        "qnli",
        license="CC BY-SA 4.0 (SQuAD)",
        classes={"entailment": "entailment", "not_entailment": "not_entailment"},
        tsv=Tsv("QNLI", ["index", "question", "sentence", "label"], texts=["question", "sentence"]),
        hub=Hub("qnli", texts=["question", "sentence"]),
    ),
    Task(
        "qqp",
        license="Quora's terms: non-commercial use",
        metrics=("accuracy", "f1"),
        classes={"0": "not_duplicate", "1": "duplicate"},
        tsv=Tsv(
            "QQP",
            ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
            texts=["question1", "question2"],
            label="is_duplicate",
        ),
        hub=Hub("qqp", texts=["question1", "question2"]),
    ),
    Task(
        "imdb",
        license="none stated; published for research (Maas et al. 2011)",
        valid_is_test=True,
        classes={"0": "negative", "1": "positive", "neg": "negative", "pos": "positive"},
        tsv=Tsv("imdb", ["id", "label", "text"], texts=["text"], files={"train": "train.tsv", "valid": "test.tsv"}),
        hub=Hub("plain_text", texts=["text"], name_and_revision=IMDB, splits={"train": "train", "valid": "test"}),
        text_files=TextFiles("aclImdb", labels=["neg", "pos"], splits={"train": "train", "valid": "test"}),
    ),
    Task(
        "mrpc",
        license="Microsoft Research's terms of this corpus (Dolan and Brockett 2005)",
        metrics=("accuracy", "f1"),
        classes={"0": "not_equivalent", "1": "equivalent"},
        tsv=Tsv(
            "MRPC",
            ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
            texts=["#1 String", "#2 String"],
            label="Quality",
        ),
        hub=Hub("mrpc", texts=["sentence1", "sentence2"]),
    ),
    Task(
        "rte",
        license="none stated; published for research (PASCAL RTE 1 to 3, TAC RTE 5)",
        classes={"entailment": "entailment", "not_entailment": "not_entailment"},
        tsv=Tsv("RTE", ["index", "sentence1", "sentence2", "label"], texts=["sentence1", "sentence2"]),
        hub=Hub("rte", texts=["sentence1", "sentence2"]),
    ),
    Task(
        "cola",
        license="none stated; sentences quoted from publications (Warstadt et al. 2019)",
        metrics=("matthews", "accuracy"),
        classes={"0": "unacceptable", "1": "acceptable"},
        tsv=Tsv("CoLA", ["source", "label", "star", "sentence"], texts=["sentence"], header=False),
        hub=Hub("cola", texts=["sentence"]),
    ),
    Task(
        "mnli",
        license="that of each genre, mostly the OANC's (Williams et al. 2018)",
        classes={"entailment": "entailment", "neutral": "neutral", "contradiction": "contradiction"},
        tsv=Tsv(
            "MNLI",
            [*_MNLI, "gold_label"],
            texts=["sentence1", "sentence2"],
            label="gold_label",
            files={"train": "train.tsv", "valid": "dev_matched.tsv", "valid1": "dev_mismatched.tsv"},
            split_columns={"valid": _MNLI_DEV, "valid1": _MNLI_DEV},
        ),
        hub=Hub(
            "mnli",
            texts=["premise", "hypothesis"],
            splits={"train": "train", "valid": "validation_matched", "valid1": "validation_mismatched"},
        ),
    ),
    Task(
        "sts-b",
        license="that of each source, in LICENSE.txt next to the data (Cer et al. 2017)",
        score_range=(0.0, 5.0),
        metrics=("pearson", "spearman"),
        tsv=Tsv(
            "STS-B",
            "index genre filename year old_index source1 source2 sentence1 sentence2 score".split(),
            texts=["sentence1", "sentence2"],
            label="score",
        ),
        hub=Hub("stsb", texts=["sentence1", "sentence2"]),
    ),
]
TASKS = {task.name: task for task in _TASKS}
