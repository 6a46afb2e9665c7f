"""``fairseq-linformer reproduce``: an experiment of the paper at a scale.

    fairseq-linformer reproduce list
    fairseq-linformer reproduce figure-3a --scale cpu --text data/wiki --minutes 30     # rerun the command to resume
    fairseq-linformer reproduce table-1 --scale smoke
    fairseq-linformer reproduce figure-3a --scale paper --text data/wiki --dry-run      # to Slurm; once trained, to the ledger
    fairseq-linformer reproduce --verify figure-3a-smoke --text data/wiki --runs AGAIN
"""

import argparse
import math
import shlex
from collections.abc import Sequence
from pathlib import Path


def add_parser(commands) -> None:
    """Add ``reproduce``."""
    parser = commands.add_parser("reproduce", help="run an experiment of the paper at a scale",
                                 description="Run an experiment of the paper. Rerun the command to resume it.")  # fmt: skip
    parser.add_argument("experiment", nargs="?", metavar="NAME|list", help="such as figure-3a; `list` shows all of them, their cost and records")
    parser.add_argument("--scale", help="smoke, cpu, gpu or paper (cpu)")
    parser.add_argument("--text", metavar="FOLDER", help="written by `prepare pretraining`; for experiments that train")
    parser.add_argument("--runs", metavar="FOLDER", help="for all runs (runs/reproduce)")
    parser.add_argument("--minutes", type=float, metavar="M", help="time budget; checkpoints and exits when it is spent")
    parser.add_argument("--ledger", default="results", metavar="FOLDER", help="for the records (%(default)s)")
    parser.add_argument("--tasks", metavar="FOLDER", help="for table-2: holds sst-2, imdb, qnli and qqp, written by `prepare TASK`, and "
                        "imdb-n256 etc. for a model of another n")  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="at the paper scale: check, and print what would be submitted")
    parser.add_argument("--verify", metavar="ID", help="measure a record again, and compare within its tolerance")
    parser.set_defaults(run=_reproduce)


def _reproduce(options: argparse.Namespace) -> str:
    from ..reproduction.records import check_ledger
    from ..reproduction.registry import Inputs, find, listing

    if options.minutes is not None and not 0 < options.minutes < math.inf:
        raise ValueError(f"--minutes is {options.minutes}; it must be a finite number above 0")
    inputs = Inputs(options.runs, options.text, options.tasks, options.minutes)
    if options.verify is not None:
        from ..reproduction.verify import verify

        if options.experiment is not None:
            raise ValueError(f"--verify {options.verify} takes no experiment, and {options.experiment} was given: the record names its own")
        _reject(options, ("scale", "dry_run"), f"cannot be used with --verify {options.verify}: the record names its own")
        return verify(options.verify, options.ledger, inputs)
    if options.experiment is None:
        raise ValueError("name an experiment; `fairseq-linformer reproduce list` shows all of them")
    if options.experiment == "list":
        _reject(options, ("scale", "text", "minutes", "tasks", "runs", "dry_run"), "cannot be used with list, which measures nothing")
        return "\n".join(listing(options.ledger))
    experiment = find(options.experiment)
    options.scale = "cpu" if options.scale is None else options.scale
    if options.scale == "paper":
        return _at_paper_scale(experiment, options, inputs)
    _reject(options, ("dry_run",), "needs --scale paper")
    experiment.check(options.scale, inputs)
    check_ledger(options.ledger)
    return experiment.reproduce(options.scale, inputs, options.ledger, _command(options))


def _reject(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    for name in names:
        if getattr(options, name) not in (None, False):
            raise ValueError(f"--{name.replace('_', '-')} {why}")


def _command(options: argparse.Namespace) -> str:
    """As a record has it: folders by their names."""
    given = {name: value for name in ("text", "tasks") if (value := getattr(options, name)) is not None}
    folders = [word for name, value in given.items() for word in (f"--{name}", Path(value).resolve().name)]
    return shlex.join(["fairseq-linformer", "reproduce", options.experiment, "--scale", options.scale, *folders])


def _at_paper_scale(experiment, options: argparse.Namespace, inputs) -> str:
    """Submit the runs not trained yet, as ``fairseq-linformer submit --array`` does; once all are trained, write the records."""
    from ..reproduction.records import check_ledger
    from ..reproduction.registry import experiments
    from . import submit

    if experiment.paper_scale is None:
        names = ", ".join(each.name for each in experiments() if each.paper_scale)
        raise ValueError(f"{experiment.name} has no paper scale; these have: {names}")
    _reject(options, ("minutes",), "cannot be used with --scale paper; Slurm has --time")
    experiment.check_paper_inputs(inputs)
    check_ledger(options.ledger)
    runs = str(inputs.folder)
    words = ["--array", experiment.name, "--runs", runs, *["--dry-run"] * options.dry_run]
    if "tasks" in experiment.paper_scale.reads:  # a finetuning has one process
        words += ["--tasks", options.tasks, "--nodes", "1", "--ntasks-per-node", "1"]
    else:
        from ..reproduction.text import shards_of

        words.append(f"task.data={':'.join(map(str, shards_of(options.text)))}")
    parser = argparse.ArgumentParser()
    submit.add_parser(parser.add_subparsers())
    array = parser.parse_args(["submit", *words])
    array.more = []
    if not experiment.paper_scale.is_trained(runs, options.tasks, array.device):
        return array.run(array)
    _reject(options, ("dry_run",), "has nothing to submit: all is trained; rerun the command without it to score the runs")
    found = experiment.paper_scale.measure(inputs, array.device, _command(options))
    return experiment.publish(found, options.scale, options.ledger)
