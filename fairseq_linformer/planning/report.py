"""What ``fairseq-linformer plan`` prints: one run in detail, or a table of all runs of a folder, which are checked."""

import re
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from .configs import VOCABULARY, Run, compose_config, count_built, run_of, split_config
from .formulas import parameters
from .gpus import GIB, LINK_SHARE, Gpu
from .plan import Plan, largest_batch, make_plan, memory_of

PAPER_GPUS = 64


def plan_text(plan: Plan) -> str:
    """One run: its model, memory, time, and the overrides that make it run so."""
    parts = [_heading(plan), _memory(plan), _time(plan), _overrides(plan)]
    return "\n\n".join("\n".join(part) for part in parts)


def _heading(plan: Plan) -> Iterator[str]:
    run, shape, count = plan.run, plan.run.model.shape, parameters(plan.run.model)
    k = f", k = {shape.projected_dim}, {shape.sharing}" if run.model.linear else ""
    yield (f"{run.architecture}, n = {run.positions:,}{k}: {count.learnt:,} parameters, {count.projections:,} of them "
           f"in E and F; {run.precision}, {run.ddp}")  # fmt: skip
    yield (f"{run.tokens_of_update:,} tokens an update ({run.sequences_of_update:,} sequences), {run.updates:,} "
           f"updates, {plan.gpus:,} x {plan.gpu.name}")  # fmt: skip


def _memory(plan: Plan) -> Iterator[str]:
    """A table: the micro-batch of the YAML and the largest that fits, each stored and recomputed."""
    run, gpu, gpus = plan.run, plan.gpu, plan.gpus
    most = [largest_batch(run, gpu, gpus, again) for again in (False, True)]
    plans = [make_plan(run, gpu, gpus, checkpointed=again) if most[again] else None for again in (False, True)]
    columns = [memory_of(run, run.sequences, gpus, again) for again in (False, True)]
    columns += [fits and fits.memory for fits in plans]
    counts = [run.sequences, run.sequences, *(fits and fits.sequences for fits in plans)]
    yield f"{'memory of a GPU, GiB':34}{'as written':>22}{'largest that fits':>22}"
    yield f"{'activations are':34}" + "".join(f"{word:>11}" for word in ("stored", "recomputed") * 2)
    yield f"{'sequences at once (batch_size)':34}" + "".join(f"{count or '-':>11}" for count in counts)
    for name in ("weights", "gradients", "optimizer", "buckets", "activations", "workspace", "total"):
        label = {"buckets": "all-reduce buckets", "total": f"in all, of {gpu.usable / GIB:.1f}"}.get(name, name)
        yield f"{label:34}" + "".join(f"{getattr(m, name) / GIB:>11.2f}" if m else f"{'-':>11}" for m in columns)
    yield f"{'sequences that memory allows':56}" + "".join(f"{count:>11}" for count in most)
    yield f"{'micro-batches an update':56}" + "".join(f"{fits.update_freq if fits else '-':>11}" for fits in plans)


def _time(plan: Plan) -> Iterator[str]:
    t, gbit = plan.time, plan.gpu.network if plan.network is None else plan.network
    kind = "recomputed" if plan.checkpointed else "stored"
    yield (f"{plan.sequences} sequences at once, activations {kind}; assumed {plan.utilisation:g} of {plan.peak:g} "
           f"TFLOPS, and {LINK_SHARE:g} of NVLink and of {gbit:g} Gbit/s a node:")  # fmt: skip
    if plan.gpus > 1:
        word = "gathered and scattered" if plan.run.sharded else "all-reduce"
        yield (f"  {word} {plan.reduced / 1e6:,.0f} MB in {plan.buckets} buckets: {1000 * t.communication:.1f} ms, of "
               f"which {1000 * t.exposed:.1f} ms are not hidden")  # fmt: skip
    yield (f"  an update takes {t.total:.3f} s: computing {t.compute:.3f}, communication {t.exposed:.3f}, "
           f"optimizer {t.step:.3f}")  # fmt: skip
    yield f"  {plan.tokens_a_second:,.0f} tokens a second, {plan.hours:,.1f} hours, {plan.gpu_hours:,.0f} GPU-hours"


def _overrides(plan: Plan) -> Iterator[str]:
    yield "for fairseq-hydra-train:"
    again = " +model.checkpoint_activations=true" if plan.checkpointed and not plan.run.checkpointed else ""
    yield (f"  dataset.batch_size={plan.sequences} optimization.update_freq=[{plan.update_freq}] "
           f"distributed_training.distributed_world_size={plan.gpus}{again}")  # fmt: skip


# ---- all runs of a folder

_NAMED = re.compile(r"n\d+-(k\d+-.+|roberta)")
"""A run of the paper is named after what it is."""


def check(config, gpu: Gpu, gpus: Optional[int], utilisation: float, network: Optional[float]) -> str:
    """A table with a line for each run, the base first. Each is built, without memory for it.

    Args:
        config: the base, or any run.
        gpus: None for the paper's.

    Raises:
        ValueError: a configuration is not what its name or the base says; a line for each problem.
    """
    gpus = PAPER_GPUS if gpus is None else gpus
    base = split_config(config)[0]
    reference = run_of(compose_config(base), VOCABULARY)
    lines = [f"{'run':24}{'parameters':>13}{'tokens an update':>18}{'batch_size':>12}{f'on {gpus} x {gpu.name}:':>24}"
             f"{'GiB':>7}{'recomputed':>12}{'hours':>8}{'GPU-hours':>11}"]  # fmt: skip
    problems = list(_gpus_that_disagree(reference, base, base))
    for path in [base, *sorted(base.parent.glob("run/*.yaml"), key=_by_numbers)]:
        try:
            run, found = check_run(path, base, reference)
            problems += found
            lines.append(_line(run, path.stem, gpu, gpus, utilisation, network))
            if not run.cpu and memory_of(run, run.sequences, gpus, run.checkpointed).total > gpu.usable:
                problems.append(f"{path.stem}: batch_size {run.sequences} does not fit {gpu.name}")
        except ValueError as error:
            problems.append(f"{path.stem}: {error}")
    if problems:
        raise ValueError("\n".join([f"{len(problems)} of what {base.parent} says does not agree:", *problems]))
    lines.append(f"all {len(lines) - 1} agree: built without memory, with as many parameters as the formulas have, and "
                 "as many tokens per update for every number of GPUs and, in the paper's runs, every n")  # fmt: skip
    return "\n".join(lines)


def check_run(path: Path, base: Path, reference: Run) -> Tuple[Run, List[str]]:
    """One run, and what is wrong with it."""
    cfg = compose_config(path)
    run = run_of(cfg, VOCABULARY)
    return run, [f"{path.stem}: {problem}" for problem in _problems(cfg, run, path, base, reference)]


def _problems(cfg, run: Run, path: Path, base: Path, reference: Run) -> Iterator[str]:
    built, counted = count_built(cfg), parameters(run.model).learnt
    if built != counted:
        yield f"{built:,} parameters are built, and the formulas have {counted:,}"
    if run.warmup >= run.updates:
        yield f"warmup_updates is {run.warmup:,}, and max_update {run.updates:,}; it must be less"
    if any(rate <= 0 for rate in cfg.optimization.lr):
        yield f"lr is {list(cfg.optimization.lr)}; it must be above 0"
    if _NAMED.fullmatch(path.stem):
        shape = run.model.shape
        name = f"n{run.positions}-" + (f"k{shape.projected_dim}-{shape.sharing}" if run.model.linear else "roberta")
        if name != path.stem:
            yield f"its values are those of {name}"
        if shape.max_positions != run.positions:
            yield f"n is {run.positions} in samples and {shape.max_positions} in the model"
        for what in ("tokens_of_update", "updates"):
            if getattr(run, what) != getattr(reference, what):
                yield f"{what} is {getattr(run, what):,}, and in the base {getattr(reference, what):,}"
    # A run that leaves alone what gpus/ overrides is covered by the base; a run for a CPU is not for GPUs.
    if not run.cpu and (run.update_freq, run.gpus) != (reference.update_freq, reference.gpus):
        yield from _gpus_that_disagree(run, path, base)


def _gpus_that_disagree(run: Run, path: Path, base: Path) -> Iterator[str]:
    """Overrides in gpus/ that change the tokens of an update."""
    for other in sorted(base.parent.glob("gpus/*.yaml"), key=_by_numbers):
        tokens = run_of(compose_config(path, [f"+gpus={other.stem}"]), VOCABULARY).tokens_of_update
        if tokens != run.tokens_of_update:
            yield f"with +gpus={other.stem} an update has {tokens:,} tokens, without {run.tokens_of_update:,}"


def _by_numbers(path: Path):
    """n512 before n1024; names without numbers last."""
    numbers = [int(number) for number in re.findall(r"\d+", path.stem)]
    return (not numbers, numbers, path.stem)


def _line(run: Run, name: str, gpu: Gpu, gpus: int, utilisation: float, network: Optional[float]) -> str:
    start = f"{name:24}{parameters(run.model).learnt:>13,}{run.tokens_of_update:>18,}{run.sequences:>12}"
    if run.cpu:
        return f"{start}{'(on a CPU)':>24}"
    stored, recomputed = (memory_of(run, run.sequences, gpus, again).total / GIB for again in (False, True))
    plan = make_plan(run, gpu, gpus, utilisation, network)
    return f"{start}{'':24}{stored:>7.2f}{recomputed:>12.2f}{plan.hours:>8,.1f}{plan.gpu_hours:>11,.0f}"
