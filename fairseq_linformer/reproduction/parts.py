"""`reproduce NAME`: the parts of an experiment that are measured, one after the other, and their results."""

import fcntl
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ..files import check_can_be_written
from ..machine import clean_commit
from .result import Inputs, read, write


def measure_parts(
    module: ModuleType,
    experiment: str,
    scale: str,
    part: str | None,
    runs: str,
    results: str,
    missing: bool = False,
    **given: Any,
) -> Iterator[str]:
    """Measure parts of an experiment, and describe the results and their verdicts.

    Args:
        experiment: its name, such as ``figure-3``.
        part: None for all parts whose inputs are given.
        missing: leave out the parts that the results have and those that another process measures.
        given: the options of ``OPTIONS`` that the user gave.
    """
    parts: Iterable[str] = choose_parts(module, experiment, scale, part, given)
    path = Path(results, experiment.replace("-", "_"), f"{scale}.json")
    check_can_be_written(path.parent)
    check_can_be_written(runs)
    if scale != "smoke":
        clean_commit()  # a result can be measured again at its commit
    command = describe_command(experiment, scale, part, given)
    for each in lock_missing(parts, Path(runs, scale), experiment, path) if missing else parts:
        result = module.run(Inputs(each, scale, command, Path(runs), **given))
        write(result, path)
        yield f"{result.part}: {path}"
    for verdict in module.verdicts(read(path)):
        if verdict.checks:
            yield f"{verdict.outcome}: {verdict.claim}"
            yield from (f"  {number}" for number in [*verdict.numbers, *verdict.remarks])
    yield "`fairseq-linformer reproduce report` writes the pages"


def choose_parts(
    module: ModuleType, experiment: str, scale: str, part: str | None, given: Mapping[str, Any]
) -> list[str]:
    """The parts that are measured: those whose inputs are given. An input that none of them reads is an error."""
    if scale not in module.PARTS:
        raise ValueError(f"{experiment} has no --scale {scale}; choose from {', '.join(module.PARTS)}")
    parts: dict[str, tuple[str, ...]] = module.PARTS[scale]
    if part is not None:
        if part not in parts:
            raise ValueError(f"{experiment} has no --part {part!r} at this scale; choose from {'; '.join(parts)}")
        parts = {part: parts[part]}
    chosen = [part for part, reads in parts.items() if {*reads} <= {*given}]
    if not chosen or given.keys() - {name for part in chosen for name in parts[part]}:
        needs = " or ".join(dict.fromkeys(_flags(reads) or "no input" for reads in parts.values()))
        raise ValueError(f"{experiment} reads {needs} at this scale, got {_flags(sorted(given)) or 'none'}")
    return chosen


def _flags(names: Iterable[str]) -> str:
    return " ".join(f"--{name}" for name in names)


def lock_missing(parts: Iterable[str], folder: Path, experiment: str, path: Path) -> Iterator[str]:
    """The parts that the results lack and no other process measures, each locked until the next one is taken."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        with open(folder / f".{experiment} {part}.lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if part not in {result.part for result in read(path)}:
                yield part


def describe_command(experiment: str, scale: str, part: str | None, given: Mapping[str, Any]) -> str:
    """The command for results; paths are reduced to their last part."""
    words = ["fairseq-linformer", "reproduce", experiment, "--scale", scale, *(["--part", part] if part else [])]
    for name, value in given.items():
        for each in value if name == "source" else [value]:
            words += [f"--{name}", Path(each).resolve().name if Path(each).exists() else str(each)]
    return shlex.join(words)
