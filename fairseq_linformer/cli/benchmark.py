"""``fairseq-linformer benchmark``: time and memory, compared with other models.

Each kind runs the measurements that are not in OUT yet, and prints a table of all that are.
"""

import argparse
import shlex
from pathlib import Path

from ..benchmark.arguments import parse_ints, parse_ints_or_none, parse_names, parse_positive_int
from .benchmark_cells import BUILDERS, PARTS
from .parsers import add_command, add_subcommands

NOT_RECORDED = ("run", "command", "kind", "out", "data")
"""Options that are omitted from the recorded command: folders."""
MAX_TOKENS = {"inference": "4096, on cuda 32768", "training": "2048, on cuda 32768", "scaling": "the longest n"}
"""Defaults of ``--max-tokens``, for help texts."""
MODELS = {
    "scaling": "recurrent, transformer-eager, transformer-sdpa, bigbird, longformer, reformer, nystromformer, fnet, "
    "modernbert, linformer (default: all)",
    "training": "ours, roberta, authors, linformer, linformer-pytorch, ours-modules, transformer-eager, "
    "transformer-sdpa (default: the first three, and the next two if installed)",
    "finetuning": "ours, roberta, authors (default: all)",
}
"""Values and defaults of ``--models``, for help texts."""
KINDS = {
    "inference": "time a forward pass and find the largest batch (Table 3)",
    "scaling": "measure time per token over n, for the model families of Table 1",
    "training": "measure training steps, their memory, and whole fairseq-train processes",
    "finetuning": "measure whole fairseq-train processes on a task",
}


def add_parser(commands) -> None:
    """Add ``benchmark`` and its kinds."""
    benchmark = add_command(
        commands, "benchmark", "measure time and memory, and compare with other models", "benchmark inference OUT"
    )
    kinds = add_subcommands(benchmark, "kind")
    for kind, help in KINDS.items():
        example = f"benchmark {kind} OUT" + " --data data/sst-2" * (kind == "finetuning")
        _add_kind(add_command(kinds, kind, help, example, description="Rerun to resume."), kind)
    report = add_command(kinds, "report", "print the table of measurements", "benchmark report OUT")
    report.add_argument("out", type=Path, metavar="OUT", help="folder with the measurements")
    report.set_defaults(run=_report)


def _add_kind(parser, kind: str) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write measurements to, or to resume")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="device to measure on")
    parser.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), default="fp32", help="floating-point type")
    if kind != "finetuning":
        or_none = ", or none" * (kind == "training")
        parser.add_argument(
            "--lengths",
            type=parse_ints_or_none if or_none else parse_ints,
            metavar="N,N",
            help=f"values of n, separated by commas{or_none} (default: the paper's)",
        )
        parser.add_argument(
            "--max-tokens", type=parse_positive_int, metavar="T", help=f"tokens per batch (default: {MAX_TOKENS[kind]})"
        )
        parser.add_argument(
            "--warmup-rounds", type=int, metavar="R", help="rounds before the measured ones (default: 1)"
        )
    layers = 2 if kind == "scaling" else 12
    parser.add_argument("--encoder-layers", type=int, default=layers, metavar="L", help="number of encoder layers")
    parser.add_argument(
        "--rounds", type=int, metavar="R", help="measured rounds, in which models take turns (default: 3)"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="number of CPU threads")
    parser.add_argument(
        "--encoder-embed-dim", type=int, default=768, metavar="D", help="encoder embedding dimension, 64 per head"
    )
    if kind == "inference":
        parser.add_argument(
            "--projected-dim",
            type=parse_ints,
            metavar="K,K",
            help="values of k, separated by commas (default: the paper's)",
        )
        parser.add_argument(
            "--whole-models",
            action="store_true",
            help="time fairseq's own models instead of encoders that differ only in attention; takes a single k",
        )
        parser.add_argument(
            "--gpu-memory-gib",
            type=float,
            metavar="GIB",
            help="memory that the largest batch must fit into, in GiB (default: 16, a V100's)",
        )
    else:
        parser.add_argument("--projected-dim", type=int, default=256, metavar="K", help="k, the projected dimension")
    if kind in ("inference", "scaling"):
        limited = "attention weights of transformer-eager" if kind == "scaling" else "memory that a model may use"
        parser.add_argument(
            "--max-memory-gib",
            type=float,
            metavar="GIB",
            help=f"limit in GiB on the {limited}; what exceeds it is not measured (default: 8, on cuda 60)",
        )
    if kind == "scaling":
        parser.add_argument("--only", choices=("families", "pertoken"), help="run one of the two parts (default: both)")
    if kind != "inference":
        parser.add_argument(
            "--models",
            type=parse_names,
            metavar="NAME,NAME",
            help=f"models to measure, separated by commas: {MODELS[kind]}",
        )
    if kind == "training":
        parser.add_argument(
            "--finetuning-lengths",
            type=parse_ints_or_none,
            metavar="N,N",
            help="input lengths of finetuning steps, separated by commas, or none (default: 32,64,128)",
        )
        parser.add_argument("--only", choices=PARTS, help="run one of the four parts (default: all)")
    if kind == "finetuning":
        parser.add_argument(
            "--data", type=Path, required=True, metavar="FOLDER", help="folder of a task that `prepare` wrote"
        )
        parser.add_argument(
            "--max-positions", type=parse_positive_int, default=512, metavar="N", help="n, the longest input in tokens"
        )
        parser.add_argument(
            "--batch-size", type=parse_positive_int, default=32, metavar="B", help="sentences per batch"
        )
    if kind in ("training", "finetuning"):
        parser.add_argument(
            "--max-update", type=parse_positive_int, metavar="U", help="updates per process (default: 5)"
        )
        parser.add_argument(
            "--warmup-updates", type=int, metavar="U", help="updates of a process before the measured ones (default: 1)"
        )
        parser.add_argument(
            "--fairseq-options",
            type=shlex.split,
            default=[],
            metavar="OPTIONS",
            help="further options of fairseq-train for this plugin's model, such as --fairseq-options='--compile'",
        )
    parser.set_defaults(run=_measure)


def _measure(options: argparse.Namespace) -> str:
    import torch

    from ..benchmark.arguments import format_options
    from ..benchmark.cells import Provenance, measure_cells
    from ..machine import clean_commit

    if options.threads < 1:
        raise ValueError(f"--threads must be at least 1, got {options.threads}")
    torch.set_num_threads(options.threads)
    cells = BUILDERS[options.kind](options)
    words = shlex.join(
        [
            "fairseq-linformer",
            "benchmark",
            options.kind,
            "OUT",
            *(["--data", "FOLDER"] if options.kind == "finetuning" else []),
            *format_options(vars(options), exclude=NOT_RECORDED),
        ]
    )
    commit = clean_commit()
    measure_cells(cells, options.out, Provenance(commit, words))
    return _report(options)


def _report(options: argparse.Namespace) -> str:
    from ..reproduction.cells import failures, read_all, rows_of
    from ..reproduction.display import Table
    from ..reproduction.result import in_words

    cells = read_all(options.out)
    lost = [f"{cell['name']}: {name}: {why}" for cell in cells for name, why in failures(cell).items()]
    rows = rows_of(cells)
    if not rows:
        raise ValueError(f"{options.out} has no successful measurement" + f": {'; '.join(lost)}" * bool(lost))
    heads = ["phase", "n", "k", "model", "over", "quantity", "median [extremes]", "unit"]
    lines = [
        [
            row.phase,
            row.n,
            row.k,
            row.model,
            row.baseline or row.baseline_n,
            row.part or row.metric,
            in_words(row, 4),
            row.unit,
        ]
        for row in rows
    ]
    table = Table("", heads, [["" if cell is None else str(cell) for cell in line] for line in lines]).markdown()
    return "\n".join([table, *(f"not measured: {each}" for each in lost)])
