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
    from ..reproduce.paper_runs import remember_rules
    from ..reproduce.paper_scale import ARRAYS, finetuning_grid, pretraining_runs

    options.overrides += [word for word in options.more if not word.startswith("-")]
    sbatch_options = [word for word in options.more if word.startswith("-")]
    if options.array is None:
        if options.tasks is not None:
            raise ValueError(f"--tasks is {options.tasks}; it is for --array table-2")
        return submit(options, sbatch_options)
    if options.array not in ARRAYS:
        raise ValueError(f"--array is {options.array}; it must be one of {', '.join(ARRAYS)}")
    if (options.array == "table-2") != (options.tasks is not None):
        raise ValueError(f"--array is {options.array}; table-2 requires --tasks FOLDER, other arrays do not accept it")
    if options.tasks:
        members = finetuning_grid(options.runs, options.tasks, options.device)
    else:
        members = pretraining_runs(options.array)
    report = submit_array(options, members, sbatch_options)
    if not options.dry_run:
        remember_rules(options.array, options.runs)
    return report
