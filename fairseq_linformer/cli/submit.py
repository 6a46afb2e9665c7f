"""``fairseq-linformer submit``: a training job for Slurm."""

import argparse

from .parsers import PRETRAINING_YAML, add_command, add_shared, positive


def add_parser(commands) -> None:
    """Add ``submit``."""
    parser = add_command(
        commands,
        "submit",
        "check a training job and submit it to Slurm",
        """submit +run=n512-k256-layerwise task.data=data/BIN --nodes 8 --time=24:00:00
        submit +run=n512-roberta task.data=data/BIN --nodes 1 --partition=gpu --dry-run""",
        description="Any other --OPTION=VALUE is passed to sbatch.",
    )
    add = parser.add_argument
    add("overrides", nargs="*", metavar="KEY=VALUE", help="hydra overrides, such as +run=n512-k256-layerwise")
    add("--config", default=PRETRAINING_YAML, metavar="YAML", help="YAML configuration of fairseq-hydra-train")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="device to train on")
    add_shared(parser, "--runs")
    add("--name", default="", help="name of the run folder (default: derived from the configuration and its overrides)")
    default = "(default: 8; with --no-sbatch: 1)"
    add("--nodes", type=positive, metavar="N", help=f"number of nodes {default}")
    add("--ntasks-per-node", type=positive, metavar="P", help=f"processes per node, one per GPU {default}")
    add("--dry-run", action="store_true", help="check and print the command, but write and submit nothing")
    no_sbatch = "write and print the run folder, but submit nothing, for torchrun; see scripts/torchrun.sh"
    add("--no-sbatch", action="store_true", help=no_sbatch)
    parser.set_defaults(run=_submit, slurm=True)


def _submit(options: argparse.Namespace) -> str:
    from ..training.job import TrainingJob
    from ..training.run_folder import check_run_folder, write_config
    from ..training.slurm import layout, submit

    default = 1 if options.no_sbatch else 8
    nodes, per_node = options.nodes or default, options.ntasks_per_node or default
    words = tuple(options.overrides)
    job = TrainingJob(options.config, words, nodes * per_node, options.device, options.runs, options.name)
    if options.no_sbatch:
        check_run_folder(job)
        write_config(job)
        return str(job.folder)
    sbatch_options = [*layout(nodes, per_node, options.device), *options.sbatch_options]
    return submit([job], sbatch_options, options.dry_run)
