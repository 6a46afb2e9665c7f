"""``fairseq-linformer plan``: memory, time and cost of a pretraining run."""

import argparse

from .parsers import UnknownOption, add_command

DEFAULT, DEFAULT_GPU = "configs/pretrain/base.yaml", "v100-16gb"


def add_parser(commands) -> None:
    """Add ``plan``."""
    from ..benchmark.gpus import GPUS

    parser = add_command(
        commands,
        "plan",
        "estimate memory, time and cost of a pretraining run",
        """plan configs/pretrain/base.yaml --gpu v100-16gb --gpus 64
        plan +run=n1024-k256-layerwise +model.checkpoint_activations=true --gpu a100-80gb --gpus 8""",
        description="One step runs on tensors without memory; nothing is measured.",
    )
    parser.add_argument(
        "config",
        nargs="*",
        metavar="CONFIG|OVERRIDE",
        help=f"YAML configuration of fairseq-hydra-train (default: {DEFAULT}), then hydra overrides",
    )
    parser.add_argument(
        "--gpu", default=DEFAULT_GPU, metavar="NAME", help=f"GPU model, one of {', '.join(GPUS)} (default: %(default)s)"
    )
    parser.add_argument("--gpus", type=int, metavar="G", help="number of GPUs (default: the configuration's)")
    parser.add_argument(
        "--utilization",
        type=float,
        metavar="SHARE",
        help="share of the GPU's peak that matrix products reach (default: the GPU's known range)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check that every run next to CONFIG fits on the GPU and agrees with its name and its base configuration; "
        "exit with status 1 if not",
    )
    parser.set_defaults(run=_plan, accepts_unparsed=True)


def _plan(options: argparse.Namespace) -> str:
    from ..benchmark.gpus import find_gpu
    from ..training.plan import PlannedRun, check_runs, format_plan

    words = options.config + options.unparsed  # argparse collects only adjacent positional arguments
    if flags := [word for word in words if word.startswith("-")]:
        raise UnknownOption(f"unknown option {flags[0]}")
    config = words.pop(0) if words and not _is_override(words[0]) else DEFAULT
    if wrong := [word for word in words if not _is_override(word)]:
        raise ValueError(f"plan takes one configuration, then overrides, got a second configuration: {wrong[0]}")
    gpu = find_gpu(options.gpu)
    if not options.check:
        return format_plan(PlannedRun(config, words), gpu, options.gpus, options.utilization)
    if words or options.gpus is not None or options.utilization is not None:
        raise ValueError("--check takes only CONFIG and --gpu")
    return check_runs(config, gpu)


def _is_override(word: str) -> bool:
    return "=" in word or word.startswith("~")
