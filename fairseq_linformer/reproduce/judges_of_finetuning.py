"""The rules of claims about finetuned models, over the entries of experiment ``table-2`` of ``fairseq-linformer reproduce``.

A model is n, k (None: RoBERTa) and sharing; of each there is one pretraining, and seeds are of finetuning alone.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from .judges import Judge
from .ledger import Entry
from .paper import TABLE_2
from .scales import SCALES
from .verdict import FAILS, HOLDS, SEEDS, UNDECIDED, Part, Verdict, interval, judged, more_than, not_measured, together, within

POINT = 1.0
"""Of accuracy, in percent: "comparable", "similar"."""
SHARINGS = ("headwise", "key-value", "layerwise")


@dataclass(frozen=True)
class Model:
    """Of n = 0 it stands for one that was expected and is not there."""

    n: int
    k: Optional[int] = None
    sharing: str = ""

    @property
    def name(self) -> str:
        kind = "RoBERTa" if self.k is None else "Linformer"
        return kind + f", n = {self.n}" * bool(self.n) + f", k = {self.k}, {self.sharing}" * bool(self.k)


class Finetuned:
    """The entries of table-2 at a scale, by task, model and whether it is from scratch."""

    def __init__(self, entries: Iterable[Entry], scale: str):
        self.entries = [e for e in entries if e.configuration.get("experiment") == "table-2" and e.scale == scale]
        self.tasks = list(SCALES[scale].table_2.epochs) if scale in SCALES else list(next(iter(TABLE_2.values())))
        self.by = {(e.configuration["task"], _model(e), bool(e.configuration["model"]["from_scratch"])): e for e in self.entries}
        self.used: Dict[str, Entry] = {}
        """Those that a number was asked of, by identifier."""
        self.models = list(dict.fromkeys(model for _, model, _ in self.by))

    @property
    def roberta(self) -> List[Model]:
        """Those that there are; one of no n where there is none."""
        return [m for m in self.models if m.k is None] or [Model(0)]

    @property
    def linformer(self) -> List[Model]:
        return [m for m in self.models if m.k is not None] or [Model(0, 0)]

    @property
    def n(self) -> int:
        """The shortest of the models: the paper's 512 is the shorter one of two."""
        return min(m.n for m in self.models)

    @property
    def k(self) -> int:
        """That of the paper's claims: n / 2."""
        return self.n // 2


def _model(entry: Entry) -> Model:
    model = entry.configuration["model"]
    k = model["projected_dim"]
    return Model(int(model["max_positions"]), int(k) if k else None, model["sharing"] if k else "")


def finetuned(parts_of: Callable[[Finetuned], List[Part]], learnt: bool = False) -> Judge:
    """A judge: ``parts_of`` gives what is asked of all entries.

    Args:
        learnt: nothing is decided of models whose RoBERTa has not learnt in pretraining what raises its accuracy.
    """
    return partial(_finetuned, parts_of, learnt)


def _finetuned(parts_of, learnt: bool, entries: Sequence[Entry], scale: str) -> Verdict:
    found = Finetuned(entries, scale)
    if not found.entries:
        return not_measured(f"of table-2 at scale {scale}")
    parts, grounds = parts_of(found), _has_not_learnt(found) if learnt else []
    verdict = together([*grounds, *parts], found.used.values() or found.entries)
    return replace(verdict, outcome=UNDECIDED) if grounds else verdict


def _has_not_learnt(found: Finetuned) -> List[Part]:
    """Why the RoBERTa of the shortest n is no measure of pretraining; nothing where it is, or was not finetuned from scratch."""
    roberta = Model(found.n)
    if not any((task, roberta, True) in found.by for task in found.tasks):
        return []
    pretrained, scratch = _mean(found, roberta), _mean(found, roberta, scratch=True)
    if missing := [said for of_it in (pretrained, scratch) if isinstance(of_it, list) for said in of_it]:
        return [Part(UNDECIDED, said) for said in missing]
    part = more_than(*_less(pretrained, scratch), 0.0, f"mean accuracy over tasks of {roberta.name} pretrained, above that from scratch, {_RUNS}")
    return [] if part.outcome == HOLDS else [Part(UNDECIDED, part.said)]


Accuracy = Tuple[float, float, float]
"""Median, lowest, highest; in percent."""


def _accuracy(found: Finetuned, task: str, model: Model, scratch: bool = False) -> "Accuracy | str":
    """Of a model on a task, or what is missing in a sentence."""
    name = model.name + ", from scratch" * scratch
    entry = found.by.get((task, model, scratch))
    if entry is None:
        return f"{task}: {name} is not measured"
    found.used[entry.identifier] = entry
    m = entry.measured.get("valid accuracy")
    if m is None:
        return f"{task}: the entry of {name} has no accuracy"
    if m.repetitions < SEEDS:
        return f"{task}: {name} has {m.repetitions} seeds, {m.value:.2f} %; {SEEDS} are wanted"
    return (m.value, *interval(m))


def _mean(found: Finetuned, model: Model, scratch: bool = False) -> "Accuracy | List[str]":
    """Over the tasks, as the paper's last column; or what is missing."""
    of_tasks = [_accuracy(found, task, model, scratch) for task in found.tasks]
    if missing := [a for a in of_tasks if isinstance(a, str)]:
        return missing
    return tuple(sum(values) / len(of_tasks) for values in zip(*of_tasks))


_RUNS = "points, medians, and lowest to highest of any two runs"


def _less(a: Accuracy, b: Accuracy) -> Accuracy:
    return a[0] - b[0], a[1] - b[2], a[2] - b[1]


def comparable(found: Finetuned) -> List[Part]:
    """On each task the Linformer of k = n / 4 is at most ``POINT`` below RoBERTa, with each sharing that there is, or headwise."""
    of_quarter = [Model(found.n, found.n // 4, sharing) for sharing in SHARINGS]
    parts = []
    for task in found.tasks:
        for model in [m for m in of_quarter if m in found.models] or of_quarter[:1]:
            a, b = _accuracy(found, task, Model(found.n)), _accuracy(found, task, model)
            if missing := [Part(UNDECIDED, said) for said in (a, b) if isinstance(said, str)]:
                parts += missing
            else:
                parts.append(judged(*_less(a, b), POINT, f"{task}: accuracy of {model.name} below that of RoBERTa, {_RUNS}"))
    return list(dict.fromkeys(parts))


def pretraining_helps(found: Finetuned) -> List[Part]:
    """On each task each model that was finetuned from scratch too, one RoBERTa and one Linformer at least, is better pretrained."""
    asked = []
    for of_kind in (found.roberta, found.linformer):
        asked += [model for model in of_kind if any((task, model, True) in found.by for task in found.tasks)] or of_kind[:1]
    parts = []
    for task in found.tasks:
        for model in asked:
            a, b = _accuracy(found, task, model), _accuracy(found, task, model, True)
            if missing := [Part(UNDECIDED, said) for said in (a, b) if isinstance(said, str)]:
                parts += missing
            else:
                parts.append(more_than(*_less(a, b), 0.0, f"{task}: accuracy of {model.name} pretrained, above that from scratch, {_RUNS}"))
    return parts


def _means(found: Finetuned, models: Sequence[Model]) -> "Tuple[Dict[Model, Accuracy], List[Part]]":
    """The means of those that have all tasks, and what the others lack."""
    means = {model: _mean(found, model) for model in models}
    missing = [Part(UNDECIDED, said) for mean in means.values() if isinstance(mean, list) for said in mean]
    return {model: mean for model, mean in means.items() if not isinstance(mean, list)}, missing


def half_beats_roberta(found: Finetuned) -> List[Part]:
    """A Linformer of k = n / 2 has the higher mean over tasks, with one of the sharings, of those that were finetuned at all."""
    roberta, of_half = Model(found.n), [Model(found.n, found.k, sharing) for sharing in SHARINGS]
    means, missing = _means(found, [roberta, *([model for model in of_half if model in found.models] or of_half[:1])])
    if roberta not in means:
        return missing
    parts = [more_than(*_less(mean, means[roberta]), 0.0, f"mean accuracy over tasks of {model.name} above that of RoBERTa, {_RUNS}")
             for model, mean in means.items() if model != roberta]  # fmt: skip
    return [part for part in parts if part.outcome == HOLDS] or _none_does(parts, missing)


def _none_does(parts: List[Part], missing: List[Part]) -> List[Part]:
    """One that holds is enough, so that one that fails decides only if all do."""
    if not missing and all(part.outcome == FAILS for part in parts):
        return parts
    return [*(Part(UNDECIDED, part.said) for part in parts), *missing]


def layerwise_is_best(found: Finetuned) -> List[Part]:
    """Of the sharings at k = n / 2 layerwise has the highest mean over tasks."""
    models = [Model(found.n, found.k, sharing) for sharing in SHARINGS]
    means, parts = _means(found, models)
    for model in models[:2]:
        if model in means and models[2] in means:
            said = f"mean accuracy over tasks of {models[2].name} above that of {model.name}, {_RUNS}"
            parts.append(more_than(*_less(means[models[2]], means[model]), 0.0, said))
    return parts


def longer_is_same(found: Finetuned) -> List[Part]:
    """At twice n and the same k the mean over tasks is within ``POINT``: of each sharing that there is at both, of headwise at least."""
    pairs = [(Model(found.n, found.k, sharing), Model(2 * found.n, found.k, sharing)) for sharing in SHARINGS]
    there = [pair for pair in pairs if all(model in found.models for model in pair)] or pairs[:1]
    means, parts = _means(found, [model for pair in there for model in pair])
    for short, long in there:
        if short in means and long in means:
            said = f"mean accuracy over tasks of {long.name} less that of {short.name}, {_RUNS}"
            parts.append(within(*_less(means[long], means[short]), (-POINT, POINT), said))
    return parts
