"""The models of Table 2 at each scale: how they are pretrained, and on which tasks they are finetuned."""

from dataclasses import dataclass

from ..task_data.tasks import TASKS, Task
from .runs import Model, Run
from .scales import Scale

FROM_SCRATCH = ("linformer", "roberta")
"""Models that are also finetuned from scratch."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of one pretrained RoBERTa, of the Linformers converted from it, and of their finetuning.

    Attributes:
        stages: (n, updates), from scratch and then growing; the last n is RoBERTa's.
        last: updates of each model after the stages, with the learning rate decaying to zero.
        lr: of pretraining.
        linformers: (n, k, sharing); n is RoBERTa's or twice it. The first one and RoBERTa are also finetuned from
            scratch.
        rate, batch_size, epochs: of finetuning; epochs by task.
    """

    stages: tuple[tuple[int, int], ...]
    last: int
    lr: float
    linformers: tuple[tuple[int, int, str], ...]
    rate: float
    batch_size: int
    epochs: dict[str, int]


def _linformers(n: int, ks: tuple[int, int], longer_k: int) -> tuple[tuple[int, int, str], ...]:
    """The paper's models: two k with each sharing, and one model of twice the n."""
    return (
        *((n, k, sharing) for k in ks for sharing in ("headwise", "key-value", "layerwise")),
        (2 * n, longer_k, "headwise"),
    )


SIZES: dict[str, Sizes] = {
    "smoke": Sizes(
        ((8, 3), (16, 3)), 4, 1e-3, ((16, 8, "headwise"),), 1e-3, 8, {"sst-2": 1, "imdb": 1, "qnli": 1, "qqp": 1}
    ),
    "cpu": Sizes(
        ((16, 2000), (32, 400), (64, 4000), (128, 5000)),
        1500,
        2e-3,
        _linformers(128, (64, 32), 64),
        5e-4,
        32,
        {"sst-2": 1, "imdb": 1, "qnli": 1, "qqp": 2},
    ),
    "gpu": Sizes(
        ((128, 20000), (256, 1000), (512, 4000)),
        2000,
        1e-3,
        _linformers(512, (256, 128), 256),
        2e-5,
        32,
        {"sst-2": 3, "imdb": 3, "qnli": 3, "qqp": 3},
    ),
}


@dataclass(frozen=True)
class Member:
    """A model that is finetuned on a task, with each seed."""

    task: Task
    model: str
    from_scratch: bool

    @property
    def name(self) -> str:
        return f"{self.task.name}-{self.model}" + "-from-scratch" * self.from_scratch


def pretrainings(scale: Scale, sizes: Sizes) -> dict[str, Run]:
    """The pretrained models by name. Those of one n have the same number of updates; E and F have the default
    initialization.

    Pretraining has one seed; the seeds of a record are of finetuning.
    """
    seed, (n, updates), *growth = scale.seeds[0], *sizes.stages
    base = Run(Model(n), seed, "scratch", updates)
    for n, updates in growth:
        base = Run(Model(n), seed, "grown", updates, base)
    runs = {"roberta": Run(base.model, seed, "continued", sizes.last, base, decays=True)}
    for n, k, sharing in sizes.linformers:
        start = base if n == base.model.n else Run(Model(n), seed, "grown", scale.grown, base)
        name = f"linformer-n{n}-k{k}-{sharing}" if "linformer" in runs else "linformer"
        runs[name] = Run(Model(n, k, sharing, start=None), seed, "converted", sizes.last, start, decays=True)
    return runs


def members(scale: Scale, sizes: Sizes) -> list[Member]:
    """All finetunings; those of the two models that are also finetuned from scratch come first."""
    tasks = [TASKS[name] for name in sizes.epochs]
    both = [
        Member(task, model, from_scratch) for model in FROM_SCRATCH for task in tasks for from_scratch in (False, True)
    ]
    others = [model for model in pretrainings(scale, sizes) if model not in FROM_SCRATCH]
    return both + [Member(task, model, False) for model in others for task in tasks]
