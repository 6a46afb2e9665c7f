"""A plan in words and tables."""

from typing import Iterator, List, Optional

from . import formulas
from .configs import Run
from .gpus import GIB, LINK_SHARE, Gpu
from .plan import Memory, Plan, largest_batch, make_plan, memory_of


def plan_text(run: Run, gpu: Gpu, gpus: int, utilisation: float, network: Optional[float]) -> str:
    """What ``fairseq-linformer plan`` prints.

    Raises:
        ValueError: as ``make_plan``.
    """
    plans = [_attempt(run, gpu, gpus, utilisation, network, checkpointed) for checkpointed in (False, True)]
    chosen = make_plan(run, gpu, gpus, utilisation, network)
    parts = [_heading(run, gpu, gpus), _memory(run, gpu, gpus, plans), _time(chosen, utilisation, network), _overrides(chosen)]
    return "\n\n".join("\n".join(part) for part in parts)


def _attempt(run, gpu, gpus, utilisation, network, checkpointed) -> Optional[Plan]:
    try:
        return make_plan(run, gpu, gpus, utilisation, network, checkpointed)
    except ValueError:
        return None


def describe(run: Run) -> str:
    """Architecture, n, and of a Linformer k and sharing."""
    shape = run.model.shape
    k = f", k = {shape.projected_dim}, {shape.sharing}" if run.model.linear else ""
    return f"{run.architecture}, n = {run.positions:,}{k}"


def _heading(run: Run, gpu: Gpu, gpus: int) -> Iterator[str]:
    learnt = formulas.parameters(run.model).learnt
    inside = sum(p.entries for p in formulas.projections_of(run.model) if p.learns)
    yield f"{describe(run)}: {learnt:,} parameters, {inside:,} of them in E and F; {run.precision}, {run.ddp}"
    yield (f"{run.tokens_of_update:,} tokens an update ({run.sequences_of_update:,} sequences), {run.updates:,} updates, "
           f"{gpus:,} x {gpu.name}")  # fmt: skip


def _memory(run: Run, gpu: Gpu, gpus: int, plans: List[Optional[Plan]]) -> Iterator[str]:
    """A table: the micro-batch of the YAML and the largest that fits, each stored and recomputed."""
    columns: List[Memory] = [memory_of(run, run.sequences, gpus, again) for again in (False, True)]
    columns += [plan.memory if plan else None for plan in plans]
    counts = [run.sequences, run.sequences, *(plan.sequences if plan else 0 for plan in plans)]
    yield f"{'memory of a GPU, GiB':34}{'as written':>22}{'largest that fits':>22}"
    yield f"{'activations are':34}" + "".join(f"{word:>11}" for word in ("stored", "recomputed") * 2)
    yield f"{'sequences at once (batch_size)':34}" + "".join(f"{count or '-':>11}" for count in counts)
    for name in ("weights", "gradients", "optimizer", "buckets", "activations", "workspace", "total"):
        label = {"buckets": "all-reduce buckets", "total": f"in all, of {gpu.usable / GIB:.1f}"}.get(name, name)
        yield f"{label:34}" + "".join(f"{getattr(m, name) / GIB:>11.2f}" if m else f"{'-':>11}" for m in columns)
    most = [largest_batch(run, gpu, gpus, again) for again in (False, True)]
    yield f"{'sequences that memory allows':34}{'':22}" + "".join(f"{count:>11}" for count in most)
    yield f"{'micro-batches an update':34}{'':22}" + "".join(f"{plan.update_freq if plan else '-':>11}" for plan in plans)


def _time(plan: Plan, utilisation: float, network: Optional[float]) -> Iterator[str]:
    run, t = plan.run, plan.time
    gbit = plan.gpu.network if network is None else network
    kind = "recomputed" if plan.checkpointed else "stored"
    peak = plan.gpu.single if run.precision == "fp32" else plan.gpu.half
    yield (f"{plan.sequences} sequences at once, activations {kind}; assumed {utilisation:g} of {peak:g} TFLOPS, and {LINK_SHARE:g} of NVLink "
           f"and of {gbit:g} Gbit/s a node:")  # fmt: skip
    if plan.gpus > 1:
        pieces = -(-plan.reduced // (run.bucket_mb * 2**20))
        word = "gathered and scattered" if run.sharded else "all-reduce"
        yield (f"  {word} {plan.reduced / 1e6:,.0f} MB in {pieces} buckets: {1000 * t.communication:.1f} ms, of which "
               f"{1000 * t.exposed:.1f} ms are not hidden")  # fmt: skip
    yield f"  an update takes {t.total:.3f} s: computing {t.compute:.3f}, communication {t.exposed:.3f}, optimizer {t.step:.3f}"
    yield f"  {plan.tokens_a_second:,.0f} tokens a second, {plan.hours:,.1f} hours, {plan.gpu_hours:,.0f} GPU-hours"


def _overrides(plan: Plan) -> Iterator[str]:
    yield "for fairseq-hydra-train:"
    again = " +model.checkpoint_activations=true" if plan.checkpointed and not plan.run.checkpointed else ""
    yield (f"  dataset.batch_size={plan.sequences} optimization.update_freq=[{plan.update_freq}] "
           f"distributed_training.distributed_world_size={plan.gpus}{again}")  # fmt: skip
