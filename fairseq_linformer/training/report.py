"""The output of ``fairseq-linformer plan``: one run in detail, or a checked table of all runs in a folder."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..benchmark.formulas import count_parameters
from ..benchmark.gpus import GIB, LINK_SHARE, Gpu
from .compose import compose_config, split_config
from .memory import Memory
from .plan import RunPlan, build_plan, build_plans, largest_micro_batch, micro_batch_memory
from .planned_run import VOCAB_SIZE, PlannedRun, build_run, count_built_parameters

PAPER_GPUS = 64


def format_plan(slowest: RunPlan, fastest: RunPlan) -> str:
    """Model, memory and time of a run, and the overrides for the planned micro-batch.

    Args:
        slowest, fastest: plans that differ in their utilization only (``build_plans``).
    """
    parts = [_heading(slowest), _memory(slowest), _time(slowest, fastest), _overrides(slowest)]
    return "\n\n".join("\n".join(part) for part in parts)


def _heading(plan: RunPlan) -> Iterator[str]:
    run, shape, count = plan.run, plan.run.model.shape, count_parameters(plan.run.model)
    k = f", k = {shape.projected_dim}, {shape.sharing}" if run.model.linear else ""
    yield (
        f"{run.architecture}, n = {run.positions:,}{k}: {count.trainable:,} parameters, {count.projections:,} of them "
        f"in E and F; {run.precision}, {run.ddp}"
    )
    yield (
        f"{run.tokens_per_update:,} tokens per update ({run.sequences_per_update:,} sequences), {run.updates:,} "
        f"updates, {plan.gpus:,} x {plan.gpu.name}"
    )


def _memory(plan: RunPlan) -> Iterator[str]:
    """A table of the YAML's micro-batch and the largest that fits, with activations stored and recomputed."""
    run, gpu, gpus = plan.run, plan.gpu, plan.gpus
    largest = [largest_micro_batch(run, gpu, gpus, checkpoint_activations) for checkpoint_activations in (False, True)]
    plans = [
        build_plan(run, gpu, gpus, checkpoint_activations=recomputed) if fits else None
        for recomputed, fits in zip((False, True), largest)
    ]
    columns: list[Memory | None] = [
        micro_batch_memory(run, run.sequences, gpus, recomputed) for recomputed in (False, True)
    ]
    columns += [largest_plan.memory if largest_plan else None for largest_plan in plans]
    counts = [run.sequences, run.sequences, *(largest_plan and largest_plan.sequences for largest_plan in plans)]
    yield f"{'memory per GPU, GiB':34}{'in the YAML':>22}{'largest that fits':>22}"
    yield f"{'activations':34}" + "".join(f"{word:>11}" for word in ("stored", "recomputed") * 2)
    yield f"{'sequences (batch_size)':34}" + "".join(f"{count or '-':>11}" for count in counts)
    for name in ("weights", "gradients", "optimizer", "buckets", "activations", "workspace", "total"):
        label = {"buckets": "all-reduce buckets", "total": f"total, of {gpu.usable / GIB:.1f}"}.get(name, name)
        yield f"{label:34}" + "".join(f"{getattr(m, name) / GIB:>11.2f}" if m else f"{'-':>11}" for m in columns)
    yield f"{'maximum number of sequences':56}" + "".join(f"{count:>11}" for count in largest)
    frequencies = [largest_plan.update_freq if largest_plan else "-" for largest_plan in plans]
    yield f"{'micro-batches per update':56}" + "".join(f"{frequency:>11}" for frequency in frequencies)


def _time(slowest: RunPlan, fastest: RunPlan) -> Iterator[str]:
    plan, both = slowest, (slowest, fastest)
    gbit = plan.gpu.network if plan.network is None else plan.network
    kind = "recomputed" if plan.checkpoint_activations else "stored"
    yield (
        f"{plan.sequences} sequences per micro-batch, activations {kind}; assuming "
        f"{format_range([p.utilization for p in both], 'g')} of {plan.peak:g} TFLOPS, and {LINK_SHARE:g} of NVLink and "
        f"of {gbit:g} Gbit/s per node:"
    )
    if (slowest.utilization, fastest.utilization) == plan.gpu.utilization(plan.run.precision):
        yield f"  utilization as published for {', to '.join(plan.gpu.sources(plan.run.precision))}"
    if plan.gpus > 1:
        yield (
            f"  all-reduce of {plan.all_reduce_bytes / 1e6:,.0f} MB in {plan.buckets} buckets: "
            f"{1000 * plan.time.communication:.1f} ms, {format_range([1000 * p.time.exposed for p in both], '.1f')} "
            "ms of them not hidden"
        )
    yield (
        f"  {format_range([p.time.total for p in both], '.3f')} s per update: "
        f"computation {format_range([p.time.compute for p in both], '.3f')}, "
        f"communication {format_range([p.time.exposed for p in both], '.3f')}, optimizer {plan.time.step:.3f}"
    )
    yield (
        f"  {format_range([p.tokens_per_second for p in both], ',.0f')} tokens per second, "
        f"{format_range([p.hours for p in both], ',.1f')} hours, "
        f"{format_range([p.gpu_hours for p in both], ',.0f')} GPU-hours"
    )


def format_range(values: Sequence[float], spec: str) -> str:
    """``LOW to HIGH`` in a format specification, or one number if both read the same."""
    return " to ".join(dict.fromkeys(format(value, spec) for value in sorted(values)))


def _overrides(plan: RunPlan) -> Iterator[str]:
    yield "for fairseq-hydra-train:"
    no_token_limit = " dataset.max_tokens=null" if plan.run.max_tokens else ""
    yield (
        f"  dataset.batch_size={plan.sequences}{no_token_limit} optimization.update_freq=[{plan.update_freq}] "
        f"distributed_training.distributed_world_size={plan.gpus}"
    )


# ---- all runs of a folder

_NAMED = re.compile(r"n\d+-(k\d+-.+|roberta)")
"""Names of the paper's runs, which contain their values."""


def check_runs(config, gpu: Gpu, gpus: int | None, utilization: float | None, network: float | None) -> str:
    """A table with one line per run, the base first. Each model is built on fake tensors.

    Args:
        config: the base, or any run.
        gpus: number of GPUs; None for the paper's 64.
        utilization: share of the GPU's peak; None for its published range.

    Raises:
        ValueError: a configuration contradicts its name or the base; the message has one line per problem.
    """
    gpus = PAPER_GPUS if gpus is None else gpus
    base = split_config(config)[0]
    reference = build_run(compose_config(base), VOCAB_SIZE)
    lines = [
        f"{'run':24}{'parameters':>13}{'tokens per update':>18}{'batch_size':>12}{f'on {gpus} x {gpu.name}:':>24}"
        f"{'GiB':>7}{'recomputed':>12}{'hours':>18}{'GPU-hours':>20}"
    ]
    problems = list(_conflicting_gpus(reference, base, base))
    for path in [base, *sorted(base.parent.glob("run/*.yaml"), key=_by_numbers)]:
        try:
            run, run_problems = check_run(path, base, reference)
            problems += run_problems
            lines.append(_line(run, path.stem, gpu, gpus, utilization, network))
            if (
                not run.cpu
                and micro_batch_memory(run, run.sequences, gpus, run.checkpoint_activations).total > gpu.usable
            ):
                problems.append(f"{path.stem}: batch_size {run.sequences} does not fit on {gpu.name}")
        except ValueError as error:
            problems.append(f"{path.stem}: {error}")
    if problems:
        raise ValueError("\n".join([f"{len(problems)} problems in {base.parent}:", *problems]))
    lines.append(
        f"all {len(lines) - 1} agree: the formulas count the parameters that fairseq builds, and tokens per update are "
        "equal for all numbers of GPUs and, in the paper's runs, all n"
    )
    return "\n".join(lines)


def check_run(path: Path, base: Path, reference: PlannedRun) -> tuple[PlannedRun, list[str]]:
    """Read a run and list its problems."""
    cfg = compose_config(path)
    run = build_run(cfg, VOCAB_SIZE)
    return run, [f"{path.stem}: {problem}" for problem in _problems(cfg, run, path, base, reference)]


def _problems(cfg, run: PlannedRun, path: Path, base: Path, reference: PlannedRun) -> Iterator[str]:
    built, counted = count_built_parameters(cfg), count_parameters(run.model).trainable
    if built != counted:
        yield f"fairseq builds {built:,} parameters, the formulas count {counted:,}"
    if run.warmup >= run.updates:
        yield f"warmup_updates must be less than max_update ({run.updates:,}), got {run.warmup:,}"
    if any(rate <= 0 for rate in cfg.optimization.lr):
        yield f"lr must be above 0, got {list(cfg.optimization.lr)}"
    if _NAMED.fullmatch(path.stem):
        shape = run.model.shape
        name = f"n{run.positions}-" + (f"k{shape.projected_dim}-{shape.sharing}" if run.model.linear else "roberta")
        if name != path.stem:
            yield f"with these values the name must be {name}"
        if shape.max_positions != run.positions:
            yield f"max_positions must be tokens_per_sample ({run.positions}), got {shape.max_positions}"
        for field in ("tokens_per_update", "updates"):
            if (value := getattr(run, field)) != (expected := getattr(reference, field)):
                yield f"{field} must be {expected:,}, as in the base, got {value:,}"
    # The base covers runs that keep the values which gpus/ overrides.
    if not run.cpu and (run.update_freq, run.gpus) != (reference.update_freq, reference.gpus):
        yield from _conflicting_gpus(run, path, base)


def _conflicting_gpus(run: PlannedRun, path: Path, base: Path) -> Iterator[str]:
    """Overrides in gpus/ that change the tokens per update."""
    for other in sorted(base.parent.glob("gpus/*.yaml"), key=_by_numbers):
        tokens = build_run(compose_config(path, [f"+gpus={other.stem}"]), VOCAB_SIZE).tokens_per_update
        if tokens != run.tokens_per_update:
            yield f"tokens per update must be {run.tokens_per_update:,} with +gpus={other.stem} too, got {tokens:,}"


def _by_numbers(path: Path) -> tuple:
    """Sort n512 before n1024; names without numbers last."""
    numbers = [int(number) for number in re.findall(r"\d+", path.stem)]
    return (not numbers, numbers, path.stem)


def _line(run: PlannedRun, name: str, gpu: Gpu, gpus: int, utilization: float | None, network: float | None) -> str:
    start = f"{name:24}{count_parameters(run.model).trainable:>13,}{run.tokens_per_update:>18,}{run.sequences:>12}"
    if run.cpu:
        return f"{start}{'(on a CPU)':>24}"
    stored, recomputed = (micro_batch_memory(run, run.sequences, gpus, each).total / GIB for each in (False, True))
    plans = build_plans(run, gpu, gpus, utilization, network)
    hours = format_range([plan.hours for plan in plans], ",.1f")
    gpu_hours = format_range([plan.gpu_hours for plan in plans], ",.0f")
    return f"{start}{'':24}{stored:>7.2f}{recomputed:>12.2f}{hours:>18}{gpu_hours:>20}"
