"""A run on a number of GPUs: the micro-batches that fit, and its time.

References:

    [ring] Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
    [ddp]  Li et al. 2020, "PyTorch Distributed", section 3.2: buckets, reduced during the backward pass
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property

from ..benchmark.formulas import count_parameters, num_embedding_parameters, step_flops
from ..benchmark.gpus import GIB, GPUS, LATENCY, Gpu
from .memory import Memory, activation_memory, element_size, model_states
from .planned_run import PlannedRun


@dataclass(frozen=True)
class UpdateTime:
    """Seconds per update on each GPU."""

    compute: float
    communication: float
    exposed: float
    """The part of ``communication`` that does not overlap with computation."""
    step: float
    """The optimizer step."""

    @property
    def total(self) -> float:
        return self.compute + self.exposed + self.step


@dataclass(frozen=True)
class RunPlan:
    """A run on GPUs of one kind, with a chosen micro-batch."""

    run: PlannedRun
    gpu: Gpu
    gpus: int
    checkpoint_activations: bool
    """Activations are recomputed in the backward pass."""
    sequences: int
    """Sequences per micro-batch."""
    update_freq: int
    utilization: float
    """Share of the GPU's peak that matrix products reach."""
    network: float | None
    """Bandwidth of a node, 10^9 bits per second; None for that of the GPU's DGX."""

    @cached_property
    def memory(self) -> Memory:
        """Memory of each GPU."""
        return micro_batch_memory(self.run, self.sequences, self.gpus, self.checkpoint_activations)

    @property
    def all_reduce_bytes(self) -> int:
        """Bytes of the all-reduce per update."""
        return count_parameters(self.run.model).trainable * element_size(self.run.precision) * (self.gpus > 1)

    @property
    def buckets(self) -> int:
        return math.ceil(self.all_reduce_bytes / (self.run.bucket_mb * 2**20))

    @property
    def peak(self) -> float:
        """Peak of the GPU in the run's precision, 10^12 operations per second."""
        return self.gpu.peak(self.run.precision)

    @cached_property
    def time(self) -> UpdateTime:
        run, freq, link = self.run, self.update_freq, self.gpu.slowest_link(self.gpus, self.network)
        work = step_flops(run.model, run.batch(self.sequences), checkpoint_activations=self.checkpoint_activations)
        per_second = self.peak * 1e12 * self.utilization
        compute = freq * (work.forward + work.backward) / per_second
        reduce = all_reduce_seconds(self.all_reduce_bytes, self.gpus, link, self.buckets, LATENCY)
        # The optimizer step reads and writes each number once.
        states = model_states(run.model, run.precision)
        step_bytes = 2 * (states.weights + states.gradients + states.optimizer)
        step = step_bytes / (self.gpu.bandwidth * 1e9)
        if run.ddp in ("legacy_ddp", "no_c10d"):
            return UpdateTime(compute, reduce, reduce, step)  # one buffer, after the backward pass
        # The all-reduce overlaps with the backward pass of the last micro-batch [ddp], except that of the tied
        # embeddings, whose gradient is complete only at its end.
        embeddings = num_embedding_parameters(run.model) * element_size(run.precision)
        tied = all_reduce_seconds(embeddings, self.gpus, link, 1, LATENCY)
        return UpdateTime(compute, reduce, max(reduce - work.backward / per_second, tied), step)

    @property
    def tokens_per_second(self) -> float:
        return self.run.tokens_per_update / self.time.total

    @property
    def hours(self) -> float:
        return self.run.updates * self.time.total / 3600

    @property
    def gpu_hours(self) -> float:
        return self.hours * self.gpus


def build_plan(
    run: PlannedRun,
    gpu: Gpu,
    gpus: int | None = None,
    utilization: float | None = None,
    network: float | None = None,
    checkpoint_activations: bool | None = None,
) -> RunPlan:
    """Plan with the largest micro-batch that fits and divides an update; the tokens per update do not change.

    Args:
        gpus, checkpoint_activations: None for those of the run.
        utilization: share of the GPU's peak; None for the slowest published (``gpus.py``).
        network: as in ``RunPlan``.

    Raises:
        ValueError: the GPUs do not divide an update, one sequence does not fit, the GPU does not support the
            precision, or ``utilization`` or ``network`` is out of range.
    """
    gpus = run.gpus if gpus is None else gpus
    checkpoint_activations = run.checkpoint_activations if checkpoint_activations is None else checkpoint_activations
    if utilization is None:
        utilization, _ = gpu.utilization(run.precision)
    if not 0 < utilization <= 1:
        raise ValueError(f"utilization must be above 0 and at most 1, got {utilization}")
    if network is not None and not 0 < network < math.inf:
        raise ValueError(f"network must be positive and finite (Gbit/s), got {network}")
    if "bf16" in run.precision and not gpu.bf16:
        raise ValueError(f"{gpu.name} does not support bf16; use common.fp16=true common.bf16=false")
    share, largest = sequences_per_gpu(run, gpus), largest_micro_batch(run, gpu, gpus, checkpoint_activations)
    if largest < 1:
        raise ValueError(_explain_no_fit(run, gpu, gpus, checkpoint_activations))
    sequences = next(s for s in range(min(share, largest), 0, -1) if share % s == 0 and run.accepts_batch(s))
    return RunPlan(run, gpu, gpus, checkpoint_activations, sequences, share // sequences, utilization, network)


def build_plans(
    run: PlannedRun, gpu: Gpu, gpus: int | None = None, utilization: float | None = None, network: float | None = None
) -> tuple[RunPlan, RunPlan]:
    """The slowest and the fastest plan: at both ends of the GPU's published utilization, or twice at ``utilization``.

    Args and Raises:
        as for ``build_plan``.
    """
    slowest = build_plan(run, gpu, gpus, utilization, network)
    fastest = gpu.utilization(run.precision)[1] if utilization is None else utilization
    return slowest, replace(slowest, utilization=fastest)


def sequences_per_gpu(run: PlannedRun, gpus: int) -> int:
    """Sequences of an update on each GPU.

    Raises:
        ValueError: ``gpus`` does not divide the sequences.
    """
    if gpus < 1:
        raise ValueError(f"gpus must be at least 1, got {gpus}")
    sequences = run.sequences_per_update
    if sequences % gpus:
        near = sorted((g for g in range(1, sequences + 1) if sequences % g == 0), key=lambda g: abs(g - gpus))[:4]
        raise ValueError(
            f"gpus must divide the {sequences:,} sequences of an update ({run.tokens_per_update:,} tokens, "
            f"n = {run.positions:,}), such as {', '.join(map(str, sorted(near)))}, got {gpus:,}"
        )
    return sequences // gpus


def largest_micro_batch(run: PlannedRun, gpu: Gpu, gpus: int, checkpoint_activations: bool) -> int:
    """Sequences of the largest micro-batch that fits; 0 if none fits."""
    states = model_states(run.model, run.precision, gpus)
    counts = range(1, int(gpu.usable))  # a sequence needs more than a byte
    return bisect_right(
        counts, gpu.usable, key=lambda count: _with_activations(states, run, count, checkpoint_activations).total
    )


def micro_batch_memory(run: PlannedRun, sequences: int, gpus: int, checkpoint_activations: bool) -> Memory:
    """Memory of a GPU with a micro-batch of ``sequences``."""
    states = model_states(run.model, run.precision, gpus)
    return _with_activations(states, run, sequences, checkpoint_activations)


def _with_activations(states: Memory, run: PlannedRun, sequences: int, checkpoint_activations: bool) -> Memory:
    active = activation_memory(run.model, element_size(run.precision), run.batch(sequences), checkpoint_activations)
    # The optimizer step comes after the activations are freed.
    return replace(states, activations=active.saved, workspace=max(active.workspace, states.workspace - active.saved))


def _explain_no_fit(run: PlannedRun, gpu: Gpu, gpus: int, checkpoint_activations: bool) -> str:
    """The memory that one sequence needs, and how to make it fit."""
    needed = micro_batch_memory(run, 1, gpus, checkpoint_activations).total
    if not checkpoint_activations and (recomputed := largest_micro_batch(run, gpu, gpus, True)):
        advice = f"{recomputed} fit with +model.checkpoint_activations=true"
    else:
        larger = [g.name for g in GPUS.values() if largest_micro_batch(run, g, gpus, checkpoint_activations)]
        advice = f"it fits {', '.join(larger)}" if larger else "it fits none of the known GPUs"
    return (
        f"one sequence of {run.positions:,} tokens needs {needed / GIB:.1f} GiB, {gpu.name} has "
        f"{gpu.usable / GIB:.1f}; {advice}"
    )


def all_reduce_seconds(size: float, gpus: int, bandwidth: float, buckets: int = 1, latency: float = 0.0) -> float:
    """Seconds to sum ``size`` bytes over all GPUs [ring]: each GPU sends 2 (G - 1) / G of them over the slowest link.

    Args:
        bandwidth: bytes per second and direction of the slowest link.
        buckets: number of buckets, which are reduced in sequence.
        latency: seconds per message; a tree has 2 log2 G messages in sequence.
    """
    if gpus == 1:
        return 0.0
    return 2 * (gpus - 1) / gpus * size / bandwidth + buckets * 2 * math.ceil(math.log2(gpus)) * latency
