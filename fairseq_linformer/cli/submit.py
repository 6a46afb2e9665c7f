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
    add("--nodes", type=positive, default=8, metavar="N", help="number of nodes")
    add("--ntasks-per-node", type=positive, default=8, metavar="P", help="processes per node, one per GPU")
    add("--dry-run", action="store_true", help="check and print the command, but write and submit nothing")
    add("--no-sbatch", action="store_true", help="only write and print the run folder, for scripts/torchrun.sh")
    parser.set_defaults(slurm=True)


def run(options: argparse.Namespace) -> str:
    from ..training.job import TrainingJob
    from ..training.run_folder import check_run_folder, write_config
    from ..training.slurm import layout, submit

    is_folder = "no_sbatch" in options
    processes = 1 if is_folder else options.nodes * options.ntasks_per_node
    words = tuple(options.overrides)
    job = TrainingJob(options.config, words, processes, options.device, options.runs, options.name)
    if is_folder:
        check_run_folder(job)
        write_config(job)
        return str(job.folder)
    sbatch_options = [*layout(options.nodes, options.ntasks_per_node, options.device), *options.sbatch_options]
    return submit([job], sbatch_options, "dry_run" in options)
