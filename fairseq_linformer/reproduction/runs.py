"""Training runs: their models, initial checkpoints and predecessors. ``run_folders.py`` trains them.

Compared runs of a seed share data, masks, updates and schedule. They also share a RoBERTa, which is trained from
scratch at the scale's n and grown by doubling to the n of the experiment. Each run then converts it to a Linformer, or
trains it further. If lengths are compared, the RoBERTas of shorter n are first trained for as many updates as the
longest one takes to grow.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from ..checkpoints.roberta import from_roberta
from ..config import INITS_WITH_WINDOWS, PROJECTION_INITS, LinformerConfig
from ..models.shapes import PADDING_IDX
from ..modules.rate import default_lr_scale
from ..resources import CONFIGS
from .scales import Scale

CONFIG = CONFIGS / "pretrain" / "base.yaml"
WINDOWS = "first position separate, sizes counted"
"""Windows of a new model."""
AUTHORS = ", authors' start"
"""Suffix of the label of a model from ``as_authors``."""


@dataclass(frozen=True)
class Model:
    """A RoBERTa if k is None.

    Attributes:
        start: ``--projection-init`` of E and F; None for the model's default.
        rate: learning rate of E and F relative to the other parameters'; None for the model's default.
        local_window: positions on each side that are attended to exactly.
        window_sizes: ``--window-sizes``; None for the model's default.
    """

    n: int
    k: int | None = None
    sharing: str = "headwise"
    projection: str = "linear"
    start: str | None = None
    rate: float | None = None
    local_window: int = 0
    window_sizes: str | None = None

    def describe(self) -> dict[str, Any]:
        """The model for a record, with resolved defaults of initialization, rate and windows, so that a changed default
        is a different plan."""
        if self.k is None:
            return {"n": self.n}
        described = asdict(self)
        config = LinformerConfig(
            vocab_size=PADDING_IDX + 1,
            max_positions=self.n,
            projected_dim=self.k,
            sharing=self.sharing,
            projection=self.projection,
            projection_init=self.start,
        )
        sizes = described.pop("window_sizes") or "counted"
        described["windows"] = WINDOWS.replace("counted", sizes) if config.has_windows else None
        if self.projection in PROJECTION_INITS:
            fan_in = -(-self.n // self.k) if self.projection == "conv" else self.n
            described["start"] = config.resolved_init
            described["rate"] = default_lr_scale(fan_in) if self.rate is None else self.rate
        return described

    @property
    def name(self) -> str:
        if self.k is None:
            return f"roberta-n{self.n}"
        kind = self.projection if self.projection != "linear" else self.start or "default"
        rate = f"-rate{self.rate:g}" if self.rate else ""
        local = f"-local{self.local_window}" if self.local_window else ""
        sizes = f"-sizes-{self.window_sizes}" if self.window_sizes else ""
        return f"linformer-n{self.n}-k{self.k}-{self.sharing}-{kind}{rate}{local}{sizes}"


def as_authors(model: Model) -> Model:
    """The model with E and F as in the authors' code: from N(0, 0.02), at the learning rate of the other weights."""
    return replace(model, start="normal", rate=1.0)


def default_start(sharing: str = "headwise", projection: str = "linear") -> str:
    """The default initialization of E and F."""
    start: str = Model(2, 1, sharing, projection).describe()["start"]
    return start


def convert(checkpoint: dict[str, Any], model: Model, seed: int) -> dict[str, Any]:
    """A RoBERTa converted to a Linformer of the same n."""
    torch.manual_seed(seed)  # for random initializations
    return from_roberta(
        checkpoint,
        projected_dim=str(model.k),
        sharing=model.sharing,
        projection=model.projection,
        projection_init=model.start or default_start(model.sharing, model.projection),
        local_window=model.local_window,
        window_sizes=model.window_sizes,
    )


def fill_defaults(run: Mapping[str, Any]) -> dict[str, Any]:
    """Add initialization, rate and windows of E and F to a stored plan. Until 2026-11-23 records had None for defaults,
    or omitted them; these were the defaults."""
    filled, model = dict(run), dict(run.get("model", {}))
    if "k" in model:
        has_windows = model["projection"] != "random" and (
            model["projection"] != "linear" or model["start"] in (None, *INITS_WITH_WINDOWS)
        )
        model = {"local_window": 0, "windows": "regular" if has_windows else None, **model}
        filled["model"] = model
    if model.get("projection") in ("linear", "conv"):
        is_linear, n = model["projection"] == "linear", model["n"]
        start = "staggered" if is_linear and model["sharing"] != "layerwise" else "average"
        model["start"] = model["start"] or start
        model["rate"] = model["rate"] or min(1.0, 16 / (n if is_linear else -(-n // model["k"])))
        filled["model"] = model
    if "from" in filled:
        filled["from"] = fill_defaults(filled["from"])
    return filled


@dataclass(frozen=True)
class Run:
    """A training run.

    Attributes:
        made: how its initial model is made: ``scratch``, ``grown``, ``grown-at-once``, ``converted``, ``continued``, or
            ``waiting`` while others grow; ``compared_run`` may append ``-as-nLONGEST``.
        predecessor: the run whose last checkpoint it starts from; None to train from scratch.
        decays: whether the learning rate decays to zero; otherwise it is constant.
    """

    model: Model
    seed: int
    made: str
    updates: int
    predecessor: "Run | None" = None
    decays: bool = False

    @property
    def name(self) -> str:
        """Path of its folder, relative to the folder of runs."""
        return f"{self.model.name}-{self.made}/seed{self.seed}"

    @property
    def history(self) -> list["Run"]:
        """This run and its predecessors, the earliest first."""
        return [*(self.predecessor.history if self.predecessor else []), self]

    def plan(self) -> dict[str, Any]:
        """How the model is trained, without the seed."""
        plan = {
            "model": self.model.describe(),
            "made": self.made,
            "updates": self.updates,
            "rate": "to zero" if self.decays else "constant",
        }
        return {**plan, "from": self.predecessor.plan()} if self.predecessor else plan


Models = Mapping[str, Callable[[Scale, int], Run]]
"""The compared models by label: (scale, seed) to a run."""


def trunk(scale: Scale, n: int, seed: int, longest: int | None = None) -> Run:
    """The RoBERTa that a comparison at n starts from.

    Args:
        longest: train for as many updates as the RoBERTa of this n.
    """
    run = Run(Model(scale.n), seed, "scratch", scale.base)
    while run.model.n < n:
        run = Run(Model(2 * run.model.n), seed, "grown", scale.grown, run)
    doublings = (longest // n).bit_length() - 1 if longest else 0
    return replace(run, made="waiting", updates=doublings * scale.grown, predecessor=run) if doublings else run


def compared_run(model: Model, longest: int | None = None) -> Callable[[Scale, int], Run]:
    """A model trained from the trunk at its n, with the learning rate decaying to zero."""
    made = ("continued" if model.k is None else "converted") + f"-as-n{longest}" * bool(longest)
    return lambda scale, seed: Run(model, seed, made, scale.compared, trunk(scale, model.n, seed, longest), decays=True)


def run_from_scratch(model: Model) -> Callable[[Scale, int], Run]:
    return lambda scale, seed: Run(model, seed, "scratch", scale.base)


def in_training_order(runs_by_model: Mapping[str, Sequence[Run]]) -> list[Run]:
    """All runs and their predecessors, each once and after its predecessor, the first seed of every model first."""
    return list(
        dict.fromkeys(each for seed_runs in zip(*runs_by_model.values()) for run in seed_runs for each in run.history)
    )
