"""``fairseq-linformer benchmark``: time and memory, compared with other models."""

import argparse
import shlex
from argparse import ArgumentTypeError
from functools import partial
from pathlib import Path
from typing import Any

from .parsers import add_command, add_subcommands

MODELS = {
    "inference": "ours, roberta, authors, linformer, transformer-eager, transformer-sdpa, lucidrains, "
    "linformer-pytorch, recurrent, bigbird, longformer, reformer, modernbert",
    "training": "ours, roberta, authors, linformer, transformer-eager, transformer-sdpa, lucidrains, linformer-pytorch",
    "processes": "ours, roberta, authors",
}
"""Names of models, for choices and help texts."""
DEFAULT_MODELS = {
    "inference": ["linformer", "transformer-eager", "transformer-sdpa"],
    "training": ["ours", "roberta", "authors"],
    "processes": ["ours", "roberta", "authors"],
}
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
    for kind, (help, example) in KINDS.items():
        _add_kind(add_command(kinds, kind, help, f"benchmark {kind} {example}"), kind)


def _add_kind(parser: argparse.ArgumentParser, kind: str) -> None:
    add = parser.add_argument
    add(
        "--models",
        nargs="+",
        choices=MODELS[kind].split(", "),
        default=DEFAULT_MODELS[kind],
        metavar="NAME",
        help=f"models to compare: {MODELS[kind]} (default: {', '.join(DEFAULT_MODELS[kind])})",
    )
    lengths = [512] if kind == "processes" else [512, 1024, 2048, 4096]
    add("--lengths", nargs="+", type=positive, default=lengths, metavar="N", help="values of n, tokens per sentence")
    add("--projected-dim", nargs="+", type=positive, default=[256], metavar="K", help="values of k")
    add("--local-window", nargs="+", type=int, default=[0], metavar="W", help="local windows of this project's models")
    add("--encoder-layers", type=positive, default=12, metavar="L", help="number of encoder layers")
    add("--encoder-embed-dim", type=width, default=768, metavar="D", help="encoder embedding dimension, 64 per head")
    add("--rounds", type=positive, default=3, metavar="R", help="measured rounds, in which the models take turns")
    add("--threads", type=positive, default=1, metavar="T", help="number of CPU threads")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="device to measure on")
    dtypes = ("fp32", "fp16") if kind == "processes" else ("fp32", "fp16", "bf16")
    add("--dtype", choices=dtypes, default="fp32", help="floating-point type")
    add("--out", type=Path, metavar="FILE", help="JSON file to add the numbers to; a rerun skips those that it has")
    if kind == "processes":
        add("--data", type=Path, metavar="FOLDER", help="task that `prepare` wrote, to finetune on (default: pretrain)")
        add("--batch-size", type=positive, default=4, metavar="B", help="sentences per batch")
        add("--max-update", type=positive, default=6, metavar="U", help="updates; the first half warms up")
        add(
            "--fairseq-options",
            type=shlex.split,
            default=[],
            metavar="OPTIONS",
            help="further options of fairseq-train for this plugin's model, such as --fairseq-options=--compile",
        )
    else:
        note = "4,096, on cuda 32,768" if kind == "inference" else "2,048, on cuda 32,768"
        add("--max-tokens", type=positive, metavar="T", help=f"tokens per batch, one sentence at least ({note})")
    if kind == "training":
        add(
            "--max-positions",
            type=positive,
            metavar="N",
            help="finetune models of N positions on inputs of --lengths (default: pretrain at each length)",
        )
    parser.set_defaults(run=_run)


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def width(text: str) -> int:
    value = int(text)
    if value < 64 or value % 64:
        raise ArgumentTypeError(f"must be a multiple of 64, got {value}")
    return value


def _run(options: argparse.Namespace) -> str:
    import torch

    from ..benchmark.measure import Setup, measure_once

    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device must be cpu, because PyTorch finds no GPU")
    torch.set_num_threads(options.threads)
    setup = Setup(
        options.device, options.dtype, options.encoder_layers, options.encoder_embed_dim, rounds=options.rounds
    )
    rows = []
    for measurement in _measurements(options, setup):
        rows += measure_once(options.out, measurement)
    return format_rows(rows)


def _measurements(options: argparse.Namespace, setup: Any) -> list[partial]:
    """One per length: models take turns at each."""
    from ..benchmark.measure import inference, make_cases, training

    positions = getattr(options, "max_positions", None)
    longest, k = max(options.lengths), max(options.projected_dim)
    if positions is not None and longest > positions:
        raise ValueError(f"--lengths must be at most --max-positions ({positions}), got {longest}")
    if k >= (positions or longest):
        raise ValueError(f"--projected-dim must be less than n ({positions or longest}), got {k}")
    ks, windows = options.projected_dim, options.local_window
    groups = [make_cases(options.models, n, ks, windows, positions) for n in options.lengths]
    groups = [cases for cases in groups if cases]
    for cases in groups:
        for case in cases:
            setup.config(case, positions)  # rejects a window that does not fit
    if options.kind == "processes":
        return _processes(options, groups, setup)
    tokens = options.max_tokens or (
        32768 if options.device == "cuda" else 4096 if options.kind == "inference" else 2048
    )
    if options.kind == "inference":
        return [partial(inference, cases=cases, tokens=tokens, setup=setup, memory=True) for cases in groups]
    return [partial(training, cases=cases, tokens=tokens, setup=setup, positions=positions) for cases in groups]


def _processes(options: argparse.Namespace, groups: list, setup: Any) -> list[partial]:
    from ..benchmark.processes import processes
    from ..evaluation.encoded_rows import is_prepared, read_prepared_task

    if options.device == "cpu" and options.dtype != "fp32":
        raise ValueError(f"--dtype must be fp32 on a CPU, where fairseq does not train in {options.dtype}")
    train = partial(processes, batch=options.batch_size, setup=setup, updates=options.max_update)
    train = partial(train, options=options.fairseq_options)
    if options.data:
        task = read_prepared_task(options.data) if is_prepared(options.data) else None
        if task is None or not task.classes:
            raise ValueError(f"--data must be a task with classes that `prepare` wrote, got {options.data}")
        train = partial(train, data=str(options.data), classes=len(task.classes))
    return [partial(train, cases=cases) for cases in groups]


def format_rows(rows: list) -> str:
    """A table with a line per model and size, and a line for each that could not be measured."""
    from ..reproduction.display import Table
    from ..reproduction.result import in_words

    cells: dict[tuple[str, ...], dict[str, str]] = {}
    failed = []
    for row in rows:
        place = row.model, f"{row.n:,}", str(row.k or ""), str(row.local_window or "")
        if row.metric == "failed":
            failed.append(f"not measured: {row.model}, n = {row.n:,}: {row.reason}")
        elif row.metric in ("time_ratio", "speed_ratio"):
            cells[place][f"times as fast as {row.baseline}"] = in_words(row)
        elif row.baseline is None:
            cells.setdefault(place, {})[row.unit] = in_words(row, 4)
    units = list(dict.fromkeys(unit for line in cells.values() for unit in line))
    lines = [[*place, *(line.get(unit, "") for unit in units)] for place, line in cells.items()]
    table = Table("Median [extremes of the rounds]", ["model", "n", "k", "W", *units], lines)
    return "\n".join([table.markdown(), *failed])
