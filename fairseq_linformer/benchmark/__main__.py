"""Benchmark the modules on a machine that has only PyTorch and a checkout of the source:

    python -m fairseq_linformer.benchmark OUT --device cuda --minutes 7

measures Table 3 and training steps in bf16, fp16 and fp32 into OUT, a folder of JSON files; rerun it to resume.
Where the whole package is installed, ``fairseq-linformer benchmark report OUT`` turns OUT into records.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import torch

from ..machine import clean_commit
from . import inference, training
from .arguments import format_options, num_heads_for, parse_ints, parse_positive_int
from .cells import DTYPES, BenchmarkCell, Provenance, measure_cells
from .models import PYTORCH_MODELS

LENGTHS = {"cuda": inference.LENGTHS, "cpu": (512, 1024)}
DEFAULT_DTYPES = {"cuda": ["bf16", "fp16", "fp32"], "cpu": ["fp32"]}


def build_cells(options: argparse.Namespace) -> list[BenchmarkCell]:
    """The cells, most informative first: for each precision training at n = 512, then Table 3."""
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
        cells += training.build_cells(short, finetuning=(), models=PYTORCH_MODELS, **common)
        cells += inference.build_cells(lengths, usable_gib=inference.USABLE_GIB[options.device], **common)
    return cells


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_linformer.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="output folder: new, or that of an interrupted run")
    add("--device", choices=("cuda", "cpu"), default=device, help="device to measure on (%(default)s)")
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
        help="start nothing that would end after M minutes (%(default)s)",
    )
    add("--commit", metavar="SHA", help="commit of the source (default: HEAD of the checkout)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    words = format_options(vars(options), exclude=("out", "minutes", "commit", "dtype"))
    words += [word for dtype in options.dtype or () for word in ("--dtype", dtype)]
    command = shlex.join(["python", "-m", "fairseq_linformer.benchmark", "OUT", *words])
    try:
        provenance = Provenance(options.commit or clean_commit(), command)
        cells = build_cells(options)
        remaining = measure_cells(cells, options.out, provenance, options.minutes)
    except OSError as error:
        sys.exit(f"benchmark: OUT must be writable, got {options.out}: {error}")
    except ValueError as error:
        sys.exit(f"benchmark: {error}")
    print(f"{len(cells) - len(remaining)} of {len(cells)} cells are in {options.out}", end="")
    print(f"; rerun the command to measure the other {len(remaining)}" if remaining else "")


if __name__ == "__main__":
    main()
