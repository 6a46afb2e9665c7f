"""``fairseq-linformer plan``: estimated memory, time and cost of a pretraining run, and its attention kernels."""

import argparse

from .parsers import UnknownOption, add_command, reject_options

DEFAULT, DEFAULT_GPU = "configs/pretrain/base.yaml", "v100-16gb"
REJECTED_WITH_KERNELS = ("gpu", "gpus", "utilization", "network_gbit", "vocab_size", "check")


def add_parser(commands) -> None:
    """Add ``plan``."""
    from ..benchmark.gpus import GPUS

    parser = add_command(
        commands,
        "plan",
        "estimate memory, time and cost of a pretraining run",
        """plan configs/pretrain/base.yaml --gpu v100-16gb --gpus 64
        plan +run=n1024-k256-layerwise +model.checkpoint_activations=true --gpu a100-80gb --gpus 8
        plan --kernels +run=n4096-k256-headwise""",
        description="Everything is computed, nothing is measured. With --kernels, show which attention kernels PyTorch "
        "uses on this machine instead.",
    )
    parser.add_argument(
        "config",
        nargs="*",
        metavar="CONFIG|OVERRIDE",
        help=f"YAML configuration of fairseq-hydra-train (default: {DEFAULT}), then hydra overrides",
    )
    parser.add_argument("--gpu", metavar="NAME", help=f"GPU model, one of {', '.join(GPUS)} (default: {DEFAULT_GPU})")
    parser.add_argument(
        "--gpus", type=int, metavar="G", help="number of GPUs (default: the configuration's; with --check 64)"
    )
    parser.add_argument(
        "--utilization",
        type=float,
        metavar="SHARE",
        help="share of the GPU's peak that matrix products reach (default: the published range of the GPU, which makes "
        "times ranges)",
    )
    parser.add_argument(
        "--network-gbit",
        type=float,
        metavar="GBIT",
        help="network bandwidth per node of 8 GPUs, in Gbit/s (default: that of the GPU's DGX)",
    )
    parser.add_argument(
        "--vocab-size",
        type=int,
        metavar="V",
        help="vocabulary size, special symbols included (default: that of task.data, else RoBERTa's 50,265)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check that every run next to CONFIG matches its name, its base configuration and the formulas, and fits "
        "on the GPU; exit with status 1 if not",
    )
    parser.add_argument(
        "--kernels",
        action="store_true",
        help="show the scaled_dot_product_attention kernel of each shape, on this machine's GPU, or CPU without one",
    )
    parser.set_defaults(run=_plan, accepts_unparsed=True)


def _plan(options: argparse.Namespace) -> str:
    from ..benchmark.gpus import find_gpu
    from ..training.plan import build_plans
    from ..training.planned_run import read_run
    from ..training.report import check_runs, format_plan

    words = options.config + options.unparsed  # argparse collects only adjacent positional arguments
    if flags := [word for word in words if word.startswith("-")]:
        raise UnknownOption(f"unknown option {flags[0]}")
    config = words.pop(0) if words and not _is_override(words[0]) else DEFAULT
    if wrong := [word for word in words if not _is_override(word)]:
        raise ValueError(f"plan takes one configuration, then overrides, got a second configuration: {wrong[0]}")
    if options.vocab_size is not None and options.vocab_size < 6:
        raise ValueError(f"--vocab-size must be at least 6 (special symbols and a token), got {options.vocab_size}")
    if options.kernels:
        reject_options(options, REJECTED_WITH_KERNELS, "cannot be used with --kernels, which shows nothing else")
        return _show_kernels(config, words)
    gpu = find_gpu(options.gpu or DEFAULT_GPU)
    if options.check:
        reject_options(options, ("vocab_size",), "cannot be used with --check, which uses RoBERTa's vocabulary")
        if words:
            raise ValueError(f"--check cannot be used with overrides, got {words[0]}")
        return check_runs(config, gpu, options.gpus, options.utilization, options.network_gbit)
    run = read_run(config, words, options.vocab_size)
    return format_plan(*build_plans(run, gpu, options.gpus, options.utilization, options.network_gbit))


def _show_kernels(config: str, overrides: list[str]) -> str:
    import torch

    from ..training.compose import compose_config
    from ..training.kernels import format_kernels

    return format_kernels(compose_config(config, overrides), "cuda" if torch.cuda.is_available() else "cpu")


def _is_override(word: str) -> bool:
    return "=" in word or word.startswith("~")
