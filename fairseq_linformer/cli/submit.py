"""``fairseq-linformer submit``: a training job, or an array of jobs, for Slurm."""

import argparse
from dataclasses import replace

from ..training.arguments import BASE, add_arguments
from .parsers import add_command, positive


def add_parser(commands) -> None:
    """Add ``submit``."""
    parser = add_command(
        commands,
        "submit",
        "check a training job and submit it to Slurm",
        """submit +run=n512-k256-layerwise task.data=data/BIN --nodes 8 --time=24:00:00
        submit --array figure-3a task.data=data/BIN --partition=gpu
        submit --array table-2 --tasks data --nodes 1 --ntasks-per-node 1 --dry-run""",
        description="Any other --OPTION=VALUE is passed to sbatch.",
    )
    add_arguments(parser)
    add = parser.add_argument
    add("--nodes", type=positive, default=8, metavar="N", help="number of nodes")
    add("--ntasks-per-node", type=positive, default=8, metavar="P", help="processes per node, one per GPU")
    array = "submit all runs of figure-3a, figure-3b, figure-3c, figure-3d, pretraining or table-2 as an array"
    add("--array", default="", metavar="NAME", help=array)
    add("--tasks", metavar="FOLDER", help="for table-2: folder of the tasks that `prepare` wrote")
    add("--dry-run", action="store_true", help="check and print the command, but write and submit nothing")
    parser.set_defaults(run=_submit, slurm=True)


def _submit(options: argparse.Namespace) -> str:
    from ..reproduction import array_jobs
    from ..training.job import TrainingJob
    from ..training.slurm import layout, submit

    sbatch_options = [*layout(options.nodes, options.ntasks_per_node, options.device), *options.sbatch_options]
    processes = options.nodes * options.ntasks_per_node
    if not options.array:
        words = tuple(options.overrides)
        job = TrainingJob(options.config, words, processes, options.device, options.runs, options.name)
        return submit([job], sbatch_options, dry_run=options.dry_run)
    if options.name or options.config != BASE:
        raise ValueError("--name and --config cannot be used with --array, whose members have their own")
    jobs = [
        replace(job, overrides=(*job.overrides, *options.overrides), processes=processes)
        for job in array_jobs(options.array, options.runs, options.tasks, options.device)
    ]
    return submit(jobs, sbatch_options, options.array, options.dry_run)
