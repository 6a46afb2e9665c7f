"""Memory, time and cost of a pretraining run, before it runs.

The configuration's model, loss and optimizer run a real step on PyTorch's meta device, whose tensors have shapes but no
memory: ``MemTracker`` counts their bytes, ``FlopCounterMode`` operations of matrix products. Each further layer adds
the same, so steps of 2 and 3 layers tell exactly what deeper models need. Sentences are full, ``mask_prob`` of each is
masked, and the vocabulary is RoBERTa's. Time follows from the share of the GPU's peak that the operations reach,
between the lowest and the highest known (``benchmark/gpus.py``):

    seconds per update = operations / (share * peak) + all-reduce        at the low share
                         the longer of the two, which overlap            at the high share
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq import optim
from fairseq.criterions import build_criterion
from fairseq.models import ARCH_MODEL_REGISTRY, build_model
from fairseq.models.roberta import RobertaModel
from omegaconf import DictConfig, OmegaConf, open_dict
from torch.distributed._tools.mem_tracker import MemTracker

from ..benchmark.flops import count_flops, gpu_kernels
from ..benchmark.gpus import GIB, Gpu
from ..benchmark.memory import DTYPES, default_dtype
from ..models.stub_task import VOCAB_SIZE, StubTask
from ..projected_dim import format_projected_dim
from .job import compose_config

SUPPORTED = {
    "task._name": ("masked_lm",),
    "criterion._name": ("masked_lm",),
    "optimizer._name": ("adam",),
    "model.quant_noise_pq": ("None", "0.0", "0"),
    "model.encoder_layerdrop": ("None", "0.0", "0"),
    "model.offload_activations": ("None", "False"),
    "distributed_training.ddp_backend": ("pytorch_ddp", "c10d", "legacy_ddp", "no_c10d"),
    "distributed_training.zero_sharding": ("none",),
    "common.amp": ("False",),
    "ema.store_ema": ("False",),
}
"""Values of options whose others need memory that one step on the meta device does not show."""
AT_LEAST_ONE = """
    task.tokens_per_sample optimization.update_freq[0] optimization.max_update
    distributed_training.distributed_world_size
""".split()


class Memory(NamedTuple):
    """Bytes on one GPU at the peak of a micro-batch, forward and backward, and an optimizer step."""

    weights: int
    """Parameters and buffers."""
    gradients: int
    """With several GPUs also their copies in the buckets of the all-reduce."""
    optimizer: int
    """Moments and, in half precision, copies of weights and gradients in single precision."""
    activations: int
    """The rest of the peak: what is saved for the backward pass, and temporary tensors."""

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations


class PlannedRun:
    """A pretraining run whose step can be built on the meta device: a YAML of ``fairseq-hydra-train`` and overrides."""

    def __init__(self, config: str | Path, overrides: Sequence[str] = ()):
        self.cfg: DictConfig = compose_config(config, overrides)
        cfg, self.name = self.cfg, str(self.cfg.model._name)
        for key, values in SUPPORTED.items():
            if (value := str(OmegaConf.select(cfg, key))) not in values:
                raise ValueError(f"{key} must be {' or '.join(values)} for the plan, got {value}")
        if not issubclass(ARCH_MODEL_REGISTRY.get(self.name, object), RobertaModel):
            raise ValueError(f"model._name must be a Linformer or a RoBERTa for the plan, got {self.name}")
        for key in AT_LEAST_ONE:
            if ((number := OmegaConf.select(cfg, key)) or 0) < 1:
                raise ValueError(f"{key} must be at least 1, got {number}")
        self.n, self.update_freq, self.updates, self.gpus = (OmegaConf.select(cfg, key) for key in AT_LEAST_ONE)
        limits = cfg.dataset.batch_size, cfg.dataset.max_tokens and cfg.dataset.max_tokens // self.n
        self.sequences = self._round(min((limit for limit in limits if limit is not None), default=0))
        if self.sequences < 1:
            raise ValueError(f"batch_size and max_tokens / tokens_per_sample must be at least 1, got {limits}")
        self.tokens_per_update = self.sequences * self.update_freq * self.gpus * self.n
        self.num_masked = math.ceil(round(cfg.task.mask_prob * self.n, 6))  # 15 % of 4,096 is 614.4
        is_bf16, is_fp16 = (cfg.common[name] or cfg.common[f"memory_efficient_{name}"] for name in ("bf16", "fp16"))
        self.precision = "bf16" if is_bf16 else "fp16" if is_fp16 else "fp32"
        self.dtype = DTYPES[self.precision]
        self.recomputes = bool(cfg.model.get("checkpoint_activations"))
        with gpu_kernels(self.num_masked):
            model = self._build_model(self.recomputes)
        self.parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        self.layers: int = model.args.encoder_layers
        shape = getattr(model.encoder.sentence_encoder, "config", None)
        self.kind = f"n{self.n}-" + (f"k{shape.projected_dim}-{shape.sharing}" if shape else "roberta")
        self.dims = shape.projected_dims if shape else []

    def memory(self, sequences: int, recomputed: bool, gpus: int) -> Memory:
        """Memory of a micro-batch when the gradients of an earlier one exist, with activations stored or recomputed."""
        w, g, o, a = self._at_full_depth(lambda layers: self._measure_memory(sequences, recomputed, layers))
        return Memory(w, g * (2 if gpus > 1 else 1), o, a)

    def operations(self) -> int:
        """Operations of an update on all GPUs, recomputation included. They are proportional to the sequences."""
        build = partial(self._build_step, 1, self.recomputes)
        with gpu_kernels(self.num_masked):
            (count,) = self._at_full_depth(lambda layers: [count_flops(build(layers)[2])])
        return count * (self.tokens_per_update // self.n)

    def _at_full_depth(self, measure: Callable[[int], Sequence[int]]) -> list[int]:
        """What ``measure`` finds for all layers; it is linear in their number if they have the same k."""
        if self.layers <= 3 or len({*self.dims}) > 1:
            return list(measure(self.layers))
        return [two + (self.layers - 2) * (three - two) for two, three in zip(measure(2), measure(3))]

    def _measure_memory(self, sequences: int, recomputed: bool, layers: int) -> tuple[int, int, int, int]:
        """Bytes of weights, gradients, optimizer state and the rest of the peak."""
        with gpu_kernels(self.num_masked):
            model, optimizer, step = self._build_step(sequences, recomputed, layers)
            weights = {*model.parameters(), *model.buffers()}
            gradients = {p.grad for p in model.parameters() if p.grad is not None}
            states = {t for state in optimizer.optimizer.state.values() for t in state.values() if torch.is_tensor(t)}
            states |= {t for group in optimizer.optimizer.param_groups for p in group["params"] for t in (p, p.grad)}
            parts = weights, gradients, states - weights - gradients
            tracker = MemTracker()
            tracker.track_external(*set.union(*parts))
            with tracker:
                step()
        peak = max(sizes["Total"] for sizes in tracker.get_tracker_snapshot("peak").values())
        w, g, o = (sum(t.nbytes for t in part) for part in parts)
        return w, g, o, peak - w - g - o

    def largest_batch(self, whole: int, gpu: Gpu, gpus: int, recomputed: bool) -> int:
        """The largest micro-batch that fits and divides the ``whole`` sequences of an update on a GPU; 0 if none fits.
        Memory is convex in the batch, so a line between one sequence and the whole is never too low."""
        low, high = (self.memory(sequences, recomputed, gpus).total for sequences in (1, whole))
        share = min((gpu.usable - low) / max(high - low, 1), 1)
        most = math.floor(1 + share * (whole - 1)) if share >= 0 else 0
        return next((s for s in range(most, 0, -1) if whole % s == 0 and self._round(s) == s), 0)

    def _round(self, sequences: int) -> int:
        """The batch that fairseq builds: with a multiple of 8 it reduces 12 sequences to 8."""
        multiple: int = self.cfg.dataset.required_batch_size_multiple
        return sequences - sequences % multiple if sequences > multiple else sequences

    def _build_model(self, recomputed: bool, layers: int | None = None) -> Any:
        options = self.cfg.model.copy()
        with open_dict(options):
            options.checkpoint_activations, options.compile = recomputed, False
            if layers is not None:
                options.encoder_layers = layers
                if self.dims:
                    options.projected_dim = format_projected_dim(self.dims[:layers])
        with default_dtype(self.dtype):
            return build_model(options, StubTask(VOCAB_SIZE, self.n)).train()

    def _build_step(self, sequences: int, recomputed: bool, layers: int) -> tuple[Any, Any, Callable[[], None]]:
        """The model, fairseq's optimizer after a first step, and a second step: forward, backward, optimizer."""
        model, common = self._build_model(recomputed, layers), self.cfg.common
        params = [p for p in model.parameters() if p.requires_grad]
        if common.memory_efficient_fp16 or common.memory_efficient_bf16:
            optimizer = optim.MemoryEfficientFP16Optimizer.build_optimizer(self.cfg, params)
        elif self.dtype is torch.float32:
            optimizer = optim.build_optimizer(self.cfg.optimizer, params)
        else:
            optimizer = optim.FP16Optimizer.build_optimizer(self.cfg, params)
        optimizer.zero_grad()
        for p in params:
            p.grad = torch.zeros_like(p)
        optimizer.step()
        criterion = build_criterion(self.cfg.criterion, StubTask(VOCAB_SIZE, self.n))
        tokens = torch.zeros(sequences, self.n, dtype=torch.long)
        sample = dict(net_input={"src_tokens": tokens}, target=tokens, ntokens=tokens.numel(), nsentences=sequences)

        def step() -> None:
            optimizer.backward(criterion(model, sample)[0])
            optimizer.step()

        return model, optimizer, step


def format_plan(run: PlannedRun, gpu: Gpu, gpus: int | None = None, share: float | None = None) -> str:
    """Model, memory and time of a run, and the overrides for the largest micro-batch.

    Args:
        gpus: G; None for that of the configuration. The tokens per update do not change.
        share: of the GPU's peak; None for its known range.
    """
    gpus = run.gpus if gpus is None else gpus
    shares = gpu.utilization(run.precision) if share is None else (share, share)
    if not 0 < shares[0] <= 1:
        raise ValueError(f"utilization must be above 0 and at most 1, got {share}")
    if run.dtype is torch.bfloat16 and not gpu.bf16:
        raise ValueError(f"{gpu.name} does not support bf16; use common.fp16=true common.bf16=false")
    sequences, kind = run.tokens_per_update // run.n, "recomputed" if run.recomputes else "stored"
    if gpus < 1 or sequences % gpus:
        raise ValueError(f"gpus must divide the {sequences:,} sequences of an update, got {gpus}")
    whole = sequences // gpus
    memories = [run.memory(run.sequences, recomputed, gpus) for recomputed in (False, True)]
    largest = [run.largest_batch(whole, gpu, gpus, recomputed) for recomputed in (False, True)]
    rows = {name: [f"{size / GIB:.2f}" for size in sizes] for name, sizes in zip(Memory._fields, zip(*memories))}
    rows[f"total, of {gpu.usable / GIB:.1f}"] = [f"{m.total / GIB:.2f}" for m in memories]
    rows["largest batch_size that fits"] = [str(size) for size in largest]
    operations = run.operations()
    compute = [operations / (gpus * 1e12 * gpu.peak(run.precision) * each) for each in shares]
    reduce = 2 * (gpus - 1) / gpus * run.parameters * run.dtype.itemsize / gpu.slowest_link(gpus)  # in a ring
    seconds = compute[0] + reduce, max(compute[1], reduce)
    speed, hours = [run.tokens_per_update / s for s in seconds], [run.updates * s / 3600 for s in seconds]
    chosen = largest[run.recomputes]
    no_token_limit = "dataset.max_tokens=null " if run.cfg.dataset.max_tokens else ""
    return "\n".join(
        [
            f"{run.name}, {run.kind}, {run.parameters:,} parameters, {run.precision}",
            f"{run.tokens_per_update:,} tokens per update, {gpus:,} x {gpu.name}",
            "",
            f"{f'GiB per GPU, {run.sequences} sequences':30}{'stored':>10}{'recomputed':>12}",
            *(f"{name:30}{stored:>10}{recomputed:>12}" for name, (stored, recomputed) in rows.items()),
            "",
            f"activations {kind}: {operations:.3g} operations per update, at "
            f"{' to '.join(dict.fromkeys(f'{each:g}' for each in shares))} of {gpu.peak(run.precision):g} TFLOPS",
            f"{seconds[1]:.3g} to {seconds[0]:.3g} s per update, {speed[0]:,.0f} to {speed[1]:,.0f} tokens/s",
            f"{hours[1]:,.1f} to {hours[0]:,.1f} hours, {hours[1] * gpus:,.0f} to {hours[0] * gpus:,.0f} GPU-hours",
            "",
            f"dataset.batch_size={chosen} {no_token_limit}optimization.update_freq=[{whole // chosen}] "
            f"distributed_training.distributed_world_size={gpus}"
            if chosen
            else f"one sequence does not fit on {gpu.name}",
        ]
    )
