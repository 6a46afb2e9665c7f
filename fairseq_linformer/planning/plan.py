"""One run on so many GPUs: does it fit, in which micro-batches, how long does it take."""

import math
from dataclasses import dataclass
from typing import List, Optional

from . import formulas
from .configs import Run
from .gpus import GIB, GPUS, LATENCY, Gpu

UTILISATION = 0.3
"""ASSUMED share of a GPU's peak in matrix products. Shoeybi et al. 2019 ("Megatron-LM", section 5.1) measured 0.30 on one
V100 with a model ten times as large; a small micro-batch gets less."""


@dataclass(frozen=True)
class Memory:
    """Of one GPU, in bytes."""

    weights: int
    gradients: int
    optimizer: int
    buckets: int
    activations: int
    workspace: int
    """The most that comes on top: in the backward pass, or in the optimizer's step, when activations are gone."""

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.buckets + self.activations + self.workspace


@dataclass(frozen=True)
class Time:
    """Seconds of an update, on each GPU."""

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
    states = formulas.states(run.model, run.precision, gpus, run.gathered(checkpointed))
    kept = formulas.activations(run.model, run.kernels, run.batch(sequences), checkpointed)
    workspace = max(kept.workspace, states.step - kept.saved)
    return Memory(states.weights, states.gradients, states.optimizer, states.buckets, kept.saved, workspace)


def largest_batch(run: Run, gpu: Gpu, gpus: int, checkpointed: bool) -> int:
    """Sequences of the largest micro-batch that fits; 0 if none does."""

    def fits(sequences: int) -> bool:
        return memory_of(run, sequences, gpus, checkpointed).total <= gpu.usable

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


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
        raise ValueError(
            f"{gpus:,} GPUs do not divide the {sequences:,} sequences of an update ({run.tokens_of_update:,} tokens, n = "
            f"{run.positions:,}); these do: {', '.join(map(str, sorted(near)))}"
        )
    return sequences // gpus


def make_plan(
    run: Run,
    gpu: Gpu,
    gpus: Optional[int] = None,
    utilisation: float = UTILISATION,
    network: Optional[float] = None,
    checkpointed: Optional[bool] = None,
    sequences: Optional[int] = None,
) -> Plan:
    """
    Args:
        gpus: None for those of the run. Tokens per update stay those of the run.
        utilisation: share of the peak that computing gets.
        network: 10^9 bits a second of a node; None for the GPU's DGX.
        checkpointed: whether activations are computed again; None for what the run says.
        sequences: of a micro-batch; None for the most that fit and divide an update.

    Raises:
        ValueError: GPUs or sequences do not divide an update, a micro-batch does not fit (the sentence says what would), the
            GPU lacks the precision, or a share or a speed is impossible.
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
    if most < (sequences or 1):
        raise ValueError(_does_not_fit(run, gpu, gpus, checkpointed, sequences or 1, most))
    if sequences is None:
        sequences = next(s for s in range(min(share, most), 0, -1) if share % s == 0 and run.allows(s))
    elif not run.allows(sequences):
        raise ValueError(f"of {sequences} sequences fairseq makes batches of a multiple of {run.multiple}, required_batch_size_multiple")
    elif share % sequences:
        raise ValueError(f"a micro-batch of {sequences} sequences does not divide the {share:,} of an update on each of {gpus} GPUs")
    freq = share // sequences
    memory = memory_of(run, sequences, gpus, checkpointed)
    time = _time(run, gpu, gpus, sequences, freq, checkpointed, utilisation, network)
    reduced = formulas.parameters(run.model).learnt * formulas.bytes_of(run.precision) * (gpus > 1)
    return Plan(run, gpu, gpus, sequences, freq, checkpointed, memory, time, reduced)


def _time(
    run: Run, gpu: Gpu, gpus: int, sequences: int, freq: int, checkpointed: bool, utilisation: float, network: Optional[float]
) -> Time:
    peak = (gpu.single if run.precision == "fp32" else gpu.half) * 1e12 * utilisation
    flops = formulas.flops(run.model, run.batch(sequences), checkpointed=checkpointed)
    backward, compute = flops.backward / peak, freq * (flops.forward + flops.backward) / peak
    element, link = formulas.bytes_of(run.precision), gpu.slowest_link(gpus, network)
    size = formulas.parameters(run.model).learnt * element
    pieces = math.ceil(size / (run.bucket_mb * 2**20))
    reduce = formulas.all_reduce_seconds(size, gpus, link, pieces, LATENCY)
    # Every number of the optimizer is read and written once. All is there, or a G-th of it.
    states = formulas.states(run.model, run.precision)
    step = 2 * (states.weights + states.gradients + states.optimizer) / (gpus if run.sharded else 1) / (gpu.bandwidth * 1e9)
    if run.sharded:
        # Gathered for forward and for backward, and gradients scattered: half as much again [zero], for each micro-batch
        # (fairseq). Layers hide it behind each other, a model that is one unit does not.
        each = 1.5 * reduce
        whole = run.gathered(checkpointed) == formulas.parameters(run.model).learnt
        exposed = freq * (each if whole else max(each - compute / freq, each / (run.model.shape.layers + 1)))
        return Time(compute, freq * each, exposed, step)
    if run.ddp in ("legacy_ddp", "no_c10d"):
        return Time(compute, reduce, reduce, step)  # one buffer, after the backward pass
    last = formulas.all_reduce_seconds(formulas.embedding_parameters(run.model) * element, gpus, link, 1, LATENCY)
    return Time(compute, reduce, formulas.exposed_seconds(reduce, last, backward), step)


def _does_not_fit(run: Run, gpu: Gpu, gpus: int, checkpointed: bool, sequences: int, most: int) -> str:
    """One sentence, with what would fit."""
    need = memory_of(run, sequences, gpus, checkpointed).total
    advice: List[str] = [f"{most} do"] if most else []
    again = 0 if checkpointed else largest_batch(run, gpu, gpus, True)
    if again > most:
        advice.append("and " * bool(most) + f"{again} with +model.checkpoint_activations=true")
    if not advice:
        larger = [g.name for g in GPUS.values() if largest_batch(run, g, gpus, checkpointed)]
        advice.append(f"one sequence fits {', '.join(larger)}" if larger else "it fits none of the known GPUs")
    many = f"{sequences} sequences" if sequences > 1 else "one sequence"
    return (f"a micro-batch of {many} of {run.positions:,} tokens needs {need / GIB:.1f} GiB and does not fit {gpu.name}, "
            f"which has {gpu.usable / GIB:.1f} to use; {' '.join(advice)}")  # fmt: skip
