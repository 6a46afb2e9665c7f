"""The tasks: the form of their files, and the names of their labels. One entry per task, in ``TASKS``."""

from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Sequence, Tuple

GLUE = "nyu-mll/glue", "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
IMDB = "stanfordnlp/imdb", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"


@dataclass(frozen=True)
class Tsv:
    """Files with one row per line and tabs between columns, in which quotes are ordinary characters, as in GLUE."""

    folder: str
    """The folder in GLUE and in its archives."""
    columns: Sequence[str]
    """The header, or the names of the columns if there is none."""
    texts: Sequence[str]
    label: str = "label"
    header: bool = True
    files: Mapping[str, str] = field(default_factory=lambda: {"train": "train.tsv", "valid": "dev.tsv"})
    """By fairseq's name of the split."""
    columns_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of the splits that have other columns."""


@dataclass(frozen=True)
class Hub:
    """A data set on Hugging Face's hub: parquet files named CONFIG/SPLIT-*.parquet."""

    config: str
    texts: Sequence[str]
    label: str = "label"
    name_and_revision: Tuple[str, str] = GLUE
    """The revision is a commit, so that what is read never changes."""
    splits: Mapping[str, str] = field(default_factory=lambda: {"train": "train", "valid": "validation"})
    """fairseq's name of a split -> the hub's."""


@dataclass(frozen=True)
class TextFiles:
    """One text per file, ROOT/SPLIT/LABEL/NUMBER_RATING.txt, as in aclImdb."""

    root: str
    labels: Sequence[str]
    splits: Mapping[str, str]


@dataclass(frozen=True)
class Task:
    """A task of one text or a pair, with classes or with a score.

    Raises:
        ValueError: the entry contradicts itself.
    """

    name: str
    """As on the command line."""
    licence: str
    classes: Mapping[str, str] = field(default_factory=dict)
    """The sources' word for a class -> its name, in the order of the class numbers. A name stands for itself, too."""
    score: Optional[Tuple[float, float]] = None
    """Instead of classes: the lowest and highest score."""
    tsv: Optional[Tsv] = None
    hub: Optional[Hub] = None
    text_files: Optional[TextFiles] = None
    metrics: Tuple[str, ...] = ("accuracy",)
    """Its usual scores; learning rates are chosen by the first."""
    valid_is_test: bool = False
    """There is no development set: ``valid`` is the test set, and no epoch may be chosen on it."""

    def __post_init__(self):
        sources = [source for source in (self.tsv, self.hub, self.text_files) if source]
        if not sources or bool(self.classes) == bool(self.score):
            raise ValueError(f"task {self.name} needs a source, and either classes or a score")
        if len({tuple(_splits(source)) for source in sources}) > 1 or "train" not in self.splits:
            raise ValueError(f"task {self.name} needs the same splits from each source, and train among them")
        counts = {len(getattr(source, "texts", ["text"])) for source in sources}
        if len(counts) > 1 or not counts <= {1, 2}:
            raise ValueError(f"task {self.name} needs one text or two, the same from each source")
        for split in self.tsv.files if self.tsv else ():
            absent = {*self.tsv.texts, self.tsv.label} - set(self.columns(split))
            if absent:
                columns, file = ", ".join(sorted(absent)), self.tsv.files[split]
                raise ValueError(f"task {self.name} has no column {columns} in {file}")

    @property
    def splits(self) -> List[str]:
        """Of fairseq: train, valid and, where there is a second development set, valid1."""
        return _splits(self.tsv or self.hub or self.text_files)

    @property
    def inputs(self) -> int:
        """Texts per row."""
        return len((self.tsv or self.hub).texts) if self.tsv or self.hub else 1

    @property
    def names(self) -> List[str]:
        """Names of the classes; the place in the list is the number of the class."""
        return list(dict.fromkeys(self.classes.values()))

    def columns(self, split: str) -> Sequence[str]:
        """Columns of the TSV file of a split."""
        return self.tsv.columns_of.get(split, self.tsv.columns)

    def number(self, label: str) -> int:
        """The class that a source calls ``label``; KeyError if there is none."""
        return self.names.index(label) if label in self.names else self.names.index(self.classes[label])


def _splits(source) -> List[str]:
    return list(source.files if isinstance(source, Tsv) else source.splits)


_MNLI = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse "
    "sentence1 sentence2 label1"
).split()
_MNLI_DEV = [*_MNLI, *"label2 label3 label4 label5 gold_label".split()]

_TASKS = [
    Task(
        "sst-2",
        licence="none stated; published for research (Socher et al. 2013)",
        classes={"0": "negative", "1": "positive"},
        tsv=Tsv("SST-2", ["sentence", "label"], texts=["sentence"]),
        hub=Hub("sst2", texts=["sentence"]),
    ),
    Task(
        "qnli",
        licence="CC BY-SA 4.0 (SQuAD)",
        classes={"entailment": "entailment", "not_entailment": "not_entailment"},
        tsv=Tsv("QNLI", ["index", "question", "sentence", "label"], texts=["question", "sentence"]),
        hub=Hub("qnli", texts=["question", "sentence"]),
    ),
    Task(
        "qqp",
        licence="Quora's terms: not commercial",
        metrics=("accuracy", "f1"),
        classes={"0": "not_duplicate", "1": "duplicate"},
        tsv=Tsv("QQP", "id qid1 qid2 question1 question2 is_duplicate".split(), texts=["question1", "question2"],
                label="is_duplicate"),
        hub=Hub("qqp", texts=["question1", "question2"]),
    ),  # fmt: skip
    Task(
        "imdb",
        licence="none stated; published for research (Maas et al. 2011)",
        valid_is_test=True,
        classes={"0": "negative", "1": "positive", "neg": "negative", "pos": "positive"},
        tsv=Tsv("imdb", ["id", "label", "text"], texts=["text"], files={"train": "train.tsv", "valid": "test.tsv"}),
        hub=Hub("plain_text", texts=["text"], name_and_revision=IMDB, splits={"train": "train", "valid": "test"}),
        text_files=TextFiles("aclImdb", labels=["neg", "pos"], splits={"train": "train", "valid": "test"}),
    ),
    Task(
        "mrpc",
        licence="Microsoft Research's terms of this corpus (Dolan and Brockett 2005)",
        metrics=("accuracy", "f1"),
        classes={"0": "not_equivalent", "1": "equivalent"},
        tsv=Tsv("MRPC", ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"], texts=["#1 String", "#2 String"],
                label="Quality"),
        hub=Hub("mrpc", texts=["sentence1", "sentence2"]),
    ),  # fmt: skip
    Task(
        "rte",
        licence="none stated; published for research (PASCAL RTE 1 to 3, TAC RTE 5)",
        classes={"entailment": "entailment", "not_entailment": "not_entailment"},
        tsv=Tsv("RTE", ["index", "sentence1", "sentence2", "label"], texts=["sentence1", "sentence2"]),
        hub=Hub("rte", texts=["sentence1", "sentence2"]),
    ),
    Task(
        "cola",
        licence="none stated; sentences quoted from publications (Warstadt et al. 2019)",
        metrics=("matthews", "accuracy"),
        classes={"0": "unacceptable", "1": "acceptable"},
        tsv=Tsv("CoLA", ["source", "label", "star", "sentence"], texts=["sentence"], header=False),
        hub=Hub("cola", texts=["sentence"]),
    ),
    Task(
        "mnli",
        licence="of each genre its own, most of them the OANC's (Williams et al. 2018)",
        classes={"entailment": "entailment", "neutral": "neutral", "contradiction": "contradiction"},
        tsv=Tsv("MNLI", [*_MNLI, "gold_label"], texts=["sentence1", "sentence2"], label="gold_label",
                files={"train": "train.tsv", "valid": "dev_matched.tsv", "valid1": "dev_mismatched.tsv"},
                columns_of={"valid": _MNLI_DEV, "valid1": _MNLI_DEV}),
        hub=Hub("mnli", texts=["premise", "hypothesis"],
                splits={"train": "train", "valid": "validation_matched", "valid1": "validation_mismatched"}),
    ),  # fmt: skip
    Task(
        "sts-b",
        licence="of each source its own, in the LICENSE.txt beside the data (Cer et al. 2017)",
        score=(0.0, 5.0),
        metrics=("pearson", "spearman"),
        tsv=Tsv("STS-B", "index genre filename year old_index source1 source2 sentence1 sentence2 score".split(),
                texts=["sentence1", "sentence2"], label="score"),
        hub=Hub("stsb", texts=["sentence1", "sentence2"]),
    ),  # fmt: skip
]
TASKS = {task.name: task for task in _TASKS}
