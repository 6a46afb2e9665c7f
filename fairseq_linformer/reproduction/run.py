"""Pretraining runs: a model, its origin, and its training through fairseq, cached by folder.

Compared runs of a seed share data, masks, updates and schedule. They also share a RoBERTa, which is trained from
scratch at the scale's n and grown by doubling to the n of the comparison. Each run then converts it to a Linformer, or
trains it further. If lengths are compared, the RoBERTas of shorter n are first trained for as many updates as the
longest one takes to grow.

RUNS/NAME/                  a run folder (``training/run_folder.py``); a finished run is not trained again
RUNS/NAME-start.pt          its initial checkpoint, if it was grown or converted
RUNS/NAME/perplexity.json   of the last checkpoint
RUNS/text.json              the text of all these runs, with checksums
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.files import read_checkpoint, training_seconds, write_checkpoint
from ..checkpoints.identify import LAST
from ..checkpoints.to_linformer import resize, to_linformer
from ..config import PROJECTION_INITS
from ..evaluation.perplexity import compute_perplexity
from ..fairseq_log import read_split
from ..files import read_json, write_json
from ..resources import CONFIGS
from ..training import local, run_folder
from ..training.job import PATH_OPTIONS, TrainingJob, quote
from .result import Inputs, environment
from .scales import VALID_BATCHES, Scale
from .text import claim_runs, describe_text, find_shards

CONFIG = CONFIGS / "pretrain" / "base.yaml"
START, PERPLEXITY = "-start.pt", "perplexity.json"
WORKERS = 4
"""Processes that mask the text for a run on a GPU. On an AMD EPYC core one masks 0.1 (n = 32) to 1.1 (n = 512) million
tokens per second."""
STAGGERED, GRADED = "staggered", "graded"


@dataclass(frozen=True)
class Model:
    """A Transformer if k is None, else a Linformer.

    Attributes:
        start: ``--projection-init`` of E and F; None for ``default_start``.
        rate: learning rate of E and F relative to the other parameters'; None for the model's default.
        local_window: positions on each side that are attended to exactly.
    """

    n: int
    k: int | None = None
    sharing: str = "headwise"
    projection: str = "linear"
    start: str | None = None
    rate: float | None = None
    local_window: int = 0

    @property
    def name(self) -> str:
        """Of its folders."""
        if self.k is None:
            return f"roberta-n{self.n}"
        kind = self.projection if self.projection != "linear" else self.start or "default"
        rate = f"-rate{self.rate:g}" if self.rate else ""
        local = f"-local{self.local_window}" if self.local_window else ""
        return f"linformer-n{self.n}-k{self.k}-{self.sharing}-{kind}{rate}{local}"

    @property
    def label(self) -> str:
        """As in rows and tables of models made from an encoder, where graded windows are the default.

        >>> Model(512, start=GRADED).label, Model(512, 128, start=STAGGERED, local_window=16).label
        ('Transformer', 'k = 128, W = 16, headwise, staggered')
        """
        window = f", W = {self.local_window}" if self.local_window else ""
        start = f", {self.start}" if self.start != GRADED else ""
        return "Transformer" if self.k is None else f"k = {self.k}{window}, {self.sharing}{start}"

    @property
    def default_start(self) -> str | None:
        """What ``linformer_roberta`` starts from by default; a conversion has another default. None if nothing is
        learned."""
        if self.projection not in PROJECTION_INITS:
            return None
        return STAGGERED if self.projection == "linear" and self.sharing != "layerwise" else "average"

    @property
    def options(self) -> dict[str, Any]:
        """Of a Linformer, as for ``to_linformer``."""
        values = {
            "max_positions": self.n,
            "projected_dim": self.k,
            "sharing": self.sharing,
            "projection": self.projection,
            "projection_init": self.start or self.default_start,
            "projection_lr_scale": self.rate,
            "local_window": self.local_window,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def overrides(self) -> list[str]:
        """Of the architecture."""
        if self.k is None:
            return ["++model._name=roberta", "++model.projected_dim=null", "++model.sharing=null"]
        return ["++model._name=linformer_roberta", *(f"++model.{name}={value}" for name, value in self.options.items())]


def as_authors(model: Model) -> Model:
    """The model with E and F as in the authors' code: from N(0, 0.02), at the learning rate of the other weights."""
    return replace(model, start="normal", rate=1.0)


def convert(checkpoint: dict[str, Any], model: Model, seed: int = 1) -> dict[str, Any]:
    """A RoBERTa converted to a Linformer; the seed is of random initializations."""
    torch.manual_seed(seed)
    return to_linformer(checkpoint, **model.options)


@dataclass(frozen=True)
class Run:
    """
    Attributes:
        origin: how its initial model is made, in a word such as "grown"; part of its name.
        parent: the run whose last checkpoint it starts from, as it is, grown or converted; None to train from scratch.
        decays: whether the learning rate decays to zero; otherwise it is constant.
    """

    model: Model
    seed: int
    origin: str
    updates: int
    parent: "Run | None" = None
    decays: bool = False

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.model.name}-{self.origin}/seed{self.seed}"

    @property
    def history(self) -> list["Run"]:
        """The runs that it starts from, the earliest first, and itself."""
        return [*(self.parent.history if self.parent else []), self]


def trunk(scale: Scale, n: int, seed: int, longest: int | None = None) -> Run:
    """The RoBERTa that a comparison at n starts from.

    Args:
        longest: train for as many updates as the RoBERTa of this n.
    """
    run = Run(Model(scale.n), seed, "scratch", scale.base)
    while run.model.n < n:
        run = Run(Model(2 * run.model.n), seed, "grown", scale.grown, run)
    doublings = (longest // n).bit_length() - 1 if longest else 0
    return Run(run.model, seed, "waiting", doublings * scale.grown, run) if doublings else run


def compared_run(model: Model, scale: Scale, seed: int, longest: int | None = None) -> Run:
    """A model trained from the trunk at its n, with the learning rate decaying to zero."""
    origin = ("continued" if model.k is None else "converted") + f"-as-n{longest}" * bool(longest)
    return Run(model, seed, origin, scale.compared, trunk(scale, model.n, seed, longest), decays=True)


def compared_runs(models: Mapping[str, Model], scale: Scale, seed: int, longest: int | None = None) -> dict[str, Run]:
    """``compared_run`` of models by label."""
    return {label: compared_run(model, scale, seed, longest) for label, model in models.items()}


@dataclass(frozen=True)
class Trained:
    """A finished run in its folder.

    Attributes:
        initial_checkpoint: None of a run from scratch.
    """

    folder: Path
    model: Model
    initial_checkpoint: Path | None = None

    @property
    def checkpoint(self) -> Path:
        """The last one."""
        return self.folder / run_folder.CHECKPOINTS / LAST

    @property
    def seconds(self) -> float:
        return training_seconds(self.checkpoint, self.initial_checkpoint)

    def perplexity(self, text: Path) -> dict[str, float]:
        """``perplexity`` and ``bits`` of the last checkpoint on the validation split, with the masks of one seed;
        measured once."""
        path = self.folder / PERPLEXITY
        if not path.exists():
            device = "cuda" if torch.cuda.is_available() else "cpu"
            found = compute_perplexity(self.checkpoint, find_shards(text)[0], device=device)
            write_json(path, found)
        scores: dict[str, float] = read_json(path)
        return scores

    def curve(self) -> list[tuple[int, float]]:
        """(update, bits per predicted token) on a part of the validation split, from fairseq's log of each attempt."""
        logs = sorted((self.folder / run_folder.LOGS).rglob("*.txt"), key=lambda path: path.stat().st_mtime)
        lines = (line for path in logs for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
        # A restart can log an update again.
        bits = {int(each["valid_num_updates"]): round(each["valid_loss"], 4) for each in read_split(lines, "valid")}
        return sorted(bits.items())


def training_environment(runs: Iterable[Trained], inputs: Inputs) -> dict[str, Any]:
    """The environment of a result that rests on runs that were trained on ``inputs.text``."""
    runs = list(runs)
    provenance = run_folder.training_provenance(*(run.folder for run in runs))
    return environment(
        inputs, describe_text(inputs.text), seconds=round(sum(run.seconds for run in runs), 1), **provenance
    )


def train_runs(runs: Sequence[Run], scale: Scale, folder: Path, text: Path) -> dict[Run, Trained]:
    """Train runs, and before each those that it starts from, unless they are finished; resumes after a kill.

    Args:
        folder: of all runs on this text.

    Returns:
        All of them, in this order.
    """
    folder = folder.absolute()
    claim_runs(folder, text)
    trained: dict[Run, Trained] = {}
    for run in dict.fromkeys(each for last in runs for each in last.history):
        start = write_start(run, trained[run.parent], folder) if run.parent else None
        job = build_job(run, start, scale, folder, text)
        # A complete run may have been moved together with what it was trained from.
        ignore = PATH_OPTIONS if (job.folder / run_folder.DONE).exists() else ()
        local.train(job, ignore)
        trained[run] = Trained(job.folder, run.model, start)
    return trained


def write_start(run: Run, parent: Trained, folder: Path) -> Path:
    """The initial checkpoint of a run, which is written unless it exists or is the parent's."""
    if parent.model == run.model:
        return parent.checkpoint
    path = folder / f"{run.name}{START}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        last = read_checkpoint(parent.checkpoint)
        made = resize(last, run.model.n) if run.model.k is None else convert(last, run.model, run.seed)
        write_checkpoint(made, path)
    return path


def build_job(run: Run, start: Path | None, scale: Scale, folder: Path, text: Path) -> TrainingJob:
    """The configuration of a run."""
    overrides = (
        *training_overrides(
            find_shards(text),
            run.model.n,
            run.seed,
            batch_size=scale.tokens // run.model.n,
            lr=scale.lr,
            updates=run.updates,
            warmup=min(scale.warmup, run.updates // 10) if start else scale.warmup,
            validate=scale.validate,
        ),
        f"common.bf16={str(scale.bf16).lower()}",
        f"checkpoint.finetune_from_model={quote(str(start)) if start else 'null'}",
        f"dataset.max_valid_steps={VALID_BATCHES}",
        f"dataset.num_workers={0 if scale.device == 'cpu' else WORKERS}",
        "dataset.data_buffer_size=0",
        f"lr_scheduler._name={'polynomial_decay' if run.decays else 'fixed'}",
        *run.model.overrides,
        f"++model.encoder_layers={scale.layers}",
        f"++model.encoder_embed_dim={scale.width}",
        f"++model.encoder_ffn_embed_dim={4 * scale.width}",
        f"++model.encoder_attention_heads={scale.heads}",
        "++model.encoder_normalize_before=true",
    )
    return TrainingJob(str(CONFIG), overrides, 1, scale.device, str(folder), run.name)


def training_overrides(
    shards: Sequence[Path], n: int, seed: int, batch_size: int, lr: float, updates: int, warmup: int, validate: int
) -> list[str]:
    """Overrides of ``CONFIG`` for a run on one device, without dropout.

    Args:
        batch_size: blocks of n tokens per update.
        validate: updates between two points of the curve, and between two checkpoints.
    """
    return [
        f"common.seed={seed}",
        "common.fp16=false",
        f"common.log_interval={min(100, validate)}",
        f"task.data={quote(':'.join(str(path.resolve()) for path in shards))}",
        f"task.tokens_per_sample={n}",
        f"checkpoint.save_interval_updates={validate}",
        f"dataset.batch_size={batch_size}",
        f"dataset.batch_size_valid={2 * batch_size}",
        "dataset.required_batch_size_multiple=1",
        f"lr_scheduler.warmup_updates={warmup}",
        f"optimization.lr=[{lr!r}]",
        f"optimization.max_update={updates}",
        "optimization.update_freq=[1]",
        "optimization.clip_norm=1.0",
        "++model.dropout=0.0",
        "++model.attention_dropout=0.0",
    ]
