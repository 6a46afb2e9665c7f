"""One run on a number of GPUs: the micro-batches that fit, and how long it takes.

    [ring] Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
    [ddp]  Li et al. 2020, "PyTorch Distributed", section 3.2: buckets, reduced during the backward pass
    [zero] Rajbhandari et al. 2020, "ZeRO", section 7: what sharding sends
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Optional

from .configs import Run
from .formulas import embedding_parameters, flops, parameters
from .gpus import GIB, GPUS, LATENCY, Gpu
from .memory import Memory, activations, bytes_of, gathered_parameters, states, with_activations

UTILISATION = 0.3
"""ASSUMED share of a GPU's peak in matrix products. Shoeybi et al. 2019 ("Megatron-LM", section 5.1) measured 0.30 on one
V100 with a model ten times as large; a small micro-batch gets less."""


@dataclass(frozen=True)
class Time:
    """Seconds per update, on each GPU."""

    compute: float
    communication: float
    """All of it, hidden or not."""
    exposed: float
    """What computing does not hide."""
    step: float

    @property
    def total(self) -> float:
        return self.compute + self.exposed + self.step


@dataclass(frozen=True)
class Plan:
    """A run on GPUs of one kind."""

    run: Run
    gpu: Gpu
    gpus: int
    sequences: int
    """Of a micro-batch."""
    update_freq: int
    checkpointed: bool
    memory: Memory
    time: Time
    reduced: int
    """Bytes of the all-reduce of an update."""

    @property
    def tokens_a_second(self) -> float:
        return self.run.tokens_of_update / self.time.total

    @property
    def hours(self) -> float:
        return self.run.updates * self.time.total / 3600

    @property
    def gpu_hours(self) -> float:
        return self.hours * self.gpus


def memory_of(run: Run, sequences: int, gpus: int, checkpointed: bool) -> Memory:
    """Of a GPU with a micro-batch of so many sequences."""
    held = states(run.model, run.precision, gpus, _gathered(run, checkpointed))
    return with_activations(held, activations(run.model, run.kernels, run.batch(sequences), checkpointed))


def _gathered(run: Run, checkpointed: bool) -> Optional[int]:
    """Parameters that are whole at once when they are sharded; None if they are not."""
    return gathered_parameters(run.model, 0 if checkpointed else run.wrap_from) if run.sharded else None


def largest_batch(run: Run, gpu: Gpu, gpus: int, checkpointed: bool) -> int:
    """Sequences of the largest micro-batch that fits; 0 if none does."""
    counts = range(1, int(gpu.usable))  # a sequence takes more than a byte
    return bisect_right(counts, gpu.usable, key=lambda sequences: memory_of(run, sequences, gpus, checkpointed).total)


def share_of_update(run: Run, gpus: int) -> int:
    """Sequences of an update on each GPU.

    Raises:
        ValueError: GPUs do not divide the sequences.
    """
    if gpus < 1:
        raise ValueError(f"{gpus} GPUs; it must be at least 1")
    sequences = run.sequences_of_update
    if sequences % gpus:
        near = sorted((g for g in range(1, sequences + 1) if sequences % g == 0), key=lambda g: abs(g - gpus))[:4]
        raise ValueError(f"{gpus:,} GPUs do not divide the {sequences:,} sequences of an update ({run.tokens_of_update:,} "
                         f"tokens, n = {run.positions:,}); these do: {', '.join(map(str, sorted(near)))}")  # fmt: skip
    return sequences // gpus


def make_plan(
    run: Run,
    gpu: Gpu,
    gpus: Optional[int] = None,
    utilisation: float = UTILISATION,
    network: Optional[float] = None,
    checkpointed: Optional[bool] = None,
) -> Plan:
    """With the largest micro-batch that fits and divides an update, whose tokens stay those of the run.

    Args:
        gpus: None for those of the run.
        utilisation: share of the peak that computing gets.
        network: 10^9 bits a second of a node; None for the GPU's DGX.
        checkpointed: whether activations are computed again; None for what the run says.

    Raises:
        ValueError: GPUs do not divide an update, one sequence does not fit (the sentence says what would), the GPU
            lacks the precision, or a share or a speed is impossible.
    """
    gpus = run.gpus if gpus is None else gpus
    checkpointed = run.checkpointed if checkpointed is None else checkpointed
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation is {utilisation}; it must be above 0 and at most 1")
    if network is not None and not 0 < network < math.inf:
        raise ValueError(f"the network has {network} Gbit/s; it must be above 0")
    if "bf16" in run.precision and not gpu.bf16:
        raise ValueError(f"{gpu.name} has no bf16; use common.fp16=true common.bf16=false")
    share, most = share_of_update(run, gpus), largest_batch(run, gpu, gpus, checkpointed)
    if most < 1:
        raise ValueError(_does_not_fit(run, gpu, gpus, checkpointed))
    sequences = next(s for s in range(min(share, most), 0, -1) if share % s == 0 and run.allows(s))
    freq = share // sequences
    memory = memory_of(run, sequences, gpus, checkpointed)
    time = _time(run, gpu, gpus, sequences, freq, checkpointed, utilisation, network)
    reduced = parameters(run.model).learnt * bytes_of(run.precision) * (gpus > 1)
    return Plan(run, gpu, gpus, sequences, freq, checkpointed, memory, time, reduced)


def _does_not_fit(run: Run, gpu: Gpu, gpus: int, checkpointed: bool) -> str:
    """One sentence about one sequence, with what would fit."""
    need = memory_of(run, 1, gpus, checkpointed).total
    if not checkpointed and (recomputed := largest_batch(run, gpu, gpus, True)):
        advice = f"{recomputed} with +model.checkpoint_activations=true"
    else:
        larger = [g.name for g in GPUS.values() if largest_batch(run, g, gpus, checkpointed)]
        advice = f"one sequence fits {', '.join(larger)}" if larger else "it fits none of the known GPUs"
    return (f"a micro-batch of one sequence of {run.positions:,} tokens needs {need / GIB:.1f} GiB and does not fit "
            f"{gpu.name}, which has {gpu.usable / GIB:.1f} to use; {advice}")  # fmt: skip


def _time(
    run: Run, gpu: Gpu, gpus: int, sequences: int, freq: int, checkpointed: bool, utilisation: float,
    network: Optional[float],
) -> Time:  # fmt: skip
    peak = (gpu.single if run.precision == "fp32" else gpu.half) * 1e12 * utilisation
    work = flops(run.model, run.batch(sequences), checkpointed=checkpointed)
    backward, compute = work.backward / peak, freq * (work.forward + work.backward) / peak
    element, link = bytes_of(run.precision), gpu.slowest_link(gpus, network)
    size = parameters(run.model).learnt * element
    pieces = math.ceil(size / (run.bucket_mb * 2**20))
    reduce = all_reduce_seconds(size, gpus, link, pieces, LATENCY)
    # Every number of the optimizer is read and written once. All is there, or a G-th of it.
    held = states(run.model, run.precision)
    step = 2 * (held.weights + held.gradients + held.optimizer) / (gpus if run.sharded else 1) / (gpu.bandwidth * 1e9)
    if run.sharded:
        # Gathered for forward and for backward, and gradients scattered: half as much again [zero], for each micro-batch
        # (fairseq). Layers hide it behind each other, a model that is one unit does not.
        each = 1.5 * reduce
        whole = _gathered(run, checkpointed) == parameters(run.model).learnt
        exposed = freq * (each if whole else max(each - compute / freq, each / (run.model.shape.layers + 1)))
        return Time(compute, freq * each, exposed, step)
    if run.ddp in ("legacy_ddp", "no_c10d"):
        return Time(compute, reduce, reduce, step)  # one buffer, after the backward pass
    # The backward pass of the last micro-batch, the only one that reduces, hides the rest [ddp], but not the tied
    # embeddings: their gradient is complete when it is over.
    tied = all_reduce_seconds(embedding_parameters(run.model) * element, gpus, link, 1, LATENCY)
    return Time(compute, reduce, max(reduce - backward, tied), step)


def all_reduce_seconds(size: float, gpus: int, bandwidth: float, pieces: int = 1, latency: float = 0.0) -> float:
    """Sum ``size`` bytes over all GPUs [ring]: every GPU sends 2 (G - 1) / G of them, over the slowest link.

    Args:
        bandwidth: of that link, in bytes a second and direction.
        pieces: buckets that are reduced one after the other.
        latency: seconds of one message; a tree has 2 log2 G of them, one after the other.
    """
    if gpus == 1:
        return 0.0
    return 2 * (gpus - 1) / gpus * size / bandwidth + pieces * 2 * math.ceil(math.log2(gpus)) * latency
