"""``fairseq-linformer submit``: a training job, or an array of them, checked and handed to Slurm.

    fairseq-linformer submit +run=n512-k256-layerwise task.data=data/BIN --nodes 8 --time=24:00:00
    fairseq-linformer submit --array figure-3a task.data=data/BIN --partition=gpu
    fairseq-linformer submit --array table-2 --tasks data --nodes 1 --ntasks-per-node 1 --dry-run
"""

import argparse
import os

from ..launching.arguments import add_arguments


def add_parser(commands) -> None:
    """Add ``submit``."""
    parser = commands.add_parser(
        "submit", help="a training job for Slurm, checked before it is queued", allow_abbrev=False,
        description="Run it from the root of the repository. Any other --OPTION=VALUE goes to sbatch.",
    )  # fmt: skip
    add_arguments(parser)
    default = os.environ.get
    parser.add_argument("--nodes", type=int, default=default("NODES", 8), metavar="N",
                        help="or NODES=... (%(default)s)")  # fmt: skip
    parser.add_argument("--ntasks-per-node", type=int, default=default("NTASKS_PER_NODE", 8), metavar="P",
                        help="processes, one per GPU; or NTASKS_PER_NODE=... (%(default)s)")  # fmt: skip
    parser.add_argument("--array", metavar="NAME",
                        help="figure-3a to figure-3d, pretraining (all and table 2), table-2 (finetuning)")  # fmt: skip
    parser.add_argument("--tasks", metavar="FOLDER",
                        help="for table-2: holds sst-2, imdb, qnli and qqp as `prepare` writes them")  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="check, and print the command; write and submit nothing")
    parser.set_defaults(run=_submit, takes_more=True)


def _submit(options: argparse.Namespace) -> str:
    from ..launching.slurm import submit, submit_array
    from ..reproduction.paper_scale import array_members, keep_rules

    options.overrides += [word for word in options.more if not word.startswith("-")]
    sbatch_options = [word for word in options.more if word.startswith("-")]
    if options.array is None:
        if options.tasks is not None:
            raise ValueError(f"--tasks is {options.tasks}; it is for --array table-2")
        return submit(options, sbatch_options)
    members = array_members(options.array, options.runs, options.tasks, options.device)
    report = submit_array(options, members, sbatch_options)
    if not options.dry_run:
        keep_rules(options.array, options.runs)
    return report
