"""Table 2: accuracy on SST-2, IMDB, QNLI and QQP after finetuning, by n, k and sharing.

    fairseq-linformer reproduce table-2 --scale cpu --text TEXT --tasks TASKS

Pretrains a RoBERTa, converts it to the Linformers, and finetunes all of them; one of each kind without pretraining too. The
plan and the training are in ``finetuned.py``, what a finetuning measures in ``finetuning_records.py``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean

from .. import paper
from ..finetuned import SIZES, FinetuningExperiment, PaperTable2
from ..paper import AVERAGE, CellResult
from ..records import Measurement, Record, reproduced
from ..registry import Claim
from ..report.tables import MISSING, Table, spread_cells
from ..statistics import (
    FAILS,
    HOLDS,
    MIN_SEEDS,
    UNDECIDED,
    Check,
    Estimate,
    Evaluate,
    Verdict,
    combine,
    not_measured,
)

POINT = 1.0
"""Of accuracy, in percent: "comparable", "similar"."""
SHARINGS = ("headwise", "key-value", "layerwise")
RUNS = "points, medians, and lowest to highest of any two runs"


@dataclass(frozen=True)
class Model:
    """A RoBERTa if k is None. With n = 0 it stands for one that is missing."""

    n: int
    k: int | None = None
    sharing: str = ""

    @property
    def name(self) -> str:
        kind = "RoBERTa" if self.k is None else "Linformer"
        return kind + f", n = {self.n}" * bool(self.n) + f", k = {self.k}, {self.sharing}" * bool(self.k)

    @staticmethod
    def of(record: Record) -> "Model":
        model = record.configuration["model"]
        k = model["projected_dim"]
        return Model(int(model["max_positions"]), int(k) if k else None, model["sharing"] if k else "")


class Accuracies:
    """The records of Table 2 at a scale, by task, model and whether it was finetuned from scratch.

    Attributes:
        used: the records that a number was taken from, by identifier.
    """

    def __init__(self, records: Iterable[Record], scale: str):
        self.records = reproduced(records, "table-2", scale)
        self.tasks = list(SIZES[scale].epochs) if scale in SIZES else list(next(iter(paper.TABLE_2.values())))
        self.by_place = {(r.configuration["task"], Model.of(r), bool(r.configuration["model"]["from_scratch"])): r for r in self.records}
        self.used: dict[str, Record] = {}

    @cached_property
    def models(self) -> list[Model]:
        return list(dict.fromkeys(model for _, model, _ in self.by_place))

    @property
    def n(self) -> int:
        """The shortest of the models: it stands for the paper's 512."""
        return min(model.n for model in self.models)

    @property
    def half(self) -> int:
        return self.n // 2

    def has_scratch(self, model: Model) -> bool:
        return any((task, model, True) in self.by_place for task in self.tasks)

    def accuracy(self, task: str, model: Model, scratch: bool = False) -> Estimate | Check:
        """In percent; or what is missing."""
        name = model.name + ", from scratch" * scratch
        record = self.by_place.get((task, model, scratch))
        if record is None:
            return Check(UNDECIDED, f"{task}: {name} is not measured")
        self.used[record.identifier] = record
        m = record.find("accuracy", split="valid")
        if m is None:
            return Check(UNDECIDED, f"{task}: the entry of {name} has no accuracy")
        if m.repetitions < MIN_SEEDS:
            return Check(UNDECIDED, f"{task}: {name} has {m.repetitions} seeds, {m.value:.2f} %; {MIN_SEEDS} are wanted")
        return Estimate(m.value, m.low, m.high, name)

    def average(self, model: Model, scratch: bool = False) -> Estimate | list[Check]:
        """Over the tasks, the paper's last column; or what is missing."""
        found = [self.accuracy(task, model, scratch) for task in self.tasks]
        if missing := [each for each in found if isinstance(each, Check)]:
            return missing
        return Estimate(*(mean(values) for values in zip(*((e.value, e.low, e.high) for e in found))), model.name)


def difference(a: Estimate, b: Estimate, text: str) -> Estimate:
    """a - b, between the most distant runs."""
    return Estimate(a.value - b.value, a.low - b.high, a.high - b.low, f"{text}, {RUNS}")


def rule_of(checks_of: Callable[[Accuracies], list[Check]], needs_learning: bool = False) -> Evaluate:
    """
    Args:
        needs_learning: decide nothing where pretraining does not raise RoBERTa's accuracy: then labels alone are compared.
    """

    def evaluate(records: Sequence[Record], scale: str) -> Verdict:
        found = Accuracies(records, scale)
        if not found.records:
            return not_measured(f"of table-2 at scale {scale}")
        checks = checks_of(found)
        missing = _missing_learning(found) if needs_learning else []
        verdict = combine([*missing, *checks], found.used.values() or found.records)
        return replace(verdict, outcome=UNDECIDED) if missing else verdict

    return evaluate


def _missing_learning(found: Accuracies) -> list[Check]:
    """Why the RoBERTa of the shortest n shows no effect of pretraining; nothing where it does, or was not finetuned from scratch."""
    roberta = Model(found.n)
    if not found.has_scratch(roberta):
        return []
    averages = [found.average(roberta), found.average(roberta, scratch=True)]
    if missing := [check for average in averages if isinstance(average, list) for check in average]:
        return missing
    text = f"mean accuracy over tasks of {roberta.name} pretrained, above that from scratch"
    check = difference(*averages, text).more_than(0.0)
    return [] if check.outcome == HOLDS else [Check(UNDECIDED, check.text)]


def comparable(found: Accuracies) -> list[Check]:
    """On each task the Linformer of k = n / 4, with each sharing that was finetuned, is at most ``POINT`` below RoBERTa."""
    quarter = [Model(found.n, found.n // 4, sharing) for sharing in SHARINGS]
    checks: list[Check] = []
    for task in found.tasks:
        for model in [m for m in quarter if m in found.models] or quarter[:1]:
            pair = [found.accuracy(task, Model(found.n)), found.accuracy(task, model)]
            missing = [each for each in pair if isinstance(each, Check)]
            text = f"{task}: accuracy of {model.name} below that of RoBERTa"
            checks += missing or [difference(*pair, text).at_most(POINT)]
    return list(dict.fromkeys(checks))


def half_beats_roberta(found: Accuracies) -> list[Check]:
    """A Linformer of k = n / 2 has the higher average, with one of the sharings that were finetuned."""
    roberta, half = Model(found.n), [Model(found.n, found.half, sharing) for sharing in SHARINGS]
    averages, missing = _averages(found, [roberta, *([model for model in half if model in found.models] or half[:1])])
    if roberta not in averages:
        return missing
    checks = [difference(average, averages[roberta], f"mean accuracy over tasks of {model.name} above that of RoBERTa").more_than(0.0)
              for model, average in averages.items() if model != roberta]  # fmt: skip
    if holding := [check for check in checks if check.outcome == HOLDS]:
        return holding
    if not missing and all(check.outcome == FAILS for check in checks):
        return checks
    return [*(Check(UNDECIDED, check.text) for check in checks), *missing]


def _averages(found: Accuracies, models: Sequence[Model]) -> tuple[dict[Model, Estimate], list[Check]]:
    """Of the models that have all tasks, and what the others lack."""
    averages = {model: found.average(model) for model in models}
    missing = [check for average in averages.values() if isinstance(average, list) for check in average]
    return {model: average for model, average in averages.items() if isinstance(average, Estimate)}, missing


def layerwise_is_best(found: Accuracies) -> list[Check]:
    """At k = n / 2."""
    *others, layerwise = models = [Model(found.n, found.half, sharing) for sharing in SHARINGS]
    averages, checks = _averages(found, models)
    for model in others:
        if model in averages and layerwise in averages:
            text = f"mean accuracy over tasks of {layerwise.name} above that of {model.name}"
            checks.append(difference(averages[layerwise], averages[model], text).more_than(0.0))
    return checks


def longer_is_similar(found: Accuracies) -> list[Check]:
    """At twice n and the same k the average is within ``POINT``, with each sharing that was finetuned at both."""
    pairs = [(Model(found.n, found.half, sharing), Model(2 * found.n, found.half, sharing)) for sharing in SHARINGS]
    complete = [pair for pair in pairs if all(model in found.models for model in pair)] or pairs[:1]
    averages, checks = _averages(found, [model for pair in complete for model in pair])
    for short, long in complete:
        if short in averages and long in averages:
            text = f"mean accuracy over tasks of {long.name} less that of {short.name}"
            checks.append(difference(averages[long], averages[short], text).within(-POINT, POINT))
    return checks


def pretraining_helps(found: Accuracies) -> list[Check]:
    """On each task, each model that was finetuned from scratch too is better pretrained: one RoBERTa and one Linformer at least."""
    models = []
    for kind in ([m for m in found.models if m.k is None] or [Model(0)], [m for m in found.models if m.k is not None] or [Model(0, 0)]):
        models += [model for model in kind if found.has_scratch(model)] or kind[:1]
    checks = []
    for task in found.tasks:
        for model in models:
            pair = [found.accuracy(task, model), found.accuracy(task, model, scratch=True)]
            missing = [each for each in pair if isinstance(each, Check)]
            text = f"{task}: accuracy of {model.name} pretrained, above that from scratch"
            checks += missing or [difference(*pair, text).more_than(0.0)]
    return checks


_KNOWN = " (Written when an earlier measurement was known.)"
_LEARNED = (" Not enough evidence if RoBERTa, where it was finetuned from scratch too, has not the higher mean accuracy over all tasks pretrained: then the "
            "comparison is of what labels teach." + _KNOWN)  # fmt: skip
_SEEDS = ("any two of their seeds, which are of finetuning alone: each model was pretrained once. Not enough evidence with fewer "
          f"than {MIN_SEEDS} seeds, or where a task or a model is missing and what is there does not fail")  # fmt: skip
CLAIMS = (
    Claim("table-2", "Table 2, section 5.2; n = 512, k = 128", "Finetuned, the Linformer is comparable to RoBERTa.",
          f"Holds if on each task the Linformer of k = n / 4, of each sharing that was finetuned, is at most {POINT:g} point of accuracy below RoBERTa; does not hold if "
          f"it is further below on one; by {_SEEDS}." + _LEARNED, rule_of(comparable, needs_learning=True)),
    Claim("table-2-k", "Table 2, section 5.2; n = 512, k = 256", "At k = n / 2 the Linformer slightly outperforms RoBERTa.",
          "Holds if the mean accuracy over all tasks of a Linformer of k = n / 2 with one of the three sharings is above RoBERTa's (the paper's is with "
          f"layerwise sharing, 92.30 to 92.25, and not with the others); does not hold if with none that was finetuned it is; by {_SEEDS}." + _LEARNED,
          rule_of(half_beats_roberta, needs_learning=True)),
    Claim("table-2-sharing", "Table 2, section 5.2; n = 512, k = 256",
          "Of the three ways to share E and F, layerwise sharing has the best accuracy.",
          "Holds if at k = n / 2 its mean accuracy over all tasks is above that of headwise and of key-value sharing (the paper's is at k = 256, and not at "
          f"128); does not hold if no run of it is above any run of one of them; by {_SEEDS}." + _LEARNED,
          rule_of(layerwise_is_best, needs_learning=True)),
    Claim("table-2-n", "Table 2, section 5.2; n = 1,024 and 512, k = 256",
          "Pretrained at twice the n, a Linformer of the same k has similar results.",
          f"Holds if its mean accuracy over all tasks is within {POINT:g} point of that at n, at k = n / 2, with each sharing that was finetuned at both; does not hold if it is further away; by "
          f"{_SEEDS}." + _LEARNED, rule_of(longer_is_similar, needs_learning=True)),
    Claim("pretraining", "this project: finetune", "What was learnt in pretraining raises the accuracy of each model on each task.",
          "Holds if RoBERTa and each Linformer, of those that were finetuned from scratch too, are better on each task pretrained than from scratch; does "
          f"not hold if one is not on one task; by {_SEEDS}." + _KNOWN, rule_of(pretraining_helps)),
)  # fmt: skip


class Table2(FinetuningExperiment):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        """Every cell of the paper, with ours of each scale beside it; then all that was finetuned."""
        scales = list(dict.fromkeys(r.scale for r in records)) or [""]
        rows, names = [], {}
        for row in paper.TABLE_2:
            line = [row]
            for cell in _row(row):
                names[len(rows), len(line)] = cell.identifier
                digits = 2 if cell.column == AVERAGE else 1
                ours = {each.scale: each.measured for each in _results(cell, records)}
                line += [f"{cell.printed:.{digits}f}", *(_beside(cell.printed, ours.get(scale), digits) for scale in scales)]
            rows.append(line)
        columns = [cell.column for cell in _row(row)]
        heads = [head for column in columns for head in (f"{column} (paper)", *(f"{column}, {scale or 'ours'}" for scale in scales))]
        caption = ("Table 2: accuracy in percent. Ours are models of the same sharing, of the size of the scale; where their RoBERTa has another n, it stands for "
                   "512, and n and k of the others are in proportion: median over seeds of finetuning (lowest to highest), and how far it is from the paper's")  # fmt: skip
        return [Table(["n, model, k", *heads], rows, caption, names=names), *_finetuned(records, "Finetuned here, with and without pretraining")]

    def context_tables(self, records: Sequence[Record]) -> list[Table]:
        return _finetuned(records, "Finetuned before, at other sizes and with other recipes")

    def paper_cells(self, records: Sequence[Record]) -> Iterable:
        for cell in paper.CELLS.values():
            if cell.table == "table-2":
                yield cell, _results(cell, records)


def _row(row: str) -> list[paper.Cell]:
    """The average is the last."""
    return [cell for cell in paper.CELLS.values() if (cell.table, cell.row) == ("table-2", row)]


def _results(cell: paper.Cell, records: Sequence[Record]) -> list[CellResult]:
    """Of each record beside a cell; an average, of each scale that has all tasks (without an interval where one has a single seed)."""
    if cell.column != AVERAGE:
        of_cell = [r for r in records if (row_of(r), r.configuration.get("task")) == (cell.row, cell.column)]
        return [CellResult((r.identifier,), r.scale, "", m) for r in of_cell if (m := r.find("accuracy", split="valid"))]
    by_task, averages = [_results(other, records) for other in _row(cell.row)[:-1]], []
    for scale in dict.fromkeys(each.scale for task in by_task for each in task):
        found = [next((each for each in task if each.scale == scale), None) for task in by_task]
        if None not in found:
            value, low, high = (mean(values) for values in zip(*((e.measured.value, e.measured.low, e.measured.high) for e in found)))
            seeds = min(each.measured.repetitions for each in found)
            m = Measurement(metric="accuracy", value=value, unit="%", interval=(low, high) if seeds > 1 else None, repetitions=seeds)
            averages.append(CellResult(tuple(name for each in found for name in each.records), scale, "", m))
    return averages


def row_of(record: Record) -> str:
    """The row of the paper's table that a record stands beside."""
    return record.paper.where.split(";")[0].removeprefix("Table 2, ")


def _beside(printed: float, m: Measurement | None, digits: int) -> str:
    """Ours with its interval, and the difference."""
    if m is None:
        return MISSING
    return f"{m.value:.{digits}f} ({m.low:.{digits}f} to {m.high:.{digits}f}), {m.value - printed:+.{digits}f}"


def _finetuned(records: Sequence[Record], caption: str) -> list[Table]:
    """A row for each task and model."""
    rows = []
    for r in records:
        f1, model = r.find("f1", split="valid"), r.claim.split(": ", 1)[-1].split("; scores")[0]
        rows.append([r.configuration["task"], model, *spread_cells(r.find("accuracy", split="valid"), 2), f"{f1.value:.3f}" if f1 else "",
                     spread_cells(r.find("majority", split="valid"), 2)[0]])  # fmt: skip
    heads = ["task", "model", "accuracy, %", "lowest to highest", "seeds", "F1", "most frequent class, %"]
    return [Table(heads, rows, caption)] if rows else []


EXPERIMENTS = (Table2("table-2", "Table 2", CLAIMS, PaperTable2),)
