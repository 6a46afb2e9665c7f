"""A single training run: initial checkpoint, configuration and run folder.

    RUNS/SCALE/NAME/seedS/              a run folder of ``launching``
    RUNS/SCALE/NAME/seedS/.origin.json  its inputs: plans of the run and its predecessors, text, initial checkpoint
    RUNS/SCALE/starts/NAME/seedS.pt     its initial checkpoint, if it was grown or converted

For each seed, compared runs have the same data, masks, updates and schedule, and start from the same RoBERTa: trained
from scratch at the n of the scale, grown by doubling to the n of the experiment, then converted to a Linformer or, as
RoBERTa, trained further. If lengths are compared, the RoBERTas of shorter n are first trained for as many updates as
the longest one takes to grow.
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
from ..config import INITS_WITH_WINDOWS, PROJECTION_INITS, LinformerConfig
from ..files import atomic, read_json
from ..launching import local, run_folder
from ..launching.checkpoints import LAST
from ..launching.training_job import PATH_OPTIONS, TrainingJob, quote
from ..models.shapes import PADDING_IDX
from ..modules.rate import default_lr_scale
from ..resources import CONFIGS
from .scales import VALID_BATCHES, Scale
from .text import checksums, digest, find_shards

CONFIG = CONFIGS / "pretrain" / "base.yaml"
LOG, ORIGIN = "reproduce.txt", ".origin.json"
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
        start: the run whose last checkpoint it starts from; None to train from scratch.
        decays: whether the learning rate decays to zero; otherwise it is constant.
    """

    model: Model
    seed: int
    made: str
    updates: int
    start: "Run | None" = None
    decays: bool = False

    @property
    def name(self) -> str:
        """Path of its folder, relative to the folder of runs."""
        return f"{self.model.name}-{self.made}/seed{self.seed}"

    @property
    def history(self) -> list["Run"]:
        """This run and its predecessors, the earliest first."""
        return [*(self.start.history if self.start else []), self]

    def plan(self) -> dict[str, Any]:
        """How the model is trained, without the seed."""
        plan = {
            "model": self.model.describe(),
            "made": self.made,
            "updates": self.updates,
            "rate": "to zero" if self.decays else "constant",
        }
        return {**plan, "from": self.start.plan()} if self.start else plan


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
    return replace(run, made="waiting", updates=doublings * scale.grown, start=run) if doublings else run


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
    def last_checkpoint(self) -> Path:
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
        """The checkpoint that it starts from, which may not exist yet; None if it starts from scratch."""
        origin = self.origin_run
        if origin is None:
            return None
        if self.run.model == origin.run.model:
            return origin.last_checkpoint
        return self.runs / "starts" / f"{self.run.name}.pt"

    def training(self) -> TrainingJob:
        """Its configuration."""
        run, scale = self.run, self.scale
        data = ":".join(str(path.resolve()) for path in find_shards(self.text))
        warmup = scale.warmup if run.start is None else min(scale.warmup, run.updates // 10)
        overrides = (
            f"common.seed={run.seed}",
            f"common.log_interval={min(100, scale.validate)}",
            "common.fp16=false",
            f"common.bf16={str(scale.precision == 'bf16').lower()}",
            f"task.data={quote(data)}",
            f"task.tokens_per_sample={run.model.n}",
            f"checkpoint.finetune_from_model={'null' if self.start is None else quote(str(self.start))}",
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
        return TrainingJob(str(CONFIG), overrides, 1, scale.device, str(self.runs), run.name)

    def _model_options(self) -> list[str]:
        model, scale = self.run.model, self.scale
        options: dict[str, Any] = {
            "encoder_layers": scale.layers,
            "encoder_embed_dim": scale.width,
            "encoder_ffn_embed_dim": 4 * scale.width,
            "encoder_attention_heads": scale.heads,
            "encoder_normalize_before": "true",
            "dropout": 0.0,
            "attention_dropout": 0.0,
        }
        if model.k is None:
            options |= {"_name": "roberta", "projected_dim": "null", "sharing": "null"}
        else:
            options |= {"_name": "linformer_roberta", "projected_dim": model.k, "sharing": model.sharing}
            options |= {"projection": model.projection}
            options |= {} if model.start is None else {"projection_init": model.start}
            options |= {} if model.rate is None else {"projection_lr_scale": model.rate}
            options |= {"local_window": model.local_window} if model.local_window else {}
            options |= {"window_sizes": model.window_sizes} if model.window_sizes else {}
        return [f"++model.{key}={value}" for key, value in options.items()]

    def make_start(self) -> None:
        """Write ``start`` by growing or converting the origin's last checkpoint, unless both ``start`` and a checkpoint
        of the run exist."""
        run, origin, start = self.run, self.origin_run, self.start
        if origin is None or start is None or run.model == origin.run.model:
            return
        if start.exists() and self.last_checkpoint.exists():
            return
        last = read_checkpoint(origin.last_checkpoint)
        new = resize(last, run.model.n) if run.made.startswith("grown") else convert(last, run.model, run.seed)
        start.parent.mkdir(parents=True, exist_ok=True)
        start.unlink(missing_ok=True)  # left by a run that was moved away, or stopped before its first checkpoint
        write_checkpoint(new, start)

    def origin(self) -> dict[str, Any]:
        """Its inputs besides the configuration: plan, and checksums of the text and of the initial checkpoint."""
        start = None if self.origin_run is None else digest(self.origin_run.last_checkpoint)
        return json.loads(json.dumps({"plan": self.run.plan(), "text": checksums(self.text), "start": start}))

    def check(self) -> None:
        """Check the folder before anything is trained.

        Raises:
            ValueError: it has a different configuration or inputs.
        """
        if self.start is None or self.start.exists():
            self._check_configuration()
        self.check_origin()

    def _check_configuration(self) -> None:
        # The inputs of a finished run may have moved: its origin has the checksums of the text and of the checkpoint.
        advice = "move it away" + ", restore its inputs" * (not self.is_done) + ", or use another --runs"
        run_folder.is_new(self.training(), PATH_OPTIONS if self.is_done else (), advice)

    def check_origin(self) -> None:
        """
        Raises:
            ValueError: the run was started with different inputs.
        """
        if not self._is_configured:
            return
        try:
            stored = read_json(self.path / ORIGIN)
            stored["plan"], stored["text"], stored["start"]
            stored["plan"] = fill_defaults(stored["plan"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{self.path / ORIGIN}, which has the inputs of the run, is missing or damaged; "
                f"move {self.path} away and rerun the command to train it again"
            ) from None
        if (origin := self.origin_run) is not None and not origin.is_done:
            raise ValueError(
                f"{self.path} was started, but its predecessor {origin.path} is not finished; "
                f"move {self.path} away and rerun the command to train it again"
            )
        for key, current in self.origin().items():
            if stored[key] != current:
                raise ValueError(f"{self.path} was trained with a different {key}; move it away, or use another --runs")

    def train(self, until: float | None) -> bool:
        """Train, or resume.

        Args:
            until: value of ``time.monotonic()`` at which to stop; None for no limit.

        Returns:
            Whether training is complete.

        Raises:
            ValueError: the folder has a different configuration, or training failed; the message names its log.
            KeyboardInterrupt: this process was stopped; the same call resumes.
        """
        self.make_start()
        self._check_configuration()
        if self.is_done:
            return True
        if not self._is_configured:
            # Replaces the origin of a run on another text that was stopped before its first update.
            with atomic(self.path / ORIGIN) as file:
                json.dump(self.origin(), file, indent=1)
        return local.train(self.training(), LOG, self.run.updates, until)
