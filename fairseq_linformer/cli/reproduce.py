"""``fairseq-linformer reproduce``: an experiment, at a scale."""

import argparse
import shlex
from pathlib import Path

from .parsers import add_command, add_minutes, add_results, add_runs, check_minutes, reject_options


def add_parser(commands) -> None:
    """Add ``reproduce``."""
    parser = add_command(
        commands,
        "reproduce",
        "reproduce a table, figure or theorem of the paper",
        """reproduce list
        reproduce figure-3a --scale cpu --data data/wiki --minutes 30
        reproduce figure-3a --scale paper --data data/wiki --dry-run""",
        description="Rerun to resume.",
    )
    parser.add_argument(
        "experiment",
        nargs="?",
        metavar="NAME|list",
        help="experiment, such as figure-3a; or list, to show all of them with their cost and records",
    )
    parser.add_argument("--scale", help="size of the experiment: smoke, cpu, encoder, gpu or paper (default: cpu)")
    parser.add_argument("--data", metavar="FOLDER", help="folder of text that `prepare pretraining` wrote")
    parser.add_argument(
        "--encoder", metavar="NAME|FOLDER", help="encoder for --scale encoder: a model on the hub, or its folder"
    )
    parser.add_argument(
        "--source",
        action="append",
        metavar="SOURCE",
        help="text for encoder-spectrum, as for `prepare pretraining`; repeat for several",
    )
    add_runs(parser, None, " (default: runs/reproduce)")
    add_minutes(parser, "then checkpoint and exit")
    add_results(parser)
    parser.add_argument(
        "--tasks",
        metavar="FOLDER",
        help="for table-2, encoder-tasks and int8: folder of the prepared tasks sst-2, imdb, qnli and qqp, and of "
        "imdb-n256 and so on, if they exist, for models of another n",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="with --scale paper: check and print the command, but write and submit nothing",
    )
    parser.set_defaults(run=_reproduce)


def _reproduce(options: argparse.Namespace) -> str:
    from ..reproduction.inputs import Inputs
    from ..reproduction.ledger import check_writable
    from ..reproduction.registry import find, listing

    check_minutes(options.minutes)
    source = None if options.source is None else tuple(options.source)
    inputs = Inputs(options.runs, options.data, options.tasks, options.minutes, options.encoder, source)
    if options.experiment is None:
        raise ValueError("reproduce needs an experiment; `fairseq-linformer reproduce list` shows all of them")
    if options.experiment == "list":
        reject_options(
            options,
            ("scale", "data", "encoder", "source", "minutes", "tasks", "runs", "dry_run"),
            "cannot be used with list, which measures nothing",
        )
        return "\n".join(listing(options.results))
    experiment = find(options.experiment)
    options.scale = "cpu" if options.scale is None else options.scale
    if options.scale == "paper":
        return _at_paper_scale(experiment, options, inputs)
    reject_options(options, ("dry_run",), "needs --scale paper")
    experiment.check(options.scale, inputs)
    check_writable(options.results, needs_clean=options.scale != "smoke")
    return experiment.reproduce(options.scale, inputs, options.results, _command(options))


def _command(options: argparse.Namespace) -> str:
    """The command as records store it; paths are reduced to their last part."""
    paths = [(name, getattr(options, name)) for name in ("encoder", "data", "tasks")]
    paths += [("source", value) for value in options.source or ()]
    folders = [
        word
        for name, value in paths
        if value is not None
        for word in (f"--{name}", Path(value).resolve().name if Path(value).exists() else value)
    ]
    return shlex.join(["fairseq-linformer", "reproduce", options.experiment, "--scale", options.scale, *folders])


def _at_paper_scale(experiment, options: argparse.Namespace, inputs) -> str:
    """Submit the untrained runs like ``fairseq-linformer submit --array``; write the records once all are trained."""
    from ..launching.arguments import BASE
    from ..reproduction.ledger import check_writable
    from ..reproduction.registry import experiments
    from . import submit

    if experiment.paper_scale is None:
        names = ", ".join(each.name for each in experiments() if each.paper_scale)
        raise ValueError(f"{experiment.name} has no --scale paper; choose from {names}")
    reject_options(options, ("minutes",), "cannot be used with --scale paper, whose jobs have Slurm's --time")
    experiment.check_paper_inputs(inputs)
    check_writable(options.results, needs_clean=not options.dry_run)
    runs = str(inputs.folder)
    words = ["--array", experiment.name, "--runs", runs, *["--dry-run"] * options.dry_run]
    if "tasks" in experiment.paper_scale.reads:  # finetuning uses one process
        words += ["--tasks", options.tasks, "--nodes", "1", "--ntasks-per-node", "1"]
    else:
        from ..reproduction.text import find_shards

        words.append(f"task.data={':'.join(map(str, find_shards(options.data)))}")
    parser = argparse.ArgumentParser()
    submit.add_parser(parser.add_subparsers())
    array = parser.parse_args(["submit", *words])
    array.unparsed = []
    array.name, array.config = "", BASE  # those of members, whatever the environment has for other jobs
    if not experiment.paper_scale.is_trained(runs, options.tasks, array.device):
        return array.run(array)
    reject_options(
        options, ("dry_run",), "has nothing to submit: all runs are trained; rerun without --dry-run to score them"
    )
    found = experiment.paper_scale.measure(inputs, array.device, _command(options))
    return experiment.publish(found, options.scale, options.results)
