"""Memory, time and cost of a pretraining run, before it runs.

The configuration's model and loss run forward and backward on PyTorch's meta device, whose tensors have shapes but no
memory: ``MemTracker`` counts their bytes, ``FlopCounterMode`` operations of matrix products. Sentences are full,
``mask_prob`` of each is masked, and the vocabulary is RoBERTa's. Time follows from the share of the GPU's peak that the
operations reach, between the lowest and the highest known (``benchmark/gpus.py``):

    seconds per update = operations / (share * peak) + all-reduce        at the low share
                         the longer of the two, which overlap            at the high share
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.criterions import build_criterion
from fairseq.models import ARCH_MODEL_REGISTRY, build_model
from fairseq.models.roberta import RobertaModel
from omegaconf import OmegaConf, open_dict
from torch.distributed._tools.mem_tracker import MemTracker

from ..benchmark.flops import count_flops, gpu_kernels
from ..benchmark.gpus import GIB, Gpu
from ..benchmark.memory import DTYPES, default_dtype
from ..models.stub_task import VOCAB_SIZE, StubTask
from .job import compose_config

SUPPORTED = {
    "task._name": "masked_lm",
    "criterion._name": "masked_lm",
    "optimizer._name": "adam",
    "common.amp": "False",
    "model.offload_activations": "False",
}
"""Options whose other values need other memory than is counted here."""
MOMENTS, COPIES = 8, 8
"""Bytes per parameter in single precision: Adam's moments; and, in half precision, fairseq's copies of weights and
gradients."""


class Memory(NamedTuple):
    """Bytes on one GPU at the peak of a micro-batch, forward and backward; the update of the parameters needs more only
    for the smallest batches."""

    weights: int
    """Parameters and buffers."""
    gradients: int
    """Also their copies in the buckets of the all-reduce, with several GPUs."""
    optimizer: int
    """Moments and, in half precision, copies of weights and gradients in single precision."""
    activations: int
    """The rest of the peak: what is saved for the backward pass, and temporary tensors."""


class PlannedRun:
    """A pretraining run whose step can be built on the meta device: a YAML of ``fairseq-hydra-train`` and overrides."""

    def __init__(self, config: str | Path, overrides: Sequence[str] = ()):
        self.cfg = cfg = compose_config(config, overrides)
        for key, value in SUPPORTED.items():
            if str((got := OmegaConf.select(cfg, key)) or False) != value:
                raise ValueError(f"{key} must be {value} for the plan, got {got}")
        self.name = str(cfg.model._name)
        if not issubclass(ARCH_MODEL_REGISTRY.get(self.name, object), RobertaModel):
            raise ValueError(f"model._name must be a Linformer or a RoBERTa for the plan, got {self.name}")
        self.n: int = cfg.task.tokens_per_sample
        self.sequences = self._count_sequences()
        self.updates, self.gpus = cfg.optimization.max_update, cfg.distributed_training.distributed_world_size
        self.sequences_per_update: int = self.sequences * cfg.optimization.update_freq[0] * self.gpus
        self.tokens_per_update = self.sequences_per_update * self.n
        self.num_masked = math.ceil(round(cfg.task.mask_prob * self.n, 6))  # 15 % of 4,096 is 614.4
        is_bf16, is_fp16 = (cfg.common[name] or cfg.common[f"memory_efficient_{name}"] for name in ("bf16", "fp16"))
        self.precision = "bf16" if is_bf16 else "fp16" if is_fp16 else "fp32"
        self.dtype = DTYPES[self.precision]
        self.recomputes = bool(cfg.model.get("checkpoint_activations"))
        with gpu_kernels(self.num_masked):
            model = self._build_model(self.recomputes)
        self.parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        shape: Any = getattr(model.encoder.sentence_encoder, "config", None)
        is_linear = shape and shape.projected_dim
        self.kind = f"n{self.n}-" + (f"k{shape.projected_dim}-{shape.sharing}" if is_linear else "roberta")

    def memory(self, sequences: int, recomputed: bool, gpus: int) -> Memory:
        """Memory of a micro-batch when the gradients of an earlier one exist, with activations stored or recomputed."""
        with gpu_kernels(self.num_masked):
            model, step = self.build_step(sequences, recomputed)
            weights = [*model.parameters(), *model.buffers()]
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            tracker = MemTracker()
            tracker.track_external(*weights, *gradients)
            with tracker:
                step()
        peak = max(sizes["Total"] for sizes in tracker.get_tracker_snapshot("peak").values())
        w, g = (sum(t.nbytes for t in tensors) for tensors in (weights, gradients))
        common = self.cfg.common
        is_efficient = common.memory_efficient_fp16 or common.memory_efficient_bf16 or self.precision == "fp32"
        optimizer = self.parameters * (MOMENTS if is_efficient else MOMENTS + COPIES)
        return Memory(w, g * (2 if gpus > 1 else 1), optimizer, peak - w - g)

    def operations(self) -> int:
        """Operations of an update on all GPUs, recomputation included. They are proportional to the sequences."""
        with gpu_kernels(self.num_masked):
            return self.sequences_per_update * count_flops(self.build_step(1, self.recomputes)[1])

    def largest_batch(self, whole: int, gpu: Gpu, gpus: int, recomputed: bool) -> int:
        """The largest micro-batch that fits and divides the ``whole`` sequences of an update on a GPU; 0 if none fits.
        Memory is convex in the batch, so a line between one sequence and the whole is never too low."""
        low, high = (sum(self.memory(sequences, recomputed, gpus)) for sequences in (1, whole))
        share = min((gpu.usable - low) / max(high - low, 1), 1)
        most = math.floor(1 + share * (whole - 1)) if share >= 0 else 0
        return next((s for s in range(most, 0, -1) if whole % s == 0 and self._round(s) == s), 0)

    def _count_sequences(self) -> int:
        """Sequences of a micro-batch on a GPU."""
        data = self.cfg.dataset
        limits = data.batch_size, data.max_tokens and data.max_tokens // self.n
        sequences = self._round(min((limit for limit in limits if limit is not None), default=0))
        if sequences < 1:
            raise ValueError(f"batch_size and max_tokens / tokens_per_sample must be at least 1, got {limits}")
        return sequences

    def _round(self, sequences: int) -> int:
        """The batch that fairseq builds: with a multiple of 8 it reduces 12 sequences to 8."""
        multiple: int = self.cfg.dataset.required_batch_size_multiple
        return sequences - sequences % multiple if sequences > multiple else sequences

    def _build_model(self, recomputed: bool) -> Any:
        options = self.cfg.model.copy()
        with open_dict(options):
            options.checkpoint_activations, options.compile = recomputed, False
        with default_dtype(self.dtype):
            return build_model(options, StubTask(VOCAB_SIZE, self.n)).train()

    def build_step(self, sequences: int, recomputed: bool) -> tuple[Any, Callable[[], None]]:
        """The model with gradients, and a step: forward and backward."""
        model = self._build_model(recomputed)
        for p in model.parameters():
            p.grad = torch.zeros_like(p) if p.requires_grad else None
        criterion = build_criterion(self.cfg.criterion, StubTask(VOCAB_SIZE, self.n))
        tokens = torch.zeros(sequences, self.n, dtype=torch.long)
        sample = dict(net_input={"src_tokens": tokens}, target=tokens, ntokens=tokens.numel(), nsentences=sequences)
        return model, lambda: criterion(model, sample)[0].backward()


def format_plan(run: PlannedRun, gpu: Gpu, gpus: int | None = None, share: float | None = None) -> str:
    """Model, memory and time of a run, and the overrides for the largest micro-batch.

    Args:
        gpus: G; None for that of the configuration. The tokens per update do not change.
        share: of the GPU's peak; None for its known range.
    """
    gpus = run.gpus if gpus is None else gpus
    low, high = gpu.utilization(run.precision) if share is None else (share, share)
    if not 0 < low <= 1:
        raise ValueError(f"utilization must be above 0 and at most 1, got {share}")
    if run.dtype is torch.bfloat16 and not gpu.bf16:
        raise ValueError(f"{gpu.name} does not support bf16; use common.fp16=true common.bf16=false")
    if gpus < 1 or run.sequences_per_update % gpus:
        raise ValueError(f"gpus must divide the {run.sequences_per_update:,} sequences of an update, got {gpus}")
    whole = run.sequences_per_update // gpus
    largest = [run.largest_batch(whole, gpu, gpus, recomputed) for recomputed in (False, True)]
    chosen = largest[run.recomputes]
    no_token_limit = "dataset.max_tokens=null " if run.cfg.dataset.max_tokens else ""
    return "\n".join(
        [
            f"{run.name}, {run.kind}, {run.parameters:,} parameters, {run.precision}",
            f"{run.tokens_per_update:,} tokens per update, {gpus:,} x {gpu.name}",
            "",
            *_format_memory(run, gpu, gpus, largest),
            "",
            *_format_time(run, gpu, gpus, low, high),
            "",
            f"dataset.batch_size={chosen} {no_token_limit}optimization.update_freq=[{whole // chosen}] "
            f"distributed_training.distributed_world_size={gpus}"
            if chosen
            else f"one sequence does not fit on {gpu.name}",
        ]
    )


def _format_memory(run: PlannedRun, gpu: Gpu, gpus: int, largest: Sequence[int]) -> list[str]:
    """A table of memory with activations stored and recomputed."""
    memories = [run.memory(run.sequences, recomputed, gpus) for recomputed in (False, True)]
    rows = [*zip(Memory._fields, *memories), (f"total, of {gpu.usable / GIB:.1f}", *map(sum, memories))]
    return [
        f"{f'GiB per GPU, {run.sequences} sequences':30}{'stored':>10}{'recomputed':>12}",
        *(f"{name:30}{stored / GIB:>10.2f}{recomputed / GIB:>12.2f}" for name, stored, recomputed in rows),
        f"{'largest batch_size that fits':30}{largest[0]:>10}{largest[1]:>12}",
    ]


def _format_time(run: PlannedRun, gpu: Gpu, gpus: int, low: float, high: float) -> list[str]:
    """Operations, time and cost at the low and the high share of the peak."""
    operations, peak = run.operations(), gpu.peak(run.precision)
    compute = [operations / (gpus * 1e12 * peak * share) for share in (low, high)]
    reduce = 2 * (gpus - 1) / gpus * run.parameters * run.dtype.itemsize / gpu.slowest_link(gpus)  # in a ring
    slow, fast = compute[0] + reduce, max(compute[1], reduce)
    shares = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    hours = [run.updates * seconds / 3600 for seconds in (fast, slow)]
    return [
        f"activations {'recomputed' if run.recomputes else 'stored'}: {operations:.3g} operations per update, at "
        f"{shares} of {peak:g} TFLOPS",
        f"{fast:.3g} to {slow:.3g} s per update, {run.tokens_per_update / slow:,.0f} to "
        f"{run.tokens_per_update / fast:,.0f} tokens/s",
        f"{hours[0]:,.1f} to {hours[1]:,.1f} hours, {hours[0] * gpus:,.0f} to {hours[1] * gpus:,.0f} GPU-hours",
    ]
