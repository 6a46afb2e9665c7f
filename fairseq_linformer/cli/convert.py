"""``fairseq-linformer convert``: checkpoints between formats, lengths and k."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..config import PROJECTION_INITS, PROJECTIONS, SHARING
from .parsers import add_command, add_subcommands, add_tokenizer, flag_of, tokenizer_files


def add_parser(commands) -> None:
    """Add ``convert`` and its subcommands."""
    convert = add_command(
        commands,
        "convert",
        "convert checkpoints between formats, lengths and k",
        "convert to-huggingface checkpoint_best.pt hf-base",
    )
    subcommands = add_subcommands(convert, "conversion")

    parser = add_command(
        subcommands,
        "from-roberta",
        "convert a fairseq RoBERTa to a Linformer",
        """convert from-roberta roberta.base/model.pt --projected-dim 256 --sharing layerwise
        convert from-roberta roberta.base/model.pt --projected-dim 128 --local-window 16""",
    )
    parser.add_argument(
        "checkpoint", type=Path, metavar="CHECKPOINT", help="fairseq RoBERTa, such as roberta.base/model.pt"
    )
    parser.add_argument(
        "out",
        type=Path,
        nargs="?",
        metavar="OUT",
        help="checkpoint to write (default: NAME-linformer.pt next to CHECKPOINT)",
    )
    add_model_options(parser, required=True)
    parser.set_defaults(run=_from_roberta)

    parser = add_command(
        subcommands,
        "from-transformers",
        "convert BERT, RoBERTa, XLM-R or a similar encoder of transformers to a Linformer or a fairseq RoBERTa",
        """convert from-transformers bert-base-uncased bert-linformer --projected-dim 128 --local-window 16
        convert from-transformers sentence-transformers/all-MiniLM-L6-v2 minilm --arch roberta""",
    )
    parser.add_argument(
        "name", metavar="NAME|FOLDER", help="model on the hub, or folder with config.json, safetensors and tokenizer"
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument(
        "--arch",
        choices=("linformer_roberta", "roberta"),
        default="linformer_roberta",
        help="architecture to write: linformer_roberta, or roberta for the same model in fairseq",
    )
    add_model_options(parser, required=False)
    parser.set_defaults(run=_from_transformers)

    parser = add_command(
        subcommands,
        "resize",
        "resize a checkpoint to another n, k, or both",
        """convert resize checkpoint_best.pt long.pt --max-positions 1024
        convert resize checkpoint_best.pt small.pt --projected-dim 128""",
    )
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="checkpoint of a Linformer or RoBERTa")
    parser.add_argument("out", type=Path, metavar="OUT", help="checkpoint to write")
    parser.add_argument(
        "--max-positions", type=int, metavar="N", help="n, the longest input in tokens (default: the checkpoint's)"
    )
    parser.add_argument(
        "--projected-dim",
        metavar="K",
        help="k: one number, or one per layer as in 256x4,128x8 (default: the k that keeps the length of windows, or "
        "unchanged without windows)",
    )
    parser.set_defaults(run=_resize)

    parser = add_command(
        subcommands,
        "to-huggingface",
        "export a checkpoint to transformers",
        "convert to-huggingface checkpoint_best.pt hf-base --dictionary dict.txt --sentencepiece-model spm.model",
    )
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="checkpoint of linformer_roberta")
    _add_export_options(parser)
    parser.set_defaults(run=_to_huggingface)

    parser = add_command(
        subcommands,
        "to-onnx",
        "export a checkpoint to ONNX, for onnxruntime without PyTorch",
        """convert to-onnx checkpoint_best.pt onnx-base
        convert to-onnx hf-base onnx-base --int8 --max-positions 256""",
    )
    parser.add_argument(
        "checkpoint",
        type=Path,
        metavar="CHECKPOINT-OR-FOLDER",
        help="checkpoint of linformer_roberta, or folder that to-huggingface wrote",
    )
    _add_export_options(parser)
    parser.add_argument("--int8", action="store_true", help="quantize linear layers, embeddings, E and F to int8")
    parser.add_argument(
        "--max-positions", type=int, metavar="N", help="longest input of the graph in tokens (default: the model's n)"
    )
    parser.add_argument("--opset", type=int, default=20, metavar="V", help="version of ONNX's operators, 18 to 23")
    parser.set_defaults(run=_to_onnx)

    parser = add_command(
        subcommands,
        "from-huggingface",
        "convert an exported folder back to fairseq",
        "convert from-huggingface hf-base back",
    )
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="folder that to-huggingface wrote, which may have been trained since",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument(
        "--dictionary",
        type=Path,
        metavar="FILE",
        help="fairseq's dict.txt, with the tokenizer next to it (default: those in FOLDER)",
    )
    parser.set_defaults(run=_from_huggingface)


def _add_export_options(parser: Any) -> None:
    """Add the options of ``to-huggingface`` and ``to-onnx``."""
    next_to = "next to CHECKPOINT"
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument("--dictionary", type=Path, metavar="FILE", help=f"fairseq's dict.txt (default: {next_to})")
    add_tokenizer(parser, default=next_to)
    parser.add_argument("--no-tokenizer", dest="tokenizer", action="store_false", help="do not export the tokenizer")
    parser.add_argument("--head", metavar="NAME", help="classification head to export (default: the only one)")
    parser.add_argument(
        "--labels", type=Path, metavar="FILE", help=f"dict.txt of the labels (default: label/dict.txt {next_to})"
    )


MODEL_OPTIONS = (
    *("projected_dim", "sharing", "projection", "projection_init"),
    *("max_positions", "local_window", "window_sizes"),
)


def add_model_options(parser: Any, required: bool, seed_use: str = "random initializations") -> None:
    """Add the options of the Linformer that an encoder is converted to.

    Args:
        required: whether ``--projected-dim`` is required; otherwise it is n / 4.
        seed_use: what ``--seed`` is for, in its help.
    """
    default = "" if required else " (default: n / 4)"
    parser.add_argument(
        "--projected-dim",
        required=required,
        metavar="K",
        help=f"k: one number, or one per layer as in 256x4,128x8{default}",
    )
    parser.add_argument("--sharing", choices=SHARING, help="parameter sharing of E and F (default: headwise)")
    parser.add_argument("--projection", choices=PROJECTIONS, help="kind of projection (default: linear)")
    parser.add_argument(
        "--projection-init",
        choices=PROJECTION_INITS["linear"],
        help="initialization of E and F (default: graded if linear, so that inputs of up to k / 2 tokens keep their "
        "features; average for conv)",
    )
    parser.add_argument(
        "--max-positions", type=int, metavar="N", help="n, the longest input in tokens (default: the encoder's)"
    )
    parser.add_argument(
        "--local-window",
        type=int,
        metavar="W",
        help="number of neighbors on each side that a position also attends to (default: 0, as in the paper)",
    )
    parser.add_argument(
        "--window-sizes",
        choices=("counted", "ignored"),
        help="weight of a window in attention: its number of tokens, or 1 if ignored (default: counted if rows of E "
        "and F correspond to windows)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help=f"seed of {seed_use}")


def _set_seed(seed: int) -> None:
    import torch

    if not 0 <= seed < 1 << 32:
        raise ValueError(f"--seed must be between 0 and {(1 << 32) - 1}, got {seed}")
    torch.manual_seed(seed)


def _from_roberta(options: argparse.Namespace) -> str:
    from ..checkpoints.files import check_new_file, read_checkpoint, write_checkpoint
    from ..checkpoints.roberta import from_roberta

    out = options.out or options.checkpoint.with_name(options.checkpoint.stem + "-linformer.pt")
    check_new_file(out)
    _set_seed(options.seed)
    new = from_roberta(read_checkpoint(options.checkpoint), **{name: getattr(options, name) for name in MODEL_OPTIONS})
    write_checkpoint(new, out)
    return _summary(out, new)


def _from_transformers(options: argparse.Namespace) -> str:
    from ..checkpoints.from_transformers import from_transformers

    _set_seed(options.seed)
    values = {name: getattr(options, name) for name in MODEL_OPTIONS}
    new = from_transformers(options.name, options.out, arch=options.arch, **values)
    lines = [_summary(options.out / "model.pt", new)]
    if new["provenance"]["imported"]["lm_head"] != "imported":
        lines.append(f"{options.name} has no masked LM head; that of the checkpoint is new and untrained")
    return "\n".join(lines)


def _resize(options: argparse.Namespace) -> str:
    from ..checkpoints.files import check_new_file, read_checkpoint, write_checkpoint
    from ..checkpoints.resize import resize

    check_new_file(options.out)
    new = resize(read_checkpoint(options.checkpoint), options.max_positions, options.projected_dim)
    write_checkpoint(new, options.out)
    return _summary(options.out, new)


def _to_huggingface(options: argparse.Namespace) -> str:
    from ..checkpoints.huggingface import to_huggingface

    reason = to_huggingface(
        options.checkpoint,
        options.out,
        dictionary=options.dictionary,
        tokenizer_files=tokenizer_files(options),
        head=options.head,
        labels=options.labels,
        tokenizer=options.tokenizer,
    )
    return f"{options.out} is written; load it with trust_remote_code=True{_note_slow(reason)}"


def _to_onnx(options: argparse.Namespace) -> str:
    from ..checkpoints.onnx_export import to_onnx

    reason = to_onnx(
        options.checkpoint,
        options.out,
        int8=options.int8,
        head=options.head,
        max_positions=options.max_positions,
        opset=options.opset,
        dictionary=options.dictionary,
        tokenizer_files=tokenizer_files(options),
        labels=options.labels,
        tokenizer=options.tokenizer,
    )
    return f"{options.out} is written; {options.out / 'README.md'} shows how to run it{_note_slow(reason)}"


def _note_slow(reason: str | None) -> str:
    return f"; its tokenizer is the slow one: {reason}" if reason else ""


def _from_huggingface(options: argparse.Namespace) -> str:
    from ..checkpoints.huggingface import from_huggingface

    has_dictionary = from_huggingface(options.folder, options.out, dictionary=options.dictionary)
    missing = "" if has_dictionary else ", without dict.txt and tokenizer, since FOLDER has none; pass --dictionary"
    return f"{options.out / 'model.pt'} is written{missing}"


_MAIN_OPTIONS = ("max_positions", "projected_dim", "sharing", "projection", "local_window")
_OTHER_OPTIONS = (
    "encoder_layers encoder_embed_dim encoder_ffn_embed_dim encoder_attention_heads activation_fn "
    "encoder_normalize_before layer_norm_eps untie_weights_roberta"
).split()


def _summary(path: Path, checkpoint: dict) -> str:
    """The path of a checkpoint, and the options to train it with: those that the architecture does not imply."""
    from ..checkpoints.files import get_cfg_section
    from ..models.options import ARCHITECTURES, LinformerRobertaConfig

    model = get_cfg_section(checkpoint, "model")
    arch = model.get("_name") or model.get("arch")
    implied = {field.name: field.default for field in fields(LinformerRobertaConfig)} | ARCHITECTURES.get(str(arch), {})
    words = [f"--arch {arch}"]
    for name in (*_MAIN_OPTIONS, *_OTHER_OPTIONS):
        value = model.get(name)
        default = implied.get(name)
        if value in (None, False, 0) or (name in _OTHER_OPTIONS and value == getattr(default, "value", default)):
            continue
        words.append(flag_of(name) if value is True else f"{flag_of(name)} {value}")
    return f"{path}: " + " ".join(words)
