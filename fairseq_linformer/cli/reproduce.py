"""``fairseq-linformer reproduce``: an experiment of the paper at a scale.

    fairseq-linformer reproduce list
    fairseq-linformer reproduce figure-3a --scale cpu --text data/wiki --minutes 30     # the same command goes on
    fairseq-linformer reproduce table-1 --scale smoke
    fairseq-linformer reproduce figure-3a --scale paper --text data/wiki --dry-run      # to Slurm; once it is trained, to the ledger
    fairseq-linformer reproduce --verify figure-3a-smoke --text data/wiki --runs AGAIN
"""

import argparse
import math
import shlex
from pathlib import Path
from typing import Sequence


def add_parser(commands) -> None:
    """Add ``reproduce``."""
    parser = commands.add_parser("reproduce", help="an experiment of the paper at a scale", description="The same command goes on where it was stopped.")
    parser.add_argument("experiment", nargs="?", metavar="NAME|list", help="such as figure-3a; `list` has all, what they cost and what is measured")
    parser.add_argument("--scale", help="smoke, cpu, gpu or paper (cpu)")
    parser.add_argument("--text", metavar="FOLDER", help="as `prepare pretraining` writes it; of experiments that train")
    parser.add_argument("--runs", metavar="FOLDER", help="takes all runs (runs/reproduce)")
    parser.add_argument("--minutes", type=float, metavar="M", help="then the run saves and stops")
    parser.add_argument("--ledger", default="results", metavar="FOLDER", help="takes the entry (%(default)s)")
    parser.add_argument("--tasks", metavar="FOLDER", help="of table-2: holds sst-2, imdb, qnli and qqp as `prepare` writes them, and imdb-n256 and so on for a model of that n")
    parser.add_argument("--dry-run", action="store_true", help="of the paper scale: check, and print what would be submitted")
    parser.add_argument("--verify", metavar="ID", help="measure an entry again, and compare within its tolerance")
    parser.set_defaults(run=_reproduce)


def _reproduce(options: argparse.Namespace) -> str:
    from ..reproduce.catalogue import check_experiment, listed
    from ..reproduce.scales import NAMES

    if options.minutes is not None and not 0 < options.minutes < math.inf:
        raise ValueError(f"--minutes is {options.minutes}; it must be above 0")
    if options.verify is not None:
        if options.experiment is not None:
            raise ValueError(f"{options.experiment} is given beside --verify {options.verify}; an entry says what it is of")
        _refuse(options, ("scale", "dry_run"), f"is given with --verify {options.verify}; an entry says what it is of")
        return _verify(options)
    if options.experiment is None:
        raise ValueError("no experiment is given; `fairseq-linformer reproduce list` has all")
    if options.experiment == "list":
        _refuse(options, ("scale", "text", "minutes", "tasks", "runs", "dry_run"), "is given with list, which measures nothing")
        return "\n".join(listed(options.ledger))
    check_experiment(options.experiment)
    options.scale = "cpu" if options.scale is None else options.scale
    if options.scale not in NAMES:
        raise ValueError(f"--scale is {options.scale}; it must be one of {', '.join(NAMES)}")
    if options.scale == "paper":
        return _at_paper_scale(options)
    _refuse(options, ("dry_run",), "is given; it is for --scale paper")
    from ..reproduce.catalogue import run

    return run(options.experiment, options.scale, _inputs(options), _ledger(options), _command(options))


def _inputs(options: argparse.Namespace):
    from ..reproduce.catalogue import Inputs

    return Inputs(options.runs, options.text, options.tasks, options.minutes)


def _refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    for name in names:
        if getattr(options, name) not in (None, False):
            raise ValueError(f"--{name.replace('_', '-')} {why}")


def _ledger(options: argparse.Namespace) -> str:
    """Before the work: can the entry be written after it?"""
    from ..reproduce import ledger

    ledger.check(options.ledger)
    return options.ledger


def _command(options: argparse.Namespace) -> str:
    """As an entry records it: folders by their names."""
    folders = [word for name in ("text", "tasks") if (given := getattr(options, name)) is not None for word in (f"--{name}", Path(given).resolve().name)]
    return shlex.join(["fairseq-linformer", "reproduce", options.experiment, "--scale", options.scale, *folders])


def _verify(options: argparse.Namespace) -> str:
    from ..reproduce.verify import verify

    return verify(options.verify, options.ledger, _inputs(options))


def _at_paper_scale(options: argparse.Namespace) -> str:
    """What ``fairseq-linformer submit --array`` does with it, of what is not trained yet; once all of it is trained, its entries."""
    from ..reproduce import catalogue, paper_runs
    from ..reproduce.paper_scale import ARRAYS
    from . import submit

    if options.experiment not in ARRAYS:
        raise ValueError(f"{options.experiment} has no paper scale; {', '.join(name for name in ARRAYS if name in catalogue.EXPERIMENTS)} have")
    _refuse(options, ("minutes",), "is given with --scale paper; Slurm has --time")
    if options.experiment == "table-2":
        _refuse(options, ("text",), "is given; table-2 finetunes what is trained, and reads --tasks")
        if options.tasks is None:
            raise ValueError("table-2 finetunes, and --tasks is not given; a folder of `fairseq-linformer prepare TASK` is wanted")
    else:
        _refuse(options, ("tasks",), "is given; it is of table-2")
        if options.text is None:
            raise ValueError(f"{options.experiment} trains, and --text is not given; a folder of `fairseq-linformer prepare pretraining` is wanted")
    from ..reproduce.text import shards_of

    runs, ledger = str(_inputs(options).folder), _ledger(options)
    parser = argparse.ArgumentParser()
    submit.add_parser(parser.add_subparsers())
    data = [] if options.experiment == "table-2" else [f"task.data={':'.join(map(str, shards_of(options.text)))}"]
    tasks = ["--tasks", options.tasks, "--nodes", "1", "--ntasks-per-node", "1"] if options.tasks is not None else []  # a finetuning is of one process
    asked = parser.parse_args(["submit", "--array", options.experiment, "--runs", runs, *tasks, *["--dry-run"] * options.dry_run, *data])
    asked.more = []
    if not paper_runs.all_trained(options.experiment, runs, options.tasks, asked.device):
        return asked.run(asked)
    _refuse(options, ("dry_run",), "is given, and all is trained; without it the same command judges it")
    found = paper_runs.measure(options.experiment, runs, options.text, options.tasks, asked.device, _command(options))
    return catalogue.put(found, options.experiment, options.scale, ledger)
