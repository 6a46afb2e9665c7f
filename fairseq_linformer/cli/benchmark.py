"""``fairseq-linformer benchmark``: time and memory, compared with other models."""

import argparse
import itertools
from functools import partial
from pathlib import Path
from typing import Any

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

    from ..benchmark.measure import Setup, make_cases, measure_once

    if options.encoder_embed_dim % HEAD_DIM:
        raise ValueError(f"--encoder-embed-dim must be a multiple of {HEAD_DIM}, got {options.encoder_embed_dim}")
    positions = getattr(options, "max_positions", None)
    longest, k = max(options.lengths), max(options.projected_dim)
    if positions is not None and longest > positions:
        raise ValueError(f"--lengths must be at most --max-positions ({positions}), got {longest}")
    if k >= (positions or longest):
        raise ValueError(f"--projected-dim must be less than n ({positions or longest}), got {k}")
    torch.set_num_threads(options.threads)
    size = options.encoder_layers, options.encoder_embed_dim
    setup = Setup(options.device, options.dtype, *size, rounds=options.rounds)
    tokens = options.max_tokens or (32768 if options.device == "cuda" else 2048)
    groups = [
        make_cases(options.models, n, options.projected_dim, options.local_window, positions) for n in options.lengths
    ]
    for case in itertools.chain(*groups):
        setup.config(case, positions)  # rejects a window that does not fit
    rows = []
    for cases in filter(None, groups):  # models of a length take turns
        rows += measure_once(options.out, _choose_measurement(options, cases, tokens, setup))
    return format_rows(rows)


def _choose_measurement(options: argparse.Namespace, cases: list, tokens: int, setup: Any) -> partial:
    from ..benchmark.measure import inference, training

    if options.kind == "inference":
        return partial(inference, cases=cases, tokens=tokens, setup=setup, memory=True)
    if options.kind == "training":
        return partial(training, cases=cases, tokens=tokens, setup=setup, positions=options.max_positions)
    from ..benchmark.processes import processes
    from ..evaluation.encoded_rows import is_prepared, read_prepared_task

    if options.device == "cpu" and options.dtype != "fp32":
        raise ValueError(f"--dtype must be fp32 on a CPU, where fairseq does not train in {options.dtype}")
    measure = partial(processes, cases=cases, batch=max(1, tokens // cases[0].n), setup=setup)
    if not options.data:
        return measure
    task = read_prepared_task(options.data) if is_prepared(options.data) else None
    if task is None or not task.classes:
        raise ValueError(f"--data must be a task with classes that `prepare` wrote, got {options.data}")
    return partial(measure, data=str(options.data), classes=len(task.classes))


def format_rows(rows: list) -> str:
    """A table with a line per model and size, and a line for each that could not be measured."""
    from ..reproduction.page import Table
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
