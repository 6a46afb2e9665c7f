"""Pretraining runs: a model and its training through fairseq, cached by folder.

Runs of a seed share data, masks and batches. A run starts from scratch, with a constant learning rate after warmup, or
it branches off: it continues another run from an earlier update, with its optimizer and the next batches, while the
learning rate decays to zero.

RUNS/NAME/                  a run folder (``training/run_folder.py``); a finished run is not trained again
RUNS/NAME/perplexity.json   of the last checkpoint
RUNS/inputs.json            the text of all these runs, with checksums
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.files import training_seconds
from ..checkpoints.identify import LAST
from ..config import default_init
from ..evaluation.perplexity import compute_perplexity
from ..fairseq_log import read_split
from ..files import claim, read_json, write_json
from ..resources import CONFIGS
from ..training import local, run_folder
from ..training.job import PATH_OPTIONS, TrainingJob, quote
from .result import Inputs, Result, Row, describe_text, find_shards

PRETRAINING_YAML = CONFIGS / "pretrain" / "base.yaml"
PERPLEXITY = "perplexity.json"
WORKERS = 4
"""Processes that mask the text for a run on a GPU. On an AMD EPYC core one masks 0.1 (n = 32) to 1.1 (n = 512) million
tokens per second."""
STAGGERED, GRADED, AUTHORS, FIXED = "staggered", "graded", "normal", "fixed averages"
"""Starts of E and F; the last is the default start, which is not trained."""
CONTROL_K = 2
"""k of the control of Linformers made from an encoder: <s>, and one average of all other tokens, weighted in E."""
LEFT_OUT = (None, "headwise", STAGGERED)
"""Fields that a label does not name."""


# Sizes


VALID_BATCHES = 25
"""Batches of the validation split behind one point of a curve, each of twice the tokens of an update. The final
perplexity is that of the whole split."""


@dataclass(frozen=True)
class Sizes:
    """How models are pretrained at a scale. The same code runs at every scale; only these sizes differ.

    Equal at all of them: pre-norm, no dropout, RoBERTa's masking, Adam (0.9, 0.98) with weight decay 0.01, gradients
    clipped to norm 1. The learning rate is constant until a branch leaves, because a model whose learning rate decays
    over a short schedule never leaves the plateau of a model without context. It decays to zero before models are
    compared.

    Attributes:
        device: ``cpu`` or ``cuda``.
        layers, width, heads: of the encoder; its feed-forward layers are four times as wide.
        tokens: per update.
        lr, warmup: learning rate, and the updates in which it rises.
        validate: updates between two points of a curve, and between two checkpoints.
        seeds: of each model.
        budgets: updates after which models are compared, ascending.
        bf16: whether to train in bf16 instead of fp32.
    """

    device: str
    layers: int
    width: int
    heads: int
    tokens: int
    lr: float
    warmup: int
    validate: int
    seeds: tuple[int, ...]
    budgets: tuple[int, ...]
    bf16: bool = False


# Models and runs


@dataclass(frozen=True)
class Model:
    """A Transformer if k is None, else a Linformer.

    Attributes:
        sharing: as the option of this name.
        start: ``--projection-init`` of E and F, or ``FIXED``; None for ``default_start``. In ``options``, E and F of
            ``AUTHORS`` also have the learning rate of the other weights.
        local_window: positions on each side that are attended to exactly.
    """

    n: int
    k: int | None = None
    sharing: str = "headwise"
    start: str | None = None
    local_window: int = 0

    @classmethod
    def graded(cls, n: int, k: int, sharing: str = "headwise", local_window: int = 0) -> "Model":
        """A Linformer made from an encoder: graded windows are the default of conversions."""
        return cls(n, k, sharing, start=GRADED, local_window=local_window)

    @property
    def name(self) -> str:
        """The name of its folders."""
        if self.k is None:
            return f"roberta-n{self.n}"
        local = f"-local{self.local_window}" if self.local_window else ""
        start = (self.start or "default").replace(" ", "-")
        return f"linformer-n{self.n}-k{self.k}-{self.sharing}-{start}{local}"

    @property
    def label(self) -> str:
        """In words, for display."""
        return label(self.fields)

    @property
    def default_start(self) -> str:
        """What ``linformer_roberta`` starts from by default; a conversion has another default."""
        return str(default_init("linear", self.sharing))

    @property
    def fields(self) -> dict[str, Any]:
        """What rows have, and are selected by; all None but n for a Transformer."""
        names = ("k", "sharing", "W", "start")
        values = (self.k, self.sharing, self.local_window, self.start or self.default_start)
        return {"n": self.n, **dict(zip(names, values if self.k is not None else [None] * len(names)))}

    @property
    def options(self) -> dict[str, Any]:
        """The options of a Linformer, as for ``to_linformer``."""
        values = {
            "max_positions": self.n,
            "projected_dim": self.k,
            "sharing": self.sharing,
            "projection_init": self.default_start if self.start in (None, FIXED) else self.start,
            "projection_lr_scale": 1.0 if self.start == AUTHORS else None,
            "freeze_projections": self.start == FIXED or None,
            "local_window": self.local_window,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def overrides(self) -> list[str]:
        """Overrides of the architecture."""
        if self.k is None:
            return ["++model._name=roberta", "++model.projected_dim=null", "++model.sharing=null"]
        return ["++model._name=linformer_roberta", *(f"++model.{name}={value}" for name, value in self.options.items())]


def label(fields: Mapping[str, Any]) -> str:
    """A model in words, for display, by the fields of a row or a model, without defaults of ``linformer_roberta``.

    >>> Model(64).label, Model(64, 16).label
    ('n=64, RoBERTa', 'n=64, k=16')
    >>> Model(64, 16, "layerwise", start="average", local_window=4).label
    'n=64, k=16, layerwise, average, W=4'
    """
    k, window = fields.get("k"), fields.get("W")
    words = [f"n={fields['n']}", f"k={k}" if k else "RoBERTa"]
    words += [fields[name] for name in ("sharing", "start") if fields.get(name) not in LEFT_OUT]
    return ", ".join([*words, f"W={window}"] if window else words)


@dataclass(frozen=True)
class Run:
    """The training of a model, once, with a seed: from scratch, or as a branch.

    Attributes:
        updates: in all; those of a branch include the ``branches_at`` of its parent.
        parent: the run that a branch continues; None from scratch.
        branches_at: the update of its parent that it continues from; 0 from scratch.
        keep_every: keep the checkpoint of each multiple of so many updates, for branches; 0 to keep only the last.
    """

    model: Model
    seed: int
    updates: int
    parent: "Run | None" = None
    branches_at: int = 0
    keep_every: int = 0

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.model.name}-{f'budget{self.updates}' if self.parent else 'stable'}/seed{self.seed}"


@dataclass(frozen=True)
class Trained:
    """A finished run in its folder.

    Attributes:
        initial_checkpoint: that of a branch; None otherwise.
    """

    folder: Path
    initial_checkpoint: Path | None = None

    @property
    def checkpoint(self) -> Path:
        """The last one."""
        return self.folder / run_folder.CHECKPOINTS / LAST

    @property
    def seconds(self) -> float:
        return training_seconds(self.checkpoint, self.initial_checkpoint)

    def bits(self, text: Path) -> float:
        """Bits per predicted token of the last checkpoint on the validation split, with the masks of one seed; measured
        once."""
        path = self.folder / PERPLEXITY
        if not path.exists():
            device = "cuda" if torch.cuda.is_available() else "cpu"
            found = compute_perplexity(self.checkpoint, find_shards(text)[0], device=device)
            write_json(path, found)
        return float(read_json(path)["bits"])

    def curve(self) -> list[tuple[int, float]]:
        """(update, bits per predicted token) on a part of the validation split, from fairseq's log of each attempt."""
        logs = sorted((self.folder / run_folder.LOGS).rglob("*.txt"), key=lambda path: path.stat().st_mtime)
        lines = (line for path in logs for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
        # A restart can log an update again.
        bits = {int(each["valid_num_updates"]): round(each["valid_loss"], 4) for each in read_split(lines, "valid")}
        return sorted(bits.items())


def trained_result(
    rows: Iterable[Row], runs: Iterable[Trained], inputs: Inputs, configuration: Mapping[str, Any] | None = None
) -> Result:
    """A result that rests on runs that were trained on ``inputs.data``."""
    runs = list(runs)
    provenance = run_folder.training_provenance(*(run.folder for run in runs))
    seconds = round(sum(run.seconds for run in runs), 1)
    return inputs.result(rows, describe_text(inputs.data), configuration, seconds=seconds, **provenance)


def train_runs(runs: Sequence[Run], sizes: Sizes, folder: Path, text: Path) -> dict[Run, Trained]:
    """Train runs, and before each the one that it branches off, unless they are finished; resumes after a kill.

    Args:
        folder: of all runs on this text; absolute.

    Returns:
        All of them, in this order.
    """
    claim(folder, {"--data": describe_text(text)})  # finished runs are used again
    trained: dict[Run, Trained] = {}
    for run in dict.fromkeys(each for last in runs for each in (last.parent, last) if each):
        initial = None
        if run.parent:
            (initial,) = trained[run.parent].checkpoint.parent.glob(f"checkpoint_*_{run.branches_at}.pt")
        job = build_job(run, initial, sizes, folder, text)
        # A complete run may have been moved together with what it was trained from.
        ignore = PATH_OPTIONS if (job.folder / run_folder.DONE).exists() else ()
        run_folder.check_run_folder(job, ignore)
        local.train(job)
        trained[run] = Trained(job.folder, initial)
    return trained


def build_job(run: Run, initial: Path | None, sizes: Sizes, folder: Path, text: Path) -> TrainingJob:
    """The configuration of a run.

    Args:
        initial: that of a branch.
    """
    overrides = (
        f"common.seed={run.seed}",
        "common.fp16=false",
        f"common.bf16={str(sizes.bf16).lower()}",
        f"common.log_interval={min(100, sizes.validate)}",
        f"task.data={quote(':'.join(str(path.resolve()) for path in find_shards(text)))}",
        f"task.tokens_per_sample={run.model.n}",
        f"checkpoint.continue_once={quote(str(initial)) if initial else 'null'}",
        f"checkpoint.reset_lr_scheduler={str(bool(initial)).lower()}",
        f"checkpoint.save_interval_updates={sizes.validate}",
        f"checkpoint.keep_interval_updates_pattern={run.keep_every or -1}",
        f"dataset.batch_size={sizes.tokens // run.model.n}",
        f"dataset.batch_size_valid={2 * sizes.tokens // run.model.n}",
        "dataset.required_batch_size_multiple=1",
        f"dataset.max_valid_steps={VALID_BATCHES}",
        f"dataset.num_workers={0 if sizes.device == 'cpu' else WORKERS}",
        "dataset.data_buffer_size=0",
        f"lr_scheduler._name={'polynomial_decay' if run.parent else 'fixed'}",
        # fairseq's polynomial decay begins at the end of the warmup, which a branch has behind it.
        f"lr_scheduler.warmup_updates={run.branches_at or sizes.warmup}",
        f"optimization.lr=[{sizes.lr!r}]",
        f"optimization.max_update={run.updates}",
        "optimization.update_freq=[1]",
        "optimization.clip_norm=1.0",
        *run.model.overrides,
        f"++model.encoder_layers={sizes.layers}",
        f"++model.encoder_embed_dim={sizes.width}",
        f"++model.encoder_ffn_embed_dim={4 * sizes.width}",
        f"++model.encoder_attention_heads={sizes.heads}",
        "++model.encoder_normalize_before=true",
        "++model.dropout=0.0",
        "++model.attention_dropout=0.0",
    )
    return TrainingJob(str(PRETRAINING_YAML), overrides, 1, sizes.device, str(folder), run.name)
