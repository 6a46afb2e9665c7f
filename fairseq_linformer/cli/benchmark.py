"""``fairseq-linformer benchmark``: time and memory, compared with other models."""

import argparse
from pathlib import Path

from ..benchmark.rows import FAIRSEQ_MODELS, HEAD_DIM, MODELS, TRAINABLE
from .parsers import add_command, add_subcommands, positive, usable_device

LINFORMER_AND_TRANSFORMER = ("linformer", "transformer-eager", "transformer-sdpa")
KINDS = {
    "inference": ("time a forward pass, and count its memory", "--lengths 512 4096 --projected-dim 128 256"),
    "training": ("time a training step, and count its memory", "--models ours roberta --lengths 512"),
    "processes": ("time whole fairseq-train processes", "--models ours roberta --data data/sst-2"),
}


def add_parser(commands) -> None:
    """Add ``benchmark`` and its kinds."""
    benchmark = add_command(
        commands, "benchmark", "measure time and memory, and compare with other models", "benchmark inference"
    )
    kinds = add_subcommands(benchmark, "kind")
    models = {"inference": MODELS, "training": TRAINABLE, "processes": FAIRSEQ_MODELS}
    for kind, (help, example) in KINDS.items():
        default = LINFORMER_AND_TRANSFORMER if kind == "inference" else FAIRSEQ_MODELS
        _add_kind(add_command(kinds, kind, help, f"benchmark {kind} {example}"), kind, models[kind], default)


def _add_kind(parser: argparse.ArgumentParser, kind: str, models: tuple[str, ...], default: tuple[str, ...]) -> None:
    add = parser.add_argument
    names = f"models to compare: {', '.join(models)} (default: {', '.join(default)})"
    add("--models", nargs="+", choices=models, default=default, metavar="NAME", help=names)
    lengths = [512] if kind == "processes" else [512, 1024, 2048, 4096]
    add("--lengths", nargs="+", type=positive, default=lengths, metavar="N", help="values of n, tokens per sentence")
    add("--projected-dim", nargs="+", type=positive, default=[256], metavar="K", help="values of k")
    add("--local-window", nargs="+", type=int, default=[0], metavar="W", help="local windows of this project's models")
    add("--encoder-layers", type=positive, default=12, metavar="L", help="number of encoder layers")
    width = f"encoder embedding dimension, {HEAD_DIM} per head"
    add("--encoder-embed-dim", type=positive, default=768, metavar="D", help=width)
    add("--rounds", type=positive, default=3, metavar="R", help="measured rounds, in which the models take turns")
    add("--threads", type=positive, default=1, metavar="T", help="number of CPU threads")
    add("--device", type=usable_device, choices=("cpu", "cuda"), default="cpu", help="device to measure on")
    dtypes = ("fp32", "fp16", "bf16")
    add("--dtype", choices=dtypes[:2] if kind == "processes" else dtypes, default="fp32", help="floating-point type")
    tokens = "tokens per batch, one sentence at least (default: 32768 on cuda, 2048 on cpu)"
    add("--max-tokens", type=positive, metavar="T", help=tokens)
    add("--out", type=Path, metavar="FILE", help="JSON file to add the numbers to; a rerun skips those that it has")
    if kind == "processes":
        add("--data", type=Path, metavar="FOLDER", help="task that `prepare` wrote, to finetune on (default: pretrain)")
    if kind == "training":
        positions = "finetune models of N positions on inputs of --lengths (default: pretrain at each length)"
        add("--max-positions", type=positive, metavar="N", help=positions)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> str:
    import torch

    from ..benchmark.comparisons import list_measurements
    from ..benchmark.measure import Setup, measure_once
    from ..reproduction.benchmarks import tabulate

    positions, data = getattr(options, "max_positions", None), getattr(options, "data", None)
    longest, k = max(options.lengths), max(options.projected_dim)
    if options.encoder_embed_dim % HEAD_DIM:
        raise ValueError(f"--encoder-embed-dim must be a multiple of {HEAD_DIM}, got {options.encoder_embed_dim}")
    if positions is not None and longest > positions:
        raise ValueError(f"--lengths must be at most --max-positions ({positions}), got {longest}")
    if k >= (positions or longest):
        raise ValueError(f"--projected-dim must be less than n ({positions or longest}), got {k}")
    if options.kind == "processes" and options.device == "cpu" and options.dtype != "fp32":
        raise ValueError(f"--dtype must be fp32 on a CPU, where fairseq does not train in {options.dtype}")
    if data:
        _check_task(data)
    torch.set_num_threads(options.threads)
    size = options.encoder_layers, options.encoder_embed_dim
    measurements = list_measurements(
        options.kind,
        Setup(options.device, options.dtype, *size, rounds=options.rounds),
        options.models,
        options.lengths,
        options.projected_dim,
        options.max_tokens or (32768 if options.device == "cuda" else 2048),
        options.local_window,
        positions,
        str(data) if data else None,
    )
    rows = [row for measurement in measurements for row in measure_once(options.out, measurement)]
    failed = [row for row in rows if row.metric == "failed"]
    table = tabulate("Median [extremes of the rounds]", (row for row in rows if row.metric != "failed"))
    return "\n".join([table.markdown(), *(f"not measured: {row.model}, n = {row.n:,}: {row.reason}" for row in failed)])


def _check_task(folder: Path) -> None:
    from ..evaluation.encoded_rows import is_prepared, read_prepared_task

    task = read_prepared_task(folder) if is_prepared(folder) else None
    if task is None or not task.classes:
        raise ValueError(f"--data must be a task with classes that `prepare` wrote, got {folder}")
