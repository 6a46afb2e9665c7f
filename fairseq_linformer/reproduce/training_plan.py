"""What is trained for an experiment: models, seeds, updates, and what each starts from.

Every run that is compared has, for its seed, the same data, masks, updates and schedule, and starts from the same RoBERTa: trained
at the n of the scale from scratch, grown by doubling to the n of the experiment, then converted to the Linformer
or, as RoBERTa, trained on. Where lengths are compared, the RoBERTa of a shorter one is first trained as long as the growth of the longest takes.
"""

from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Optional

from .scales import Scale

FIGURES_K = (16, 8, 4, 2, 1)
"""k = n over each of these; the last is a control, which is RoBERTa until it learns."""


@dataclass(frozen=True)
class Model:
    """RoBERTa if k is None."""

    n: int
    k: Optional[int] = None
    sharing: str = "headwise"
    projection: str = "linear"
    start: Optional[str] = "average"
    """Of E and F, None for the default; the same in all experiments that compare models and are not about it, since the default depends on the sharing."""
    rate: Optional[float] = None
    """Of E and F, times that of the rest; None for the default."""

    @property
    def name(self) -> str:
        if self.k is None:
            return f"roberta-n{self.n}"
        kind = self.projection if self.projection != "linear" else self.start or "default"
        return f"linformer-n{self.n}-k{self.k}-{self.sharing}-{kind}" + (f"-rate{self.rate:g}" if self.rate else "")


@dataclass(frozen=True)
class Run:
    """A training.

    Attributes:
        made: ``scratch``, ``grown``, ``converted``, ``continued``, or ``waiting`` as long as others grow: what its start is to it.
        start: the run whose last checkpoint it starts from; None from scratch.
        decays: the rate goes to zero; else it is constant.
    """

    model: Model
    seed: int
    made: str
    updates: int
    start: Optional["Run"] = None
    decays: bool = False

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.model.name}-{self.made}/seed{self.seed}"


Models = Dict[str, Callable[[Scale, int], Run]]
"""Name in the ledger's entry: (scale, seed) to the run that is measured."""


def trunk(scale: Scale, n: int, seed: int, longest: Optional[int] = None) -> Run:
    """The RoBERTa that a comparison at n starts from.

    Args:
        longest: n of another that it shall have as many updates as.
    """
    run = Run(Model(scale.n), seed, "scratch", scale.base)
    while run.model.n < n:
        run = Run(Model(2 * run.model.n), seed, "grown", scale.grown, run)
    doublings = (longest // n).bit_length() - 1 if longest else 0
    return replace(run, made="waiting", updates=doublings * scale.grown, start=run) if doublings else run


def compared(model: Model, longest: Optional[int] = None) -> Callable[[Scale, int], Run]:
    """The run of a model from the trunk at its n, with the rate going to zero."""
    made = ("continued" if model.k is None else "converted") + f"-as-n{longest}" * bool(longest)
    return lambda scale, seed: Run(model, seed, made, scale.compared, trunk(scale, model.n, seed, longest), decays=True)


def _figure_3ab(n: int) -> Models:
    return {"roberta": compared(Model(n)), **{f"k={n // part}": compared(Model(n, n // part)) for part in FIGURES_K}}


def _figure_3c(n: int) -> Models:
    return {"roberta": compared(Model(n)), **{s: compared(Model(n, n // 4, s)) for s in ("none", "headwise", "key-value", "layerwise")}}


def _figure_3d(scale: Scale) -> Models:
    """Beside the Linformer of each n a RoBERTa, which tells what that n costs without E and F."""
    longest, models = scale.lengths[-1], {}
    for n in scale.lengths:
        models["roberta" + f" n={n}" * (n > scale.lengths[0])] = compared(Model(n), longest)
        models[f"n={n}"] = compared(Model(n, scale.k), longest)
    return models


def _from_scratch(model: Model) -> Callable[[Scale, int], Run]:
    return lambda scale, seed: Run(model, seed, "scratch", scale.base)


def _scratch(n: int) -> Models:
    return {"roberta": _from_scratch(Model(n)), **{f"k={n // part}": _from_scratch(Model(n, n // part)) for part in (4, 2)}}


def _warm_start(n: int) -> Models:
    """With as many updates in all: the same schedule, and half-way RoBERTa becomes a Linformer, or was one from the beginning."""
    model = Model(n, n // 2)
    return {
        "roberta": compared(Model(n)), "converted": compared(model),
        "from scratch": lambda scale, seed: Run(model, seed, "continued", scale.compared, _from_scratch(model)(scale, seed), decays=True),
    }  # fmt: skip


def _projections(n: int) -> Models:
    model, starts = Model(n, n // 4), {"linear": "average", "conv": "average", "mean-pool": None, "max-pool": None}
    return {"roberta": compared(Model(n)), **{kind: compared(replace(model, projection=kind, start=start)) for kind, start in starts.items()}}


def _starts(n: int) -> Models:
    """The authors' E and F start normal, and learn at the rate of the rest."""
    models = {start: Model(n, n // 4, start=start) for start in ("average", "normal", "staggered")}
    models["normal at the full rate"] = replace(models["normal"], rate=1.0)
    return {"roberta": compared(Model(n)), **{name: compared(model) for name, model in models.items()}}


def _growing(n: int) -> Models:
    """RoBERTa with as many updates in all: n doubled again and again, reached in one step, or there from the beginning."""

    def at_once(scale: Scale, seed: int) -> Run:
        doublings = (n // scale.n).bit_length() - 1
        return Run(Model(n), seed, "grown-at-once", doublings * scale.grown, trunk(scale, scale.n, seed))

    def from_scratch(scale: Scale, seed: int) -> Run:
        return Run(Model(n), seed, "scratch", scale.base + at_once(scale, seed).updates)

    return {"roberta": lambda scale, seed: trunk(scale, n, seed), "at once": at_once, "from scratch": from_scratch}


EXPERIMENTS: Dict[str, Callable[[Scale], Models]] = {
    "figure-3a": lambda scale: _figure_3ab(scale.figure_3a),
    "figure-3b": lambda scale: _figure_3ab(scale.figure_3b),
    "figure-3c": lambda scale: _figure_3c(scale.figure_3a),
    "figure-3d": _figure_3d,
    "scratch": lambda scale: _scratch(scale.n),
    "warm-start": lambda scale: _warm_start(scale.n),
    "projections": lambda scale: _projections(scale.figure_3a),
    "starts": lambda scale: _starts(scale.figure_3a),
    "growing": lambda scale: _growing(scale.figure_3b),
}


def measured_runs(experiment: str, scale: Scale) -> Dict[str, List[Run]]:
    """The runs that the entry is made of, by name, a run a seed."""
    return {name: [run(scale, seed) for seed in scale.seeds] for name, run in EXPERIMENTS[experiment](scale).items()}


def in_turn(measured: Dict[str, List[Run]]) -> List[Run]:
    """They and all that they start from, each once, after its start; all of the first seed first."""
    found: Dict[Run, None] = {}

    def add(run: Run) -> None:
        if run.start is not None:
            add(run.start)
        found[run] = None

    for of_seed in zip(*measured.values()):
        for run in of_seed:
            add(run)
    return list(found)


def table_2(scale: Scale) -> Dict[str, Run]:
    """What Table 2 finetunes: a RoBERTa that grew, and the Linformers that it was converted to, with as many updates in all at the same n.

    E and F start as this project's do by default, which is another start where all layers share one. A Linformer of
    twice the n is converted from a RoBERTa that has grown to it, ``grown`` updates longer.
    """
    base, seed, last = None, scale.seeds[0], scale.table_2.last
    for n, updates in scale.table_2.stages:
        base = Run(Model(n), seed, "grown" if base else "scratch", updates, base)
    runs = {"roberta": Run(base.model, seed, "continued", last, base, decays=True)}
    for n, k, sharing in scale.table_2.linformers:
        start = base if n == base.model.n else Run(Model(n), seed, "grown", scale.grown, base)
        name = f"linformer-n{n}-k{k}-{sharing}" if "linformer" in runs else "linformer"
        runs[name] = Run(Model(n, k, sharing, start=None), seed, "converted", last, start, decays=True)
    return runs
