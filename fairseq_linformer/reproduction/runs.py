"""A training of a plan: what it starts from, its configuration, its run folder.

    RUNS/SCALE/NAME/seedS/              a run folder of ``launching``
    RUNS/SCALE/NAME/seedS/.origin.json  what it was made of: its plan and that of all it starts from, the text, the checkpoint
    RUNS/SCALE/starts/NAME/seedS.pt     its first checkpoint, where that had to be grown or converted

Compared runs have, for each seed, the same data, masks, updates and schedule, and start from the same RoBERTa: trained at the
n of the scale from scratch, grown by doubling to the n of the experiment, then converted to a Linformer or, as RoBERTa,
trained further. Where lengths are compared, the RoBERTa of a shorter one first trains as long as the longest takes to grow.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.files import read_checkpoint, write_checkpoint
from ..checkpoints.resize import resize
from ..checkpoints.roberta import from_roberta
from ..files import atomic, read_json
from ..launching import local, run_folder
from ..launching.checkpoints import LAST
from ..launching.training import PATH_OPTIONS, Training, quoted
from .scales import VALID_BATCHES, Scale
from .text import digest, shards_of, sums

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "pretrain" / "base.yaml"
LOG, ORIGIN = "reproduce.txt", ".origin.json"


@dataclass(frozen=True)
class Model:
    """A RoBERTa if k is None.

    Attributes:
        start: of E and F, as ``--projection-init``; None for the project's default.
        rate: learning rate of E and F relative to the others'; None for the default.
    """

    n: int
    k: int | None = None
    sharing: str = "headwise"
    projection: str = "linear"
    start: str | None = "average"
    rate: float | None = None

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
        made: how it comes from its start: ``scratch``, ``grown``, ``grown-at-once``, ``converted``, ``continued``, or
            ``waiting`` while others grow; ``compared`` may append ``-as-nLONGEST``.
        start: the run whose last checkpoint it starts from; None from scratch.
        decays: the learning rate decays to zero; else it is constant.
    """

    model: Model
    seed: int
    made: str
    updates: int
    start: "Run | None" = None
    decays: bool = False

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.model.name}-{self.made}/seed{self.seed}"

    @property
    def history(self) -> list["Run"]:
        """The chain of runs that ends with this one, earliest first."""
        return [*(self.start.history if self.start else []), self]

    def described(self) -> dict[str, Any]:
        """How the model comes about, whatever the seed."""
        model = asdict(self.model) if self.model.k else {"n": self.model.n}
        plan = {"model": model, "made": self.made, "updates": self.updates, "rate": "to zero" if self.decays else "constant"}
        return {**plan, "from": self.start.described()} if self.start else plan


Models = Mapping[str, Callable[[Scale, int], Run]]
"""The compared models by label: (scale, seed) to a run."""


def trunk(scale: Scale, n: int, seed: int, longest: int | None = None) -> Run:
    """The RoBERTa that a comparison at n starts from.

    Args:
        longest: n of another one that it must have as many updates as.
    """
    run = Run(Model(scale.n), seed, "scratch", scale.base)
    while run.model.n < n:
        run = Run(Model(2 * run.model.n), seed, "grown", scale.grown, run)
    doublings = (longest // n).bit_length() - 1 if longest else 0
    return replace(run, made="waiting", updates=doublings * scale.grown, start=run) if doublings else run


def compared(model: Model, longest: int | None = None) -> Callable[[Scale, int], Run]:
    """A model trained from the trunk at its n, with the learning rate decaying to zero."""
    made = ("continued" if model.k is None else "converted") + f"-as-n{longest}" * bool(longest)
    return lambda scale, seed: Run(model, seed, made, scale.compared, trunk(scale, model.n, seed, longest), decays=True)


def from_scratch(model: Model) -> Callable[[Scale, int], Run]:
    return lambda scale, seed: Run(model, seed, "scratch", scale.base)


def in_training_order(runs_by_model: Mapping[str, Sequence[Run]]) -> list[Run]:
    """All runs and what they start from, each once, after its start; the first seed of every model first."""
    return list(dict.fromkeys(each for of_seed in zip(*runs_by_model.values()) for run in of_seed for each in run.history))


class RunFolder:
    """A run in its folder.

    Args:
        runs: folder of the runs of a scale.
        text: folder written by ``prepare pretraining``.
    """

    def __init__(self, run: Run, scale: Scale, runs: Path, text):
        self.run, self.scale, self.runs, self.text = run, scale, Path(runs).absolute(), text

    @property
    def path(self) -> Path:
        return self.runs / self.run.name

    @property
    def last(self) -> Path:
        """Its last checkpoint."""
        return self.path / run_folder.CHECKPOINTS / LAST

    @property
    def is_done(self) -> bool:
        return (self.path / run_folder.DONE).exists()

    @property
    def _is_configured(self) -> bool:
        return (self.path / run_folder.CONFIG).exists()

    @property
    def origin_run(self) -> "RunFolder | None":
        return None if self.run.start is None else RunFolder(self.run.start, self.scale, self.runs, self.text)

    @property
    def start(self) -> Path | None:
        """The checkpoint that it starts from, which need not exist yet."""
        if self.run.start is None:
            return None
        if self.run.model == self.run.start.model:
            return self.origin_run.last
        return self.runs / "starts" / f"{self.run.name}.pt"

    def training(self) -> Training:
        """Its configuration."""
        run, scale = self.run, self.scale
        data = ":".join(str(path.resolve()) for path in shards_of(self.text))
        warmup = scale.warmup if run.start is None else min(scale.warmup, run.updates // 10)
        overrides = (
            f"common.user_dir={quoted(str(CONFIG.parents[2] / 'fairseq_linformer'))}",
            f"common.seed={run.seed}",
            f"common.log_interval={min(100, scale.validate)}",
            "common.fp16=false",
            f"common.bf16={str(scale.precision == 'bf16').lower()}",
            f"task.data={quoted(data)}",
            f"task.tokens_per_sample={run.model.n}",
            f"checkpoint.finetune_from_model={'null' if self.start is None else quoted(str(self.start))}",
            f"checkpoint.save_interval_updates={scale.validate}",
            f"dataset.batch_size={scale.tokens // run.model.n}",
            f"dataset.batch_size_valid={2 * scale.tokens // run.model.n}",
            f"dataset.max_valid_steps={VALID_BATCHES}",
            "dataset.required_batch_size_multiple=1",
            "dataset.num_workers=0",
            "dataset.data_buffer_size=0",
            f"lr_scheduler._name={'polynomial_decay' if run.decays else 'fixed'}",
            f"lr_scheduler.warmup_updates={warmup}",
            f"optimization.lr=[{scale.lr!r}]",
            f"optimization.max_update={run.updates}",
            "optimization.update_freq=[1]",
            "optimization.clip_norm=1.0",
            *self._model_options(),
        )
        return Training(str(CONFIG), overrides, 1, scale.device, str(self.runs), run.name)

    def _model_options(self) -> list[str]:
        model, scale = self.run.model, self.scale
        options: dict[str, Any] = {
            "encoder_layers": scale.layers, "encoder_embed_dim": scale.width, "encoder_ffn_embed_dim": 4 * scale.width,
            "encoder_attention_heads": scale.heads, "encoder_normalize_before": "true", "dropout": 0.0,
            "attention_dropout": 0.0,
        }  # fmt: skip
        if model.k is None:
            options |= {"_name": "roberta", "projected_dim": "null", "sharing": "null"}
        else:
            options |= {"_name": "linformer_roberta", "projected_dim": model.k, "sharing": model.sharing}
            options |= {"projection": model.projection}
            options |= {} if model.start is None else {"projection_init": model.start}
            options |= {} if model.rate is None else {"projection_lr_scale": model.rate}
        return [f"++model.{key}={value}" for key, value in options.items()]

    def make_start(self) -> None:
        """Write ``start`` by growing or converting the origin's last checkpoint, unless ``start`` and a checkpoint of the run both exist."""
        run = self.run
        if run.start is None or run.model == run.start.model or (self.start.exists() and self.last.exists()):
            return
        last = read_checkpoint(self.origin_run.last)
        if run.made.startswith("grown"):
            new = resize(last, run.model.n)
        else:
            torch.manual_seed(run.seed)  # for what starts at random
            m = run.model
            new = from_roberta(last, projected_dim=str(m.k), sharing=m.sharing, projection=m.projection, projection_init=m.start)
        self.start.parent.mkdir(parents=True, exist_ok=True)
        self.start.unlink(missing_ok=True)  # of a run that was moved away, or stopped before it began
        write_checkpoint(new, self.start)

    def origin(self) -> dict[str, Any]:
        """What it is made of, besides the configuration in its folder."""
        start = None if self.run.start is None else digest(self.origin_run.last)
        return json.loads(json.dumps({"plan": self.run.described(), "text": sums(self.text), "start": start}))

    def check(self) -> None:
        """Before anything is trained.

        Raises:
            ValueError: the folder holds another configuration, or a run made of something else.
        """
        if self.start is None or self.start.exists():
            self._check_configuration()
        self.check_origin()

    def _check_configuration(self) -> None:
        # What the run read may have moved since it was done: its origin has the checksums of the text and of the checkpoint.
        advice = "move it away" + ", put back what was moved" * (not self.is_done) + ", or give another --runs"
        run_folder.is_new(self.training(), PATH_OPTIONS if self.is_done else (), advice)

    def check_origin(self) -> None:
        """
        Raises:
            ValueError: the run has begun, and was made of something else.
        """
        if not self._is_configured:
            return
        try:
            there = read_json(self.path / ORIGIN)
            there["plan"], there["text"], there["start"]
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(f"{self.path / ORIGIN} does not say what the run was made of; "
                             f"move {self.path} away, and rerun the command to train it again") from None  # fmt: skip
        if self.run.start is not None and not self.origin_run.is_done:
            raise ValueError(f"{self.path} has begun, but {self.origin_run.path} that it starts from is not finished; "
                             f"move it away, and rerun the command to train it again")  # fmt: skip
        for key, here in self.origin().items():
            if there[key] != here:
                raise ValueError(f"{self.path} was made of another {key}; move it away, or give another --runs")

    def train(self, until: float | None) -> bool:
        """Train, or resume.

        Args:
            until: ``time.monotonic`` at which it is stopped.

        Returns:
            whether it is trained to its end.

        Raises:
            ValueError: the folder holds another configuration, or training failed, with the path of its log.
            KeyboardInterrupt: this process was stopped; the same call resumes.
        """
        self.make_start()
        self._check_configuration()
        if self.is_done:
            return True
        if not self._is_configured:  # an origin may lie there of a run that was stopped before it began, on another text
            with atomic(self.path / ORIGIN) as file:
                json.dump(self.origin(), file, indent=1)
        return local.train(self.training(), LOG, self.run.updates, self.run.name, until)
