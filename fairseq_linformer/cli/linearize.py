"""``fairseq-linformer linearize``: convert a Transformer to a Linformer and distill it, in one command."""

import argparse
from pathlib import Path
from typing import Any

from .convert import MODEL_OPTIONS, add_model_options
from .parsers import add_command, add_minutes


def add_parser(commands: Any) -> None:
    """Add ``linearize``."""
    parser = add_command(
        commands,
        "linearize",
        "convert a Transformer to a Linformer, distill it, and report how much of it survives",
        """linearize sentence-transformers/all-MiniLM-L6-v2 minilm --text data/own/shard0 --max-positions 128
        linearize roberta.base/model.pt base --text data/pretraining/shard0 --projected-dim 128 --minutes 60""",
    )
    parser.add_argument(
        "source",
        metavar="NAME|FOLDER|CHECKPOINT",
        help="model on the hub, folder of transformers, or fairseq checkpoint of RoBERTa",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, or to resume")
    parser.add_argument(
        "--text",
        required=True,
        metavar="DATA-BIN",
        help="folder that `prepare pretraining` wrote, such as data/own/shard0, with the tokenizer of the source",
    )
    add_minutes(parser, "then checkpoint and exit")
    parser.add_argument(
        "--tokens-per-sample", type=int, metavar="N", help="tokens per block of text (default: --max-positions)"
    )
    parser.add_argument("--batch-size", type=int, default=16, metavar="B", help="blocks per update")
    parser.add_argument(
        "--max-update", type=int, default=1000, metavar="U", help="number of updates; 0 converts without training"
    )
    parser.add_argument("--lr", type=float, default=2e-4, metavar="LR", help="peak learning rate")
    parser.add_argument(
        "--short-seq-prob",
        type=float,
        default=0.5,
        metavar="P",
        help="probability that a batch is split into blocks of n/2, n/4, ... tokens, at least 16, to learn short "
        "inputs too; blocks of fewer than 32 tokens are not split",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="device to train on")
    parser.add_argument(
        "--amp",
        action="store_true",
        help="train in mixed precision: fp16 on a GPU, bf16 on a CPU that has bf16 instructions",
    )
    add_model_options(parser, required=False, seeded="random initializations and of the order of the blocks")
    parser.set_defaults(run=_linearize)


def _linearize(options: argparse.Namespace) -> str:
    import time

    from ..linearization.linearize import Linearization, linearize

    model = {name: getattr(options, name) for name in MODEL_OPTIONS if getattr(options, name) is not None}
    names = ("tokens_per_sample", "batch_size", "max_update", "lr", "short_seq_prob", "seed", "device", "amp")
    values = {name: getattr(options, name) for name in names}
    if options.minutes is not None and not 0 <= options.minutes < float("inf"):
        raise ValueError(f"--minutes must be a finite number of at least 0, got {options.minutes}")
    until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    report = linearize(Linearization(options.source, options.text, model, **values), options.out, until)
    if report is None:
        return f"{options.out}: stopped at the time limit; rerun to resume"
    lines = [f"{options.out / 'model.pt'}: share of the teacher's variance that survives, by layer"]
    for name in ("before", "after"):
        shares = report[f"variance_{name}"]
        lines.append(f"  {name} training: " + ", ".join(f"{share:.3f}" for share in shares))
    return "\n".join(lines)
