"""Reproduce a table, figure or theorem of the paper. Rerun to resume.

fairseq-linformer reproduce figure-3 --part a --scale cpu --data data/wiki
fairseq-linformer reproduce report --results results
"""

import argparse
import fcntl
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .parsers import add_shared, flag_of


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    names = "experiment, such as figure-3; list, to show all; or report, to write the pages and charts of results"
    add("experiment", metavar="NAME|list|report", help=names)
    add("--scale", default="cpu", help="size of the experiment: smoke, cpu, encoder, gpu or paper")
    add("--part", default=None, help="a part of the experiment (default: all parts whose inputs are given)")
    missing = "only the parts that the results lack and no other process measures; run it once per core"
    add("--missing", action="store_true", help=missing)
    add("--data", type=Path, metavar="FOLDER", help="folder of text that `prepare pretraining` wrote")
    tasks = "folder of the prepared tasks sst-2, imdb, qnli and qqp; for models of another n, imdb-n256 and so on"
    add("--tasks", type=Path, metavar="FOLDER", help=tasks)
    add("--encoder", metavar="NAME|FOLDER", help="a model of transformers on the hub, or its folder")
    add("--source", action="append", metavar="SOURCE", help="text for figure-1, as for `prepare pretraining`")
    add_shared(parser, "--runs", default="runs/reproduce")
    add("--results", default="results", metavar="FOLDER", help="folder of results")


def run(options: argparse.Namespace) -> str:
    from ..reproduction import load_all
    from ..reproduction.page import write_pages

    experiments, results = load_all(), Path(options.results)
    if options.experiment == "list":
        table = [(name, ", ".join(module.PARTS), module.SAYS) for name, module in experiments.items()]
        widths = [max(map(len, column)) for column in zip(*table)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in table)
    if options.experiment not in (*experiments, "report"):
        known = f"list, report, {', '.join(experiments)}"
        raise ValueError(f"unknown experiment {options.experiment!r}; choose from {known}")
    if not results.is_dir():
        raise ValueError(f"--results must be an existing folder, got {results}")
    if options.experiment == "report":
        return "\n".join(map(str, write_pages(results, experiments)))
    return "\n".join(_measure(experiments[options.experiment], options))


def _measure(module: ModuleType, options: argparse.Namespace) -> Iterator[str]:
    """Measure the parts of an experiment, and describe the results and their verdicts."""
    from ..files import check_can_be_written
    from ..machine import clean_commit
    from ..reproduction.result import INPUTS, Inputs, read, write

    given = {name: getattr(options, name) for name in INPUTS if name in options}
    parts: Iterable[str] = _choose_parts(module, options, given)
    path = Path(options.results, options.experiment.replace("-", "_"), f"{options.scale}.json")
    check_can_be_written(path.parent)
    check_can_be_written(options.runs)
    if options.scale != "smoke":
        clean_commit()  # a result can be measured again at its commit
    for part in _lock_missing(parts, options, path) if "missing" in options else parts:
        result = module.run(part, options.scale, Inputs(_command(options, given), Path(options.runs), **given))
        write(result, path)
        yield f"{result.part}: {path}"
    for verdict in module.verdicts(read(path)):
        if verdict.checks:
            yield f"{verdict.outcome}: {verdict.claim}"
            yield from (f"  {number}" for number in [*verdict.numbers, *verdict.remarks])
    yield "`fairseq-linformer reproduce report` writes the pages"


def _choose_parts(module: ModuleType, options: argparse.Namespace, given: Mapping[str, Any]) -> list[str]:
    """The parts that are measured: those whose inputs are given. An input that none of them reads is an error."""
    name, scale, part = options.experiment, options.scale, options.part
    if scale not in module.PARTS:
        raise ValueError(f"{name} has no --scale {scale}; choose from {', '.join(module.PARTS)}")
    parts: dict[str, tuple[str, ...]] = module.PARTS[scale]
    if part is not None:
        if part not in parts:
            raise ValueError(f"{name} has no --part {part!r} at this scale; choose from {'; '.join(parts)}")
        parts = {part: parts[part]}
    chosen = {part: reads for part, reads in parts.items() if {*reads} <= {*given}}
    if not chosen or given.keys() - {name for reads in chosen.values() for name in reads}:
        needs = " or ".join(dict.fromkeys(" ".join(map(flag_of, reads)) or "no input" for reads in parts.values()))
        got = " ".join(map(flag_of, sorted(given))) or "none"
        raise ValueError(f"{name} reads {needs} at this scale, got {got}")
    return list(chosen)


def _lock_missing(parts: Iterable[str], options: argparse.Namespace, path: Path) -> Iterator[str]:
    """The parts that the results lack and no other process measures, each locked until the next one is taken."""
    from ..reproduction.result import read

    folder = Path(options.runs, options.scale)
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        with open(folder / f".{options.experiment} {part}.lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if part not in {result.part for result in read(path)}:
                yield part


def _command(options: argparse.Namespace, given: Mapping[str, Any]) -> str:
    """The command for results; paths are reduced to their last part."""
    words = ["fairseq-linformer", "reproduce", options.experiment, "--scale", options.scale]
    words += ["--part", options.part] if options.part else []
    for name, value in given.items():
        for each in value if name == "source" else [value]:
            words += [flag_of(name), Path(each).resolve().name if Path(each).exists() else str(each)]
    return shlex.join(words)
