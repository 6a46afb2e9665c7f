"""``fairseq-linformer reproduce``: an experiment, at a scale; and the pages of all results."""

import argparse
import fcntl
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .parsers import add_command, add_shared, flag_of


def add_parser(commands) -> None:
    """Add ``reproduce``."""
    parser = add_command(
        commands,
        "reproduce",
        "reproduce a table, figure or theorem of the paper",
        """reproduce list
        reproduce figure-3 --scale smoke --data data/wiki
        reproduce figure-3 --part a --scale cpu --data data/wiki
        reproduce report --results results""",
        description="Rerun to resume.",
    )
    parser.add_argument(
        "experiment",
        metavar="NAME|list|report",
        help="experiment, such as figure-3; list, to show all of them; or report, to write README.md and charts of a "
        "folder of results",
    )
    parser.add_argument("--scale", default="cpu", help="size of the experiment: smoke, cpu, encoder, gpu or paper")
    parser.add_argument(
        "--part", help="a part of the experiment, such as a panel (default: all parts whose inputs are given)"
    )
    parser.add_argument(
        "--missing",
        action="store_true",
        help="only the parts that the results lack and no other process measures; run it once per core",
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder of text that `prepare pretraining` wrote")
    parser.add_argument(
        "--tasks",
        type=Path,
        metavar="FOLDER",
        help="folder of the prepared tasks sst-2, imdb, qnli and qqp, and of imdb-n256 and so on, if they exist, for "
        "models of another n",
    )
    parser.add_argument("--encoder", metavar="NAME|FOLDER", help="a model of transformers on the hub, or its folder")
    parser.add_argument(
        "--source",
        action="append",
        metavar="SOURCE",
        help="text for figure-1 on an encoder, as for `prepare pretraining`; repeat for several",
    )
    add_shared(parser, "--runs", default="runs/reproduce")
    parser.add_argument("--results", default="results", metavar="FOLDER", help="folder of results")
    parser.set_defaults(run=_reproduce)


def _reproduce(options: argparse.Namespace) -> str:
    from ..files import check_can_be_written
    from ..machine import clean_commit
    from ..reproduction import load_all
    from ..reproduction.page import write_pages
    from ..reproduction.result import INPUTS, Inputs, read, write

    experiments, results = load_all(), Path(options.results)
    if options.experiment == "list":
        table = [(name, ", ".join(module.PARTS), module.SAYS) for name, module in experiments.items()]
        widths = [max(map(len, column)) for column in zip(*table)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in table)
    if options.experiment not in (*experiments, "report"):
        raise ValueError(
            f"unknown experiment {options.experiment!r}; choose from list, report, {', '.join(experiments)}"
        )
    if not results.is_dir():
        raise ValueError(f"--results must be an existing folder, got {results}")
    if options.experiment == "report":
        return "\n".join(map(str, write_pages(results, experiments)))
    module = experiments[options.experiment]
    given = {name: getattr(options, name) for name in INPUTS}
    parts = _choose_parts(module, options, {name for name, value in given.items() if value})
    path = results / options.experiment.replace("-", "_") / f"{options.scale}.json"
    check_can_be_written(path.parent)
    check_can_be_written(options.runs)
    if options.scale != "smoke":
        clean_commit()  # a result can be measured again at its commit
    lines = []
    for part in _lock_missing(parts, options, path) if options.missing else parts:
        result = module.run(part, options.scale, Inputs(_command(options, given), Path(options.runs), **given))
        write(result, path)
        lines.append(f"{result.part}: {path}")
    for verdict in module.verdicts(read(path)):
        if verdict.checks:
            lines.append(f"{verdict.outcome}: {verdict.claim}")
            lines += [f"  {number}" for number in [*verdict.numbers, *verdict.remarks]]
    return "\n".join([*lines, "`fairseq-linformer reproduce report` writes the pages"])


def _choose_parts(module: ModuleType, options: argparse.Namespace, given: set[str]) -> list[str]:
    """The parts that are measured: those whose inputs are given. An input that none of them reads is an error."""
    if options.scale not in module.PARTS:
        raise ValueError(f"{options.experiment} has no --scale {options.scale}; choose from {', '.join(module.PARTS)}")
    parts: dict[str, tuple[str, ...]] = module.PARTS[options.scale]
    if options.part is not None:
        if options.part not in parts:
            raise ValueError(
                f"{options.experiment} has no --part {options.part!r} at this scale; choose from {'; '.join(parts)}"
            )
        parts = {options.part: parts[options.part]}
    chosen = {part: reads for part, reads in parts.items() if set(reads) <= given}
    if not chosen or given - {name for reads in chosen.values() for name in reads}:
        needs = " or ".join(dict.fromkeys(" ".join(map(flag_of, reads)) or "no input" for reads in parts.values()))
        got = " ".join(map(flag_of, sorted(given))) or "none"
        raise ValueError(f"{options.experiment} reads {needs} at this scale, got {got}")
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
        for each in value or () if name == "source" else [value] if value else ():
            words += [flag_of(name), Path(each).resolve().name if Path(each).exists() else str(each)]
    return shlex.join(words)
