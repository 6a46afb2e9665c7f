"""``fairseq-linformer submit``: a training job, or an array of jobs, for Slurm."""

import argparse
from dataclasses import replace

from ..training.arguments import BASE, add_arguments, build_training_job
from .parsers import add_command


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
        allow_abbrev=False,
    )
    add_arguments(parser)
    parser.add_argument("--nodes", type=int, default=8, metavar="N", help="number of nodes")
    parser.add_argument("--ntasks-per-node", type=int, default=8, metavar="P", help="processes per node, one per GPU")
    parser.add_argument(
        "--array",
        metavar="NAME",
        help="submit all runs of figure-3a, figure-3b, figure-3c, figure-3d, pretraining or table-2 as an array",
    )
    parser.add_argument("--tasks", metavar="FOLDER", help="for table-2: folder of the tasks that `prepare` wrote")
    parser.add_argument(
        "--dry-run", action="store_true", help="check and print the command, but write and submit nothing"
    )
    parser.set_defaults(run=_submit, accepts_unparsed=True)


def _submit(options: argparse.Namespace) -> str:
    from ..reproduction.experiments import array_jobs
    from ..training.slurm import Submission, submit, submit_array

    options.overrides += [word for word in options.unparsed if not word.startswith("-")]
    sbatch_options = [word for word in options.unparsed if word.startswith("-")]
    submission = Submission(options.nodes, options.ntasks_per_node, sbatch_options, options.dry_run)
    if options.array is None:
        if options.tasks is not None:
            raise ValueError("--tasks needs --array table-2")
        return submit(build_training_job(options, submission.processes), submission)
    for name, default in (("name", ""), ("config", BASE)):
        if (value := getattr(options, name)) != default:
            raise ValueError(f"--{name} cannot be used with an array, whose members have their own, got {value}")
    jobs = [
        replace(job, overrides=(*job.overrides, *options.overrides), processes=submission.processes)
        for job in array_jobs(options.array, options.runs, options.tasks, options.device)
    ]
    return submit_array(options.array, jobs, submission)
