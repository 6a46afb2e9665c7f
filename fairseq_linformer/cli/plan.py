"""Estimate memory, time and cost of a pretraining run. One step runs on tensors without memory; nothing is measured.

fairseq-linformer plan configs/pretrain/base.yaml --gpu v100-16gb --gpus 64
fairseq-linformer plan +run=n1024-k256-layerwise +model.checkpoint_activations=true --gpu a100-80gb --gpus 8
"""

import argparse

from ..benchmark.gpus import GPUS
from .parsers import PRETRAINING_YAML


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    config = f"YAML configuration of fairseq-hydra-train (default: {PRETRAINING_YAML}), then hydra overrides"
    add("overrides", nargs="*", default=[], metavar="CONFIG|OVERRIDE", help=config)
    add("--gpu", choices=GPUS, default="v100-16gb", metavar="NAME", help=f"GPU model, one of {', '.join(GPUS)}")
    add("--gpus", type=int, default=None, metavar="G", help="number of GPUs (default: the configuration's)")
    share = "share of the GPU's peak that is reached (default: the GPU's known range)"
    add("--utilization", type=float, default=None, metavar="SHARE", help=share)


def run(options: argparse.Namespace) -> str:
    from ..training.plan import PlannedRun, format_plan

    config, *overrides = options.overrides or [PRETRAINING_YAML]
    if "=" in config or config.startswith("~"):
        config, overrides = PRETRAINING_YAML, options.overrides
    return format_plan(PlannedRun(config, overrides), GPUS[options.gpu], options.gpus, options.utilization)
