"""Check a training job and submit it to Slurm. Any other --OPTION=VALUE is passed to sbatch.

fairseq-linformer submit +run=n512-k256-layerwise task.data=data/BIN --nodes 8 --time=24:00:00
"""

import argparse

from .parsers import PRETRAINING_YAML, add_shared, positive


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("overrides", nargs="*", default=[], metavar="KEY=VALUE", help="hydra overrides, such as +run=n512-roberta")
    add("--config", default=PRETRAINING_YAML, metavar="YAML", help="YAML configuration of fairseq-hydra-train")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="device to train on")
    add_shared(parser, "--runs")
    add("--name", default="", help="name of the run folder (default: derived from configuration and overrides)")
    default = "(default: 8; with --no-sbatch: 1)"
    add("--nodes", type=positive, metavar="N", help=f"number of nodes {default}")
    add("--ntasks-per-node", type=positive, metavar="P", help=f"processes per node, one per GPU {default}")
    add("--dry-run", action="store_true", help="check and print the command, but write and submit nothing")
    add("--no-sbatch", action="store_true", help="only write and print the run folder, for scripts/torchrun.sh")
    parser.set_defaults(slurm=True)


def run(options: argparse.Namespace) -> str:
    from ..training.job import TrainingJob
    from ..training.run_folder import check_run_folder, write_config
    from ..training.slurm import layout, submit

    if "no_sbatch" in options and (unused := ["--dry-run"] * ("dry_run" in options) + options.sbatch_options):
        raise ValueError(f"{unused[0]} has no effect with --no-sbatch")
    default = 1 if "no_sbatch" in options else 8
    nodes, per_node = (getattr(options, name, default) for name in ("nodes", "ntasks_per_node"))
    words = tuple(options.overrides)
    job = TrainingJob(options.config, words, nodes * per_node, options.device, options.runs, options.name)
    if "no_sbatch" in options:
        check_run_folder(job)
        write_config(job)
        return str(job.folder)
    sbatch_options = [*layout(nodes, per_node, options.device), *options.sbatch_options]
    return submit([job], sbatch_options, "dry_run" in options)
