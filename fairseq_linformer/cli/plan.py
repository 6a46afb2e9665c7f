"""``fairseq-linformer plan``: memory, time and cost of a pretraining run, before it is started.

    fairseq-linformer plan configs/pretrain/base.yaml --gpu v100-16gb --gpus 64
    fairseq-linformer plan +run=n1024-k256-layerwise +model.checkpoint_activations=true --gpu a100-80gb --gpus 8
    fairseq-linformer plan --check
"""

import argparse

DEFAULT = "configs/pretrain/base.yaml"


def add_parser(commands) -> None:
    """Add ``plan``."""
    from ..planning.gpus import GPUS

    plan = commands.add_parser("plan", help="memory, time and cost of a pretraining run",
                               description="Computed, not measured: docs/scale.md says from what.")  # fmt: skip
    plan.add_argument("config", nargs="*", metavar="CONFIG|OVERRIDE",
                      help=f"a YAML for fairseq-hydra-train (default: {DEFAULT}), and overrides")  # fmt: skip
    plan.add_argument("--gpu", default="v100-16gb", metavar="NAME", help=f"one of {', '.join(GPUS)} (%(default)s)")
    plan.add_argument("--gpus", type=int, metavar="G", help="how many (default: those of the configuration)")
    plan.add_argument("--utilisation", type=float, metavar="SHARE",
                      help="share of the GPU's peak that computing gets (default: 0.3)")  # fmt: skip
    plan.add_argument("--network-gbit", type=float, metavar="GBIT",
                      help="a second, of a node of 8 GPUs (default: that of the GPU's DGX)")  # fmt: skip
    plan.add_argument("--vocabulary", type=int, metavar="V",
                      help="entries of the dictionary (default: of task.data, else RoBERTa's 50,265)")  # fmt: skip
    plan.add_argument("--check", action="store_true",
                      help="build and check every run beside CONFIG; status 1 if any does not agree")  # fmt: skip
    plan.set_defaults(run=_plan, takes_more=True)


def _plan(options: argparse.Namespace) -> str:
    from ..planning.configs import read_run
    from ..planning.gpus import gpu_of
    from ..planning.plan import UTILISATION, make_plan
    from ..planning.report import check, plan_text

    words = options.config + options.more  # argparse takes positional arguments in one row only
    if flags := [word for word in words if word.startswith("-")]:
        raise ValueError(f"{flags[0]} is no option of plan; --help has all")
    config = words.pop(0) if words and not _is_override(words[0]) else DEFAULT
    if wrong := [word for word in words if not _is_override(word)]:
        raise ValueError(f"{wrong[0]} is a second configuration; all after the first must be overrides")
    if options.vocabulary is not None and options.vocabulary < 6:
        raise ValueError(f"--vocabulary is {options.vocabulary}; it must be at least 6: special symbols and a token")
    gpu = gpu_of(options.gpu)
    utilisation = UTILISATION if options.utilisation is None else options.utilisation
    if options.check:
        if words:
            raise ValueError(f"--check takes all runs as they are, and no overrides such as {words[0]}")
        return check(config, gpu, options.gpus, utilisation, options.network_gbit)
    run = read_run(config, words, options.vocabulary)
    return plan_text(make_plan(run, gpu, options.gpus, utilisation, options.network_gbit))


def _is_override(word: str) -> bool:
    return "=" in word or word.startswith("~")
