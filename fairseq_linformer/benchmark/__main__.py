"""Benchmark the modules on a machine that has only PyTorch and a checkout of the source:

    python -m fairseq_linformer.benchmark OUT --device cuda --minutes 7
    python -m fairseq_linformer.benchmark OUT --dtype bf16 --dry-run h100-80gb

The first measures Table 3 and training steps in bf16, fp16 and fp32 into OUT, a folder of JSON files; rerun it to
resume. The second lists the measurements that OUT lacks, and predicts their time on the GPU of another machine.
Where the whole package is installed, ``fairseq-linformer benchmark report OUT`` prints OUT as a table.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..machine import clean_commit
from . import inference, training
from .arguments import format_options, num_heads_for, parse_ints, parse_positive_int
from .cells import (
    DTYPES,
    HOST_SECONDS,
    BenchmarkCell,
    Provenance,
    is_out_of_memory,
    measure_cells,
    predict_seconds,
    read_cell,
)
from .gpus import GPUS, Gpu, find_gpu
from .memory import NO_MEMORY
from .models import PYTORCH_MODELS

LENGTHS = {"cuda": inference.LENGTHS, "cpu": (512, 1024)}
DEFAULT_DTYPES = {"cuda": ["bf16", "fp16", "fp32"], "cpu": ["fp32"]}


def build_cells(options: argparse.Namespace) -> list[BenchmarkCell]:
    """The cells, most important first: for each precision Table 3, then training steps, then their bytes."""
    lengths = options.lengths or LENGTHS[options.device]
    cells: list[BenchmarkCell] = []
    for dtype in options.dtype or DEFAULT_DTYPES[options.device]:
        common: dict[str, Any] = dict(
            device=options.device,
            dtype=dtype,
            layers=options.encoder_layers,
            rounds=options.rounds,
            tokens=options.max_tokens,
            embed_dim=options.encoder_embed_dim,
            heads=num_heads_for(options.encoder_embed_dim),
        )
        short = [n for n in lengths if n <= 4096]
        cells += inference.build_cells(lengths, usable_gib=inference.USABLE_GIB[options.device], **common)
        cells += training.build_cells(short, finetuning=(), models=PYTORCH_MODELS, **common)
    return cells


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_linformer.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="output folder: new, or that of an interrupted run")
    add("--device", choices=("cuda", "cpu"), help="device to measure on (default: cuda if there is a GPU)")
    add("--dtype", action="append", choices=tuple(DTYPES), help="precision; repeat for several (cuda: all; cpu: fp32)")
    add("--lengths", type=parse_ints, metavar="N,N", help="sequence lengths n (cuda: 512 to 65,536; cpu: 512,1024)")
    add("--encoder-layers", type=int, default=12, metavar="L", help="number of layers (%(default)s)")
    add("--encoder-embed-dim", type=int, default=768, metavar="D", help="width d, in heads of 64 (%(default)s)")
    tokens = training.TOKENS_PER_STEP["cuda"]
    add("--max-tokens", type=parse_positive_int, default=tokens, metavar="T", help="tokens per batch (%(default)s)")
    add("--rounds", type=int, default=5, metavar="R", help="interleaved repetitions (%(default)s)")
    add(
        "--minutes",
        type=float,
        default=7.0,
        metavar="M",
        help="time budget; only the first cell starts if it is predicted to exceed it (%(default)s)",
    )
    add("--commit", metavar="SHA", help="commit of the source (default: HEAD of the checkout)")
    add("--dry-run", choices=tuple(GPUS), help="measure nothing; list what is missing and predict its time on this GPU")
    options = parser.parse_args(arguments)
    if options.dry_run and options.device == "cpu":
        parser.error("--dry-run predicts for a GPU, got --device cpu")
    if options.device is None:
        options.device = "cuda" if options.dry_run or torch.cuda.is_available() else "cpu"
    return options


def format_prediction(cells: Sequence[BenchmarkCell], gpu: Gpu) -> str:
    """A line per cell with its operations, the attention weights that it moves, and its seconds at the lowest
    known share of the GPU's peak; then their sum.

    Raises:
        ValueError: the GPU does not support a cell's precision.
    """
    lines = [f"{'cell':46}{'10^12 operations':>18}{'GB of weights':>15}{'seconds':>9}"]
    total, shares = 0.0, {}
    for cell in cells:
        if cell.dtype == "bf16" and not gpu.bf16:
            raise ValueError(f"{gpu.name} does not support bf16; use --dtype fp16")
        shares[cell.dtype], _ = gpu.utilization(cell.dtype)
        rate = 1e12 * gpu.peak(cell.dtype) * shares[cell.dtype]
        seconds = predict_seconds(cell, rate, 1e9 * gpu.bandwidth)
        total += seconds
        lines.append(
            f"{cell.name:46}{cell.operations() / 1e12:>18,.0f}{cell.score_bytes() / 1e9:>15,.0f}{seconds:>9.1f}"
        )
    used = ", ".join(f"{share:g} of {gpu.peak(dtype):g} TFLOPS in {dtype}" for dtype, share in shares.items())
    lines.append(
        f"{len(cells)} cells: {total:.0f} seconds of {gpu.name} ({used or 'none is missing'}), and at most "
        f"{HOST_SECONDS * len(cells):.0f} of the host"
    )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    words = format_options(vars(options), exclude=("out", "minutes", "commit", "dtype", "dry_run"))
    words += [word for dtype in options.dtype or () for word in ("--dtype", dtype)]
    command = shlex.join(["python", "-m", "fairseq_linformer.benchmark", "OUT", *words])
    try:
        cells = build_cells(options)
        if options.dry_run:
            missing = [cell for cell in cells if not (options.out / f"{cell.name}.json").exists()]
            print(format_prediction(missing, find_gpu(options.dry_run)))
            return
        provenance = Provenance(options.commit or clean_commit(), command)
        remaining = measure_cells(cells, options.out, provenance, options.minutes)
    except OSError as error:
        sys.exit(f"benchmark: OUT must be writable, got {options.out}: {error}")
    except ValueError as error:
        sys.exit(f"benchmark: {error}")
    paths = [options.out / f"{cell.name}.json" for cell in cells]
    failed = sum(is_out_of_memory(read_cell(path)) for path in paths if path.exists())
    print(f"{len(cells) - len(remaining)} of {len(cells)} cells are in {options.out}", end="")
    print(f", {failed} of them only as {NO_MEMORY}" if failed else "", end="")
    print(f"; rerun the command to measure the other {len(remaining)}" if remaining else "")


if __name__ == "__main__":
    main()
