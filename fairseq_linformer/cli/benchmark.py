"""Measure time and memory, and compare with other models.

fairseq-linformer benchmark inference
"""

import argparse
from pathlib import Path

from ..benchmark.rows import FAIRSEQ_MODELS, HEAD_DIM, LINFORMERS, MODELS, TRAINABLE
from .parsers import Parser, add_command, positive, usable_device

LINFORMER_AND_TRANSFORMER = ("linformer", "transformer-eager", "transformer-sdpa")
KINDS = {
    "inference": ("Time a forward pass, and count its memory", "--lengths 512 4096 --projected-dim 128 256"),
    "training": ("Time a training step, and count its memory", "--models ours roberta --lengths 512"),
    "processes": ("Time whole fairseq-train processes that finetune", "--models ours roberta --data data/sst-2"),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    models = {"inference": MODELS, "training": TRAINABLE, "processes": FAIRSEQ_MODELS}
    for kind, (text, example) in KINDS.items():
        command = add_command(kinds, kind, f"{text}.\n\nfairseq-linformer benchmark {kind} {example}")
        _add_kind(command, kind, models[kind])


def _add_kind(parser: Parser, kind: str, models: tuple[str, ...]) -> None:
    parser.set_defaults(data="", max_positions=None)  # for all kinds
    add = parser.add_argument
    default = LINFORMER_AND_TRANSFORMER if kind == "inference" else FAIRSEQ_MODELS
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
    add("--max-tokens", type=positive, default=None, metavar="T", help=tokens)
    out = "JSON file to add the numbers to; a rerun skips those that it has"
    add("--out", type=Path, default=None, metavar="FILE", help=out)
    if kind == "processes":
        add("--data", required=True, metavar="FOLDER", help="task that `prepare` wrote, to finetune on")
    if kind == "training":
        positions = "finetune models of N positions on inputs of --lengths (default: pretrain at each length)"
        add("--max-positions", type=positive, metavar="N", help=positions)


def run(options: argparse.Namespace) -> str:
    _check(options)
    import torch

    from ..benchmark.comparisons import list_measurements
    from ..benchmark.measure import Setup, measure_once
    from ..reproduction.benchmarks import tabulate

    torch.set_num_threads(options.threads)
    size = options.encoder_layers, options.encoder_embed_dim
    tokens = options.max_tokens or (32768 if options.device == "cuda" else 2048)
    setup = Setup(options.device, options.dtype, *size, rounds=options.rounds)
    measurements = list_measurements(
        options.kind,
        setup,
        options.models,
        options.lengths,
        options.projected_dim,
        tokens,
        options.local_window,
        options.max_positions,
        options.data,
    )
    rows = [row for measurement in measurements for row in measure_once(options.out, measurement)[0]]
    failed = [row for row in rows if row.metric == "failed"]
    table = tabulate("Median [extremes of the rounds]", (row for row in rows if row.metric != "failed"))
    return "\n".join([table.markdown(), *(f"not measured: {row.model}, n = {row.n:,}: {row.reason}" for row in failed)])


def _check(options: argparse.Namespace) -> None:
    longest, n = max(options.lengths), options.max_positions
    if options.encoder_embed_dim % HEAD_DIM:
        raise ValueError(f"--encoder-embed-dim must be a multiple of {HEAD_DIM}, got {options.encoder_embed_dim}")
    if n is not None and longest > n:
        raise ValueError(f"--lengths must be at most --max-positions ({n}), got {longest}")
    ks, limits = options.projected_dim, [n] if n else options.lengths
    for k, limit in ((max(ks), max(limits)), (min(ks), min(limits))):  # each k has an n, and each n a k
        if k >= limit and {*options.models} & {*LINFORMERS}:
            raise ValueError(f"--projected-dim must be less than n ({limit}), got {k}")
    if options.kind == "processes" and options.device == "cpu" and options.dtype != "fp32":
        raise ValueError(f"--dtype must be fp32 on a CPU, where fairseq does not train in {options.dtype}")
    if options.data:
        from ..evaluation.encoded_rows import is_prepared, read_prepared_task

        task = read_prepared_task(options.data) if is_prepared(options.data) else None
        if task is None or not task.classes:
            raise ValueError(f"--data must be a task with classes that `prepare` wrote, got {options.data}")
