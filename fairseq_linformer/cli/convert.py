"""``fairseq-linformer convert``: any model to a checkpoint of fairseq, as a Linformer of this n and k."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..config import PROJECTION_INITS, PROJECTIONS, SHARING
from .parsers import add_command, explicit_options, flag_of

MODEL_OPTIONS = ("projected_dim", "sharing", "projection", "projection_init", "max_positions", "local_window")


def add_parser(commands: Any) -> None:
    """Add ``convert``."""
    parser = add_command(
        commands,
        "convert",
        "convert an encoder to a Linformer for fairseq, or a Linformer to another n",
        """convert roberta.base/model.pt linformer-base
        convert sentence-transformers/all-MiniLM-L6-v2 minilm --projected-dim 64
        convert checkpoint_best.pt long --max-positions 1024
        convert exported-folder back""",
        description="INPUT is a fairseq checkpoint (RoBERTa, a Linformer, or of the authors' code), a folder or hub "
        "name of transformers (BERT, RoBERTa, and encoders with their layers), or a folder that `export` wrote. An "
        "encoder becomes a Linformer, with its weights and new E and F. Of a Linformer only n changes, with "
        "--max-positions; k grows with it, so that windows keep their length.",
    )
    add = parser.add_argument
    add("source", metavar="INPUT", help="checkpoint, run folder, other folder, or name on the hub")
    files = "folder to write, new or empty: model.pt, and dict.txt and tokenizer if INPUT has them"
    add("out", type=Path, metavar="OUT", help=files)
    arch = "architecture to write for an encoder: roberta is the same model in fairseq (default: linformer_roberta)"
    add("--arch", choices=("linformer_roberta", "roberta"), help=arch)
    add_model_options(parser)
    dictionary = "fairseq's dict.txt, with the tokenizer next to it (default: those next to INPUT or in it)"
    add("--dictionary", type=Path, metavar="FILE", help=dictionary)
    parser.set_defaults(run=_convert)


def add_model_options(parser: Any) -> None:
    """Add the options of the Linformer that an encoder is converted to."""
    add = parser.add_argument
    k = "k: one number, or one per layer as in 256x4,128x8 (default: n / 4, at most 256)"
    add("--projected-dim", metavar="K", help=k)
    add("--sharing", choices=SHARING, help="parameter sharing of E and F (default: headwise)")
    add("--projection", choices=(*PROJECTIONS, "none"), help="kind of projection (default: linear)")
    init = (
        "initialization of E and F (default: graded if linear, so that inputs of up to k / 2 tokens keep their "
        "features; average for conv)"
    )
    add("--projection-init", choices=PROJECTION_INITS["linear"], help=init)
    n = "n, the longest input in tokens (default: the encoder's)"
    add("--max-positions", type=int, metavar="N", help=n)
    neighbors = "number of neighbors on each side that a position also attends to (default: 16; 0 as in the paper)"
    add("--local-window", type=int, metavar="W", help=neighbors)
    add("--seed", type=int, default=1, metavar="S", help="random seed")


def _convert(options: argparse.Namespace) -> str:
    import torch

    from ..checkpoints.convert import convert
    from ..checkpoints.identify import MODEL

    torch.manual_seed(options.seed)
    values = explicit_options(options, ("arch", *MODEL_OPTIONS))
    new, old_n = convert(options.source, options.out, dictionary=options.dictionary, **values)
    return "\n".join(_describe(new, old_n, options.out / MODEL))


def _describe(checkpoint: dict[str, Any], old_n: int, path: Path) -> list[str]:
    """What was written, and the options of ``fairseq-train`` that the architecture does not imply."""
    from ..checkpoints.files import get_cfg_section
    from ..models.options import ARCHITECTURES, COMPARED, LinformerRobertaConfig

    model = get_cfg_section(checkpoint, "model")
    arch, n = model.get("_name") or model.get("arch"), model["max_positions"]
    sizes = [("n", n), ("k", model.get("projected_dim")), ("local window", model.get("local_window"))]
    lines = [f"{path}: " + ", ".join(f"{name} = {value}" for name, value in sizes if value is not None)]
    if n > old_n:
        lines.append(f"positions {old_n + 1} to {n} start as copies of positions 1 to {old_n}; train them")
    if not path.with_name("dict.txt").is_file():
        lines.append("without dict.txt and tokenizer, since INPUT has no dict.txt; --dictionary FILE adds both")
    if checkpoint.get("provenance", {}).get("imported", {}).get("lm_head", "imported") != "imported":
        lines.append("the encoder has no masked LM head; that of the checkpoint is new and untrained")
    implied = {field.name: field.default for field in fields(LinformerRobertaConfig)} | ARCHITECTURES.get(str(arch), {})
    words = [f"--arch {arch}"]
    for name in COMPARED:
        value, default = model.get(name), implied.get(name)
        if value not in (None, False, getattr(default, "value", default)):
            words.append(flag_of(name) if value is True else f"{flag_of(name)} {value}")
    return [*lines, "fairseq-train: " + " ".join(words)]
