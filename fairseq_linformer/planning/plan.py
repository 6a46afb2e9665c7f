"""One run on a number of GPUs: the micro-batches that fit, and how long it takes.

    [ring] Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
    [ddp]  Li et al. 2020, "PyTorch Distributed", section 3.2: buckets, reduced during the backward pass
    [zero] Rajbhandari et al. 2020, "ZeRO", section 7: what sharding sends
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Optional

from .configs import Run
from .formulas import embedding_parameters, flops, parameters
from .gpus import GIB, GPUS, LATENCY, Gpu
from .memory import Memory, activations, bytes_of, gathered_parameters, states

UTILISATION = 0.3
"""ASSUMED share of a GPU's peak in matrix products. Shoeybi et al. 2019 ("Megatron-LM", section 5.1) measured 0.30 on
one V100 with a model ten times as large; a small micro-batch gets less."""


@dataclass(frozen=True)
class Time:
    """Seconds per update, on each GPU."""

    compute: float
    communication: float
    """All of it, hidden or not."""
    exposed: float
    """What computing does not hide."""
    step: float
    """Of the optimizer."""

    @property
    def total(self) -> float:
        return self.compute + self.exposed + self.step


@dataclass(frozen=True)
class Plan:
    """A run on GPUs of one kind."""

    run: Run
    gpu: Gpu
    gpus: int
    checkpointed: bool
    """Activations are recomputed."""
    sequences: int
    """Of a micro-batch."""
    update_freq: int
    utilisation: float
    """Share of the GPU's peak that computing gets."""
    network: Optional[float]
    """10^9 bits a second of a node; None for the GPU's DGX."""

    @cached_property
    def memory(self) -> Memory:
        """Of each GPU."""
        return memory_of(self.run, self.sequences, self.gpus, self.checkpointed)

    @property
    def reduced(self) -> int:
        """Bytes of the all-reduce of an update."""
        return parameters(self.run.model).learnt * bytes_of(self.run.precision) * (self.gpus > 1)

    @property
    def buckets(self) -> int:
        return math.ceil(self.reduced / (self.run.bucket_mb * 2**20))

    @property
    def peak(self) -> float:
        """Of the GPU, in 10^12 operations a second."""
        return self.gpu.single if self.run.precision == "fp32" else self.gpu.half

    @cached_property
    def time(self) -> Time:
        run, freq, link = self.run, self.update_freq, self.gpu.slowest_link(self.gpus, self.network)
        work = flops(run.model, run.batch(self.sequences), checkpointed=self.checkpointed)
        per_second = self.peak * 1e12 * self.utilisation
        compute = freq * (work.forward + work.backward) / per_second
        reduce = all_reduce_seconds(self.reduced, self.gpus, link, self.buckets, LATENCY)
        # Every number of the optimizer is read and written once. All is there, or a G-th of it.
        held = states(run.model, run.precision)
        moved = 2 * (held.weights + held.gradients + held.optimizer) / (self.gpus if run.sharded else 1)
        step = moved / (self.gpu.bandwidth * 1e9)
        if run.sharded:
            # Gathered for forward and for backward, and gradients scattered: half as much again [zero], for each
            # micro-batch (fairseq). Layers hide it behind each other, a model that is one unit does not.
            each = 1.5 * reduce
            whole = _gathered(run, self.checkpointed) == parameters(run.model).learnt
            exposed = freq * (each if whole else max(each - compute / freq, each / (run.model.shape.layers + 1)))
            return Time(compute, freq * each, exposed, step)
        if run.ddp in ("legacy_ddp", "no_c10d"):
            return Time(compute, reduce, reduce, step)  # one buffer, after the backward pass
        # The backward pass of the last micro-batch, the only one that reduces, hides the rest [ddp], but not the tied
        # embeddings: their gradient is complete when it is over.
        embeddings = embedding_parameters(run.model) * bytes_of(run.precision)
        tied = all_reduce_seconds(embeddings, self.gpus, link, 1, LATENCY)
        return Time(compute, reduce, max(reduce - work.backward / per_second, tied), step)

    @property
    def tokens_a_second(self) -> float:
        return self.run.tokens_of_update / self.time.total

    @property
    def hours(self) -> float:
        return self.run.updates * self.time.total / 3600

    @property
    def gpu_hours(self) -> float:
        return self.hours * self.gpus


def make_plan(
    run: Run,
    gpu: Gpu,
    gpus: Optional[int] = None,
    utilisation: float = UTILISATION,
    network: Optional[float] = None,
    checkpointed: Optional[bool] = None,
) -> Plan:
    """With the largest micro-batch that fits and divides an update, which keeps its tokens.

    Args:
        gpus, checkpointed: None for those of the run.
        utilisation, network: as of ``Plan``.

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
    return Plan(run, gpu, gpus, checkpointed, sequences, share // sequences, utilisation, network)


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
        raise ValueError(f"{gpus:,} GPUs do not divide the {sequences:,} sequences of an update "
                         f"({run.tokens_of_update:,} tokens, n = {run.positions:,}); these do: "
                         f"{', '.join(map(str, sorted(near)))}")  # fmt: skip
    return sequences // gpus


def largest_batch(run: Run, gpu: Gpu, gpus: int, checkpointed: bool) -> int:
    """Sequences of the largest micro-batch that fits; 0 if none does."""
    held = states(run.model, run.precision, gpus, _gathered(run, checkpointed))
    counts = range(1, int(gpu.usable))  # a sequence takes more than a byte
    return bisect_right(counts, gpu.usable, key=lambda count: _with_activations(held, run, count, checkpointed).total)


def memory_of(run: Run, sequences: int, gpus: int, checkpointed: bool) -> Memory:
    """Of a GPU with a micro-batch of so many sequences."""
    held = states(run.model, run.precision, gpus, _gathered(run, checkpointed))
    return _with_activations(held, run, sequences, checkpointed)


def _with_activations(held: Memory, run: Run, sequences: int, checkpointed: bool) -> Memory:
    kept = activations(run.model, bytes_of(run.precision), run.batch(sequences), checkpointed)
    # The optimizer's step comes when activations are gone.
    return replace(held, activations=kept.saved, workspace=max(kept.workspace, held.workspace - kept.saved))


def _gathered(run: Run, checkpointed: bool) -> Optional[int]:
    """Parameters that are whole at once when they are sharded; None if they are not."""
    return gathered_parameters(run.model, 0 if checkpointed else run.wrap_from) if run.sharded else None


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
