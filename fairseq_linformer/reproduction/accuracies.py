"""Accuracies of the finetuned models of Table 2, by task and model, and which tasks are far enough above chance."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean

from . import paper
from .finetuning_plan import SIZES
from .records import Record, select_reproduced
from .statistics import MIN_SEEDS, UNDECIDED, Check, Estimate, wilson

ABOVE_CHANCE = 5.0
"""Points of accuracy above the most frequent class that at least one model must have on a task."""


@dataclass(frozen=True)
class Model:
    """A finetuned model: RoBERTa if k is None. n = 0 represents a missing one."""

    n: int
    k: int | None = None
    sharing: str = ""

    @property
    def name(self) -> str:
        kind = "RoBERTa" if self.k is None else "Linformer"
        return kind + f", n = {self.n}" * bool(self.n) + f", k = {self.k}, {self.sharing}" * bool(self.k)

    @staticmethod
    def from_record(record: Record) -> "Model":
        model = record.configuration["model"]
        k = model["projected_dim"]
        return Model(int(model["max_positions"]), int(k) if k else None, model["sharing"] if k else "")


class Accuracies:
    """The records of Table 2 at a scale, by task, model and whether it was finetuned from scratch.

    Attributes:
        tasks: names of the tasks at this scale.
        used: records whose numbers were read, by identifier.
    """

    def __init__(self, records: Iterable[Record], scale: str):
        self.records = select_reproduced(records, "table-2", scale)
        self.tasks = list(SIZES[scale].epochs) if scale in SIZES else list(next(iter(paper.TABLE_2.values())))
        self.by_model = {
            (r.configuration["task"], Model.from_record(r), bool(r.configuration["model"]["from_scratch"])): r
            for r in self.records
        }
        self.used: dict[str, Record] = {}

    @cached_property
    def models(self) -> list[Model]:
        return list(dict.fromkeys(model for _, model, _ in self.by_model))

    @cached_property
    def near_chance(self) -> dict[str, str]:
        """Tasks on which no model is clearly above the most frequent class, with the best model in words."""
        return near_chance(self.records, self.tasks)

    @property
    def learned_tasks(self) -> list[str]:
        """The other tasks, including those without a record or without the share of the most frequent class."""
        return [task for task in self.tasks if task not in self.near_chance]

    @property
    def n(self) -> int:
        """The smallest n of the models, which corresponds to the paper's 512."""
        return min(model.n for model in self.models)

    @property
    def half(self) -> int:
        return self.n // 2

    def has_scratch(self, model: Model) -> bool:
        return any((task, model, True) in self.by_model for task in self.tasks)

    def accuracy(self, task: str, model: Model, scratch: bool = False) -> Estimate | Check:
        """Accuracy in percent, or a ``Check`` that names what is missing."""
        name = model.name + ", from scratch" * scratch
        record = self.by_model.get((task, model, scratch))
        if record is None:
            return Check(UNDECIDED, f"{task}: {name} is not measured")
        self.used[record.identifier] = record
        m = record.find("accuracy", split="valid")
        if m is None:
            return Check(UNDECIDED, f"{task}: the record of {name} has no accuracy")
        if m.repetitions < MIN_SEEDS:
            return Check(UNDECIDED, f"{task}, {name}: {m.value:.2f} %, {m.repetitions} seeds; needs {MIN_SEEDS}")
        return Estimate(m.value, m.low, m.high, name)

    def average(self, model: Model, scratch: bool = False) -> Estimate | list[Check]:
        """Mean accuracy over ``learned_tasks``, or a ``Check`` for each missing one."""
        if not self.learned_tasks:
            return [Check(UNDECIDED, f"no task has a model {ABOVE_CHANCE:g} points above the most frequent class")]
        measured = [self.accuracy(task, model, scratch) for task in self.learned_tasks]
        if missing := [each for each in measured if isinstance(each, Check)]:
            return missing
        found = [each for each in measured if isinstance(each, Estimate)]
        value, low, high = (mean(values) for values in zip(*((e.value, e.low, e.high) for e in found)))
        return Estimate(value, low, high, model.name)


def near_chance(records: Sequence[Record], tasks: Iterable[str]) -> dict[str, str]:
    """Tasks on which no model clears the most frequent class by ``ABOVE_CHANCE`` points, with the best one in words.

    A model clears it if the lower end of its accuracy's 95 % interval does (Wilson, one trial per row), because the
    best of many models can be above chance by luck.
    """
    found = {}
    for task in tasks:
        margins = [m for r in records if r.configuration["task"] == task and (m := _margin(r))]
        margin, text = max(margins, default=(ABOVE_CHANCE, ""))
        if margin < ABOVE_CHANCE:
            found[task] = text
    return found


def _margin(record: Record) -> tuple[float, str] | None:
    """The points by which a model clears the most frequent class, and its accuracy in words; None if the record has no
    share of that class."""
    accuracy, majority, rows = (record.find(metric, split="valid") for metric in ("accuracy", "majority", "rows"))
    if accuracy is None or majority is None or rows is None:
        return None
    low = 100 * wilson(accuracy.value / 100, int(rows.value))[0]
    text = f"{accuracy.value:.1f} % [from {low:.1f}] at best, most frequent class {majority.value:.1f} %"
    return low - majority.value, text
