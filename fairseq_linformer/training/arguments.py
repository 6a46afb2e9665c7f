"""Command-line arguments of a training job, of ``submit`` and of its worker processes."""

import argparse

BASE = "configs/pretrain/base.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that define a job's configuration, device and run folder."""
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="hydra overrides, such as +run=n512-k256-layerwise"
    )
    parser.add_argument(
        "--config",
        default=BASE,
        metavar="YAML",
        help="YAML configuration of fairseq-hydra-train (default: %(default)s)",
    )
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="device to train on (default: %(default)s)"
    )
    parser.add_argument(
        "--runs", default="runs", metavar="FOLDER", help="folder that contains the run folders (default: %(default)s)"
    )
    parser.add_argument(
        "--name", default="", help="name of the run folder (default: derived from the configuration and its overrides)"
    )
