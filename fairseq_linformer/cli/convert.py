"""Convert an encoder to a Linformer for fairseq, or a Linformer to another n. INPUT is a fairseq checkpoint (RoBERTa, a
Linformer, or of the authors' code), a folder or hub name of transformers (BERT, RoBERTa, and encoders with their
layers), or a folder that `export` wrote. An encoder becomes a Linformer, with its weights and new E and F. Of a
Linformer only n changes, with --max-positions; k grows with it, so that windows keep their length.

    fairseq-linformer convert sentence-transformers/all-MiniLM-L6-v2 minilm --projected-dim 64
    fairseq-linformer convert checkpoint_best.pt long --max-positions 1024
"""

import argparse
from pathlib import Path
from typing import Any

from ..config import LinformerConfig, flag_of
from .parsers import add_shared

MODEL_OPTIONS = {
    "projected_dim": "n / 4, at most 256",
    "sharing": "headwise",
    "projection": "linear",
    "projection_init": "graded if linear, so that inputs of up to k / 2 tokens keep their features; average for conv",
    "max_positions": "the encoder's",
    "local_window": "16",
}
"""Options of the Linformer that an encoder is converted to, with their defaults."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="INPUT", help="checkpoint, run folder, other folder, or name on the hub")
    add("out", type=Path, metavar="OUT", help="folder to write, new or empty: model.pt, dict.txt and tokenizer")
    arch = "roberta is the same model in fairseq (default: linformer_roberta)"
    add("--arch", choices=("linformer_roberta", "roberta"), help=arch)
    add_model_options(parser)
    add_shared(parser, "--dictionary", help="fairseq's dict.txt, next to the tokenizer (default: INPUT's)")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add ``MODEL_OPTIONS``, as the configuration declares them, and the seed."""
    for name, default in MODEL_OPTIONS.items():
        declared = LinformerConfig.__dataclass_fields__[name]
        kind: Any = int if declared.type is int else str
        text = f"{declared.metadata['help'].partition(' (default')[0]} (default: {default})"
        parser.add_argument(flag_of(name), type=kind, choices=declared.metadata.get("choices"), help=text)
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="random seed")


def run(options: argparse.Namespace) -> str:
    import torch

    from ..checkpoints.convert import convert, describe

    given = dict(vars(options))
    torch.manual_seed(given.pop("seed"))
    return "\n".join(describe(*convert(**given), options.out))
