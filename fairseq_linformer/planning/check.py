"""All runs of a folder of configurations: each is built, without memory for it, and compared with what it should be."""

import re
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from . import formulas
from .configs import VOCABULARY, Run, compose_config, count_built, run_of, split_config
from .gpus import GIB, Gpu
from .plan import make_plan, memory_of

_NAME = re.compile(r"n(?P<n>\d+)-(?:k(?P<k>\d+)-(?P<sharing>.+)|roberta)")
"""What a run of the paper is called: by what it is."""


def check(config, gpu: Gpu, gpus: Optional[int], utilisation: float, network: Optional[float]) -> str:
    """A table with a line for each run, the base first.

    Args:
        config: the base, or any run.
        gpus: None for 64, the paper's.

    Raises:
        ValueError: something does not agree; a line for each.
    """
    gpus = 64 if gpus is None else gpus
    base = split_config(config)[0]
    reference = run_of(compose_config(base), "base", VOCABULARY)
    lines, problems = [_header(gpu, gpus)], list(_gpus_that_disagree(base, reference))
    for path in [base, *sorted(base.parent.glob("run/*.yaml"), key=_by_numbers)]:
        try:
            run, found = check_run(path, base, reference)
            problems += found
            lines.append(_line(run, path, gpu, gpus, utilisation, network))
            if not run.cpu and memory_of(run, run.sequences, gpus, run.checkpointed).total > gpu.usable:
                problems.append(f"{path.stem}: batch_size {run.sequences} does not fit {gpu.name}")
        except ValueError as error:
            problems.append(f"{path.stem}: {error}")
    if problems:
        raise ValueError("\n".join([f"{len(problems)} of what {base.parent} says does not agree:", *problems]))
    lines.append(f"all {len(lines) - 1} agree: built without memory, with as many parameters as the formulas have, and with as "
                 "many tokens an update for every number of GPUs, and in the paper's runs for every n")  # fmt: skip
    return "\n".join(lines)


def _gpus_that_disagree(base: Path, reference: Run, path: Optional[Path] = None) -> Iterator[str]:
    """Overrides in gpus/ that change the tokens of an update of a run; of the base if no other is given."""
    for other in sorted(base.parent.glob("gpus/*.yaml"), key=_by_numbers):
        there = run_of(compose_config(path or base, [f"+gpus={other.stem}"]), other.stem, VOCABULARY)
        if there.tokens_of_update != reference.tokens_of_update:
            yield f"with +gpus={other.stem} an update has {there.tokens_of_update:,} tokens, without {reference.tokens_of_update:,}"


def check_run(path: Path, base: Path, reference: Run) -> Tuple[Run, List[str]]:
    """One run, and what is wrong with it."""
    cfg = compose_config(path)
    run = run_of(cfg, path.stem, VOCABULARY)
    return run, [f"{path.stem}: {problem}" for problem in _problems(cfg, run, path, base, reference)]


def _problems(cfg, run: Run, path: Path, base: Path, reference: Run) -> Iterator[str]:
    built, counted = count_built(cfg, VOCABULARY), formulas.parameters(run.model).learnt
    if built != counted:
        yield f"{built:,} parameters are built, and the formulas have {counted:,}"
    if run.warmup >= run.updates:
        yield f"warmup_updates is {run.warmup:,}, and max_update {run.updates:,}; it must be less"
    if any(rate <= 0 for rate in cfg.optimization.lr):
        yield f"lr is {list(cfg.optimization.lr)}; it must be above 0"
    said = _NAME.fullmatch(path.stem)
    if said:
        yield from _not_as_named(run, said)
        for what in ("tokens_of_update", "updates"):
            if getattr(run, what) != getattr(reference, what):
                yield f"{what} is {getattr(run, what):,}, and in the base {getattr(reference, what):,}"
    # What gpus/ overrides is the same as in the base, where they have been tried; a run for a CPU is not for GPUs.
    if not run.cpu and (run.update_freq, run.gpus) != (reference.update_freq, reference.gpus):
        yield from _gpus_that_disagree(base, run, path)


def _not_as_named(run: Run, said: "re.Match[str]") -> Iterator[str]:
    shape = run.model.shape
    if not int(said["n"]) == run.positions == shape.max_positions:
        yield f"n is {run.positions} in samples and {shape.max_positions} in the model"
    if run.model.linear != bool(said["k"]):
        yield f"the model is {run.architecture}"
    elif run.model.linear and (str(shape.projected_dim), shape.sharing) != (said["k"], said["sharing"]):
        yield f"k is {shape.projected_dim}, and sharing {shape.sharing}"


def _by_numbers(path: Path):
    """n512 before n1024; names without numbers last."""
    numbers = [int(number) for number in re.findall(r"\d+", path.stem)]
    return (not numbers, numbers, path.stem)


def _header(gpu: Gpu, gpus: int) -> str:
    where = f"on {gpus} x {gpu.name}:"
    return (f"{'run':24}{'parameters':>13}{'tokens an update':>18}{'batch_size':>12}{where:>24}"
            f"{'GiB':>7}{'recomputed':>12}{'hours':>8}{'GPU-hours':>11}")  # fmt: skip


def _line(run: Run, path: Path, gpu: Gpu, gpus: int, utilisation: float, network: Optional[float]) -> str:
    start = f"{path.stem:24}{formulas.parameters(run.model).learnt:>13,}{run.tokens_of_update:>18,}{run.sequences:>12}"
    if run.cpu:
        return f"{start}{'(on a CPU)':>24}"
    memory = [memory_of(run, run.sequences, gpus, again).total / GIB for again in (False, True)]
    plan = make_plan(run, gpu, gpus, utilisation, network)
    return f"{start}{'':24}{memory[0]:>7.2f}{memory[1]:>12.2f}{plan.hours:>8,.1f}{plan.gpu_hours:>11,.0f}"
