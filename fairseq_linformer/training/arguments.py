"""Command-line arguments of a training job, of ``submit`` and of its worker processes."""

from typing import Any

BASE = "configs/pretrain/base.yaml"


def add_arguments(parser: Any) -> None:
    """Add the arguments that define a job's configuration, device and run folder."""
    overrides = "hydra overrides, such as +run=n512-k256-layerwise"
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=overrides)
    parser.add_argument("--config", default=BASE, metavar="YAML", help="YAML configuration of fairseq-hydra-train")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="device to train on")
    add_runs(parser)
    name = "name of the run folder (default: derived from the configuration and its overrides)"
    parser.add_argument("--name", default="", help=name)


def add_runs(parser: Any, default: str = "runs") -> None:
    """Add ``--runs``."""
    parser.add_argument("--runs", default=default, metavar="FOLDER", help="folder that contains the run folders")
