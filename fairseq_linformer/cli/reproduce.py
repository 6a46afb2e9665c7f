"""Reproduce a table, figure or theorem of the paper. Rerun to resume.

fairseq-linformer reproduce figure-3 --part "n=64, k=16, seed 1" --data data/wiki
fairseq-linformer reproduce report --results results
"""

import argparse
from pathlib import Path

from .parsers import add_shared


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
    source = "text for figure-1 and long-documents, as for `prepare pretraining`"
    add("--source", action="append", metavar="SOURCE", help=source)
    add_shared(parser, "--runs", default="runs/reproduce")
    add("--results", default="results", metavar="FOLDER", help="folder of results")


def run(options: argparse.Namespace) -> str:
    from ..reproduction import load_all
    from ..reproduction.page import write_pages
    from ..reproduction.parts import measure_parts

    experiments, results = load_all(), Path(options.results)
    if options.experiment == "list":
        return "\n".join(f"{name:16}{', '.join(each.PARTS):28}{each.SAYS}" for name, each in experiments.items())
    if options.experiment not in (*experiments, "report"):
        known = f"list, report, {', '.join(experiments)}"
        raise ValueError(f"unknown experiment {options.experiment!r}; choose from {known}")
    if not results.is_dir():
        raise ValueError(f"--results must be an existing folder, got {results}")
    if options.experiment == "report":
        return "\n".join(map(str, write_pages(results, experiments)))
    return "\n".join(measure_parts(experiments[options.experiment], **vars(options)))
