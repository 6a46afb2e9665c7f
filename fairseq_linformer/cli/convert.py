"""``fairseq-linformer convert``: checkpoints between formats, lengths and k."""

import argparse
from pathlib import Path

from ..config import PROJECTION_INITS, PROJECTIONS, SHARING
from .parsers import add_command, add_subcommands, add_tokenizer


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
    parser.add_argument(
        "--projected-dim", required=True, metavar="K", help="k: one number, or one per layer as in 256x4,128x8"
    )
    parser.add_argument("--sharing", choices=SHARING, help="parameter sharing of E and F (default: headwise)")
    parser.add_argument("--projection", choices=PROJECTIONS, help="kind of projection (default: linear)")
    parser.add_argument(
        "--projection-init",
        choices=PROJECTION_INITS["linear"],
        help="initialization of E and F (default: as in a new model)",
    )
    parser.add_argument(
        "--max-positions", type=int, metavar="N", help="n, the longest input in tokens (default: RoBERTa's)"
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
        help="weight of a window in attention: its number of tokens, or 1 (default: as in a new model)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of random initializations")
    parser.set_defaults(run=_from_roberta)

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
        help="k: one number, or one per layer as in 256x4,128x8 (default: in proportion to n, or unchanged without "
        "windows)",
    )
    parser.set_defaults(run=_resize)

    parser = add_command(
        subcommands,
        "to-huggingface",
        "export a checkpoint to transformers",
        "convert to-huggingface checkpoint_best.pt hf-base --dictionary dict.txt --sentencepiece-model spm.model",
    )
    next_to = "next to CHECKPOINT"
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="checkpoint of linformer_roberta")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument("--dictionary", type=Path, metavar="FILE", help=f"fairseq's dict.txt (default: {next_to})")
    add_tokenizer(parser, default=next_to)
    parser.add_argument("--no-tokenizer", dest="tokenizer", action="store_false", help="do not export the tokenizer")
    parser.add_argument("--head", metavar="NAME", help="classification head to export (default: the only one)")
    parser.add_argument(
        "--labels", type=Path, metavar="FILE", help=f"dict.txt of the labels (default: label/dict.txt {next_to})"
    )
    parser.set_defaults(run=_to_huggingface)

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
        "--dictionary", type=Path, metavar="FILE", help="fairseq's dict.txt (default: the one in FOLDER)"
    )
    parser.set_defaults(run=_from_huggingface)


def _from_roberta(options: argparse.Namespace) -> str:
    import torch

    from ..checkpoints.files import check_new_file, read_checkpoint, write_checkpoint
    from ..checkpoints.roberta import from_roberta

    out = options.out or options.checkpoint.with_name(options.checkpoint.stem + "-linformer.pt")
    check_new_file(out)
    torch.manual_seed(options.seed)
    names = (
        "projected_dim",
        "sharing",
        "projection",
        "projection_init",
        "max_positions",
        "local_window",
        "window_sizes",
    )
    new = from_roberta(read_checkpoint(options.checkpoint), **{name: getattr(options, name) for name in names})
    write_checkpoint(new, out)
    return _summary(out, new)


def _resize(options: argparse.Namespace) -> str:
    from ..checkpoints.files import check_new_file, read_checkpoint, write_checkpoint
    from ..checkpoints.resize import resize

    check_new_file(options.out)
    new = resize(read_checkpoint(options.checkpoint), options.max_positions, options.projected_dim)
    write_checkpoint(new, options.out)
    return _summary(options.out, new)


def _to_huggingface(options: argparse.Namespace) -> str:
    from ..checkpoints.huggingface import to_huggingface

    bpe = None if options.gpt2_bpe is None else Path(options.gpt2_bpe)
    to_huggingface(
        options.checkpoint,
        options.out,
        dictionary=options.dictionary,
        sentencepiece=options.sentencepiece_model and Path(options.sentencepiece_model),
        gpt2_encoder=bpe and bpe / "encoder.json",
        gpt2_vocab=bpe and bpe / "vocab.bpe",
        head=options.head,
        labels=options.labels,
        tokenizer=options.tokenizer,
    )
    return f"{options.out} is written; load it with trust_remote_code=True"


def _from_huggingface(options: argparse.Namespace) -> str:
    from ..checkpoints.huggingface import from_huggingface

    from_huggingface(options.folder, options.out, dictionary=options.dictionary)
    return f"{options.out / 'model.pt'} is written"


def _summary(path: Path, checkpoint: dict) -> str:
    """The path of a checkpoint, and the options to train it with."""
    from ..checkpoints.files import get_cfg_section

    model = get_cfg_section(checkpoint, "model")
    names = ("max_positions", "projected_dim", "sharing", "projection", "local_window")
    options = [f"--{name.replace('_', '-')} {model[name]}" for name in names if model.get(name) not in (None, 0)]
    return f"{path}: " + " ".join(options)
