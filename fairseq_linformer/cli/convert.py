"""Convert an encoder to a Linformer for fairseq, or a Linformer to another n. INPUT is a fairseq checkpoint (RoBERTa, a
Linformer, or of the authors' code), a folder or hub name of transformers (BERT, RoBERTa, and encoders with their
layers), or a folder that `export` wrote. An encoder becomes a Linformer, with its weights and new E and F. Of a
Linformer only n changes, with --max-positions; k grows with it, so that windows keep their length.

    fairseq-linformer convert sentence-transformers/all-MiniLM-L6-v2 minilm --projected-dim 64
    fairseq-linformer convert checkpoint_best.pt long --max-positions 1024
"""

import argparse
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..config import LinformerConfig
from .parsers import flag_of

GRADED = "graded if linear, so that inputs of up to k / 2 tokens keep their features; average for conv"
MODEL_OPTIONS = {
    "projected_dim": "n / 4, at most 256",
    "sharing": "headwise",
    "projection": "linear",
    "projection_init": GRADED,
    "max_positions": "the encoder's",
    "local_window": "16",
}
"""Options of the Linformer that an encoder is converted to, with their defaults."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the model, the folder and the Linformer's options."""
    add = parser.add_argument
    add("source", metavar="INPUT", help="checkpoint, run folder, other folder, or name on the hub")
    files = "folder to write, new or empty: model.pt, and dict.txt and tokenizer if INPUT has them"
    add("out", type=Path, metavar="OUT", help=files)
    arch = "architecture to write for an encoder: roberta is the same model in fairseq (default: linformer_roberta)"
    add("--arch", choices=("linformer_roberta", "roberta"), help=arch)
    add_model_options(parser)
    dictionary = "fairseq's dict.txt, with the tokenizer next to it (default: those next to INPUT or in it)"
    add("--dictionary", type=Path, metavar="FILE", help=dictionary)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add ``MODEL_OPTIONS``, as the configuration declares them, and the seed."""
    for name, default in MODEL_OPTIONS.items():
        declared = LinformerConfig.__dataclass_fields__[name]
        kind: Any = int if declared.type is int else str
        text = f"{declared.metadata['help'].partition(' (default')[0]} (default: {default})"
        parser.add_argument(flag_of(name), type=kind, choices=declared.metadata.get("choices"), help=text)
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="random seed")


def run(options: argparse.Namespace) -> str:
    """Convert, and describe the new checkpoint."""
    import torch

    from ..checkpoints.convert import convert
    from ..checkpoints.identify import MODEL

    given = dict(vars(options))
    torch.manual_seed(given.pop("seed"))
    checkpoint, old_n = convert(**given)
    return "\n".join(_describe(checkpoint, old_n, options.out / MODEL))


def _describe(checkpoint: dict[str, Any], old_n: int, path: Path) -> Iterator[str]:
    from ..checkpoints.files import get_cfg_section

    model = get_cfg_section(checkpoint, "model")
    n = model["max_positions"]
    sizes = {"n": n, "k": model.get("projected_dim"), "local window": model.get("local_window")}
    yield f"{path}: " + ", ".join(f"{name} = {value}" for name, value in sizes.items() if value is not None)
    if n > old_n:
        yield f"positions {old_n + 1} to {n} start as copies of positions 1 to {old_n}; train them"
    if not path.with_name("dict.txt").is_file():
        yield "without dict.txt and tokenizer, since INPUT has no dict.txt; --dictionary FILE adds both"
    if checkpoint.get("provenance", {}).get("imported", {}).get("lm_head", "imported") != "imported":
        yield "the encoder has no masked LM head; that of the checkpoint is new and untrained"
    yield f"fairseq-train: {' '.join(_model_options(model))}"


def _model_options(model: dict[str, Any]) -> Iterator[str]:
    """The options of ``fairseq-train`` for a model: its architecture, and what that does not imply."""
    from ..models.options import ARCHITECTURES, COMPARED, LinformerRobertaConfig

    arch = model.get("_name") or model.get("arch")
    yield f"--arch {arch}"
    implied = {field.name: field.default for field in fields(LinformerRobertaConfig)} | ARCHITECTURES.get(str(arch), {})
    for name in COMPARED:
        value, default = model.get(name), implied.get(name)
        if value not in (None, False, getattr(default, "value", default)):
            yield flag_of(name) if value is True else f"{flag_of(name)} {value}"
