"""``fairseq-linformer convert``: checkpoints between formats.

    fairseq-linformer convert from-roberta roberta.base/model.pt --projected-dim 256 --sharing layerwise
    fairseq-linformer convert resize checkpoint_best.pt long.pt --max-positions 1024
    fairseq-linformer convert to-huggingface checkpoint_best.pt folder
    fairseq-linformer convert from-huggingface folder back
"""

import argparse
from pathlib import Path

from ..config import PROJECTIONS, SHARING, STARTS


def add_parser(commands) -> None:
    """Add ``convert`` and its forms."""
    convert = commands.add_parser("convert", help="checkpoints from one form to another")
    forms = convert.add_subparsers(dest="form", required=True, metavar="FORM")

    form = forms.add_parser("from-roberta", help="a Linformer with the weights of a fairseq RoBERTa")
    form.add_argument("checkpoint", type=Path, help="fairseq's RoBERTa, for instance roberta.base/model.pt")
    form.add_argument(
        "out", type=Path, nargs="?", help="checkpoint to write; beside the first, NAME-linformer.pt, if left out"
    )
    form.add_argument("--projected-dim", required=True, help="k: a number, or one for each layer as in 256x4,128x8")
    form.add_argument("--sharing", choices=SHARING, help="headwise if left out")
    form.add_argument("--projection", choices=PROJECTIONS, help="linear if left out")
    form.add_argument(
        "--projection-init", choices=STARTS["linear"], help="how E and F start; as a new model's do if left out"
    )
    form.add_argument("--max-positions", type=int, help="n; that of RoBERTa if left out")
    form.add_argument("--seed", type=int, default=1, help="of what starts at random")
    form.set_defaults(run=_from_roberta)

    form = forms.add_parser("resize", help="a checkpoint for other lengths or another k")
    form.add_argument("checkpoint", type=Path)
    form.add_argument("out", type=Path, help="checkpoint to write")
    form.add_argument("--max-positions", type=int, help="the new n")
    form.add_argument(
        "--projected-dim",
        help="the new k, in any form; if left out, the one that leaves short inputs as they are: in proportion to n, "
        "or without windows as it was",
    )
    form.set_defaults(run=_resize)

    form = forms.add_parser("to-huggingface", help="a folder for transformers")
    form.add_argument("checkpoint", type=Path)
    form.add_argument("out", type=Path, help="folder to write, new or empty")
    form.add_argument("--dictionary", type=Path, help="fairseq's dict.txt; the one beside the checkpoint if left out")
    form.add_argument("--sentencepiece", type=Path, help="sentencepiece.bpe.model beside the checkpoint if left out")
    form.add_argument("--gpt2-encoder", type=Path, help="GPT-2's encoder.json, in place of sentencepiece")
    form.add_argument("--gpt2-vocab", type=Path, help="GPT-2's vocab.bpe")
    form.add_argument("--no-tokenizer", dest="tokenizer", action="store_false", help="write none")
    form.add_argument("--head", help="the classification head to take along as classifier, if there are several")
    form.add_argument(
        "--labels", type=Path, help="dict.txt of the labels; label/dict.txt beside the checkpoint if left out"
    )
    form.set_defaults(run=_to_huggingface)

    form = forms.add_parser("from-huggingface", help="a folder of transformers back to fairseq")
    form.add_argument("folder", type=Path, help="what to-huggingface wrote, or Trainer after it")
    form.add_argument("out", type=Path, help="folder to write, new or empty")
    form.add_argument("--dictionary", type=Path, help="fairseq's dict.txt; the one in the folder if left out")
    form.set_defaults(run=_from_huggingface)


def _from_roberta(options: argparse.Namespace) -> str:
    import torch

    from ..checkpoints.files import check_new_file, read_checkpoint, write_checkpoint
    from ..checkpoints.roberta import from_roberta

    out = options.out or options.checkpoint.with_name(options.checkpoint.stem + "-linformer.pt")
    check_new_file(out)
    torch.manual_seed(options.seed)
    names = ("projected_dim", "sharing", "projection", "projection_init", "max_positions")
    new = from_roberta(read_checkpoint(options.checkpoint), **{name: getattr(options, name) for name in names})
    write_checkpoint(new, out)
    return _described(out, new)


def _resize(options: argparse.Namespace) -> str:
    from ..checkpoints.files import check_new_file, read_checkpoint, write_checkpoint
    from ..checkpoints.resize import resize

    check_new_file(options.out)
    new = resize(read_checkpoint(options.checkpoint), options.max_positions, options.projected_dim)
    write_checkpoint(new, options.out)
    return _described(options.out, new)


def _to_huggingface(options: argparse.Namespace) -> str:
    from ..checkpoints.huggingface import to_huggingface

    names = ("dictionary", "sentencepiece", "gpt2_encoder", "gpt2_vocab", "tokenizer", "head", "labels")
    to_huggingface(options.checkpoint, options.out, **{name: getattr(options, name) for name in names})
    return f"{options.out}: load it with trust_remote_code=True"


def _from_huggingface(options: argparse.Namespace) -> str:
    from ..checkpoints.huggingface import from_huggingface

    from_huggingface(options.folder, options.out, dictionary=options.dictionary)
    return f"{options.out}: model.pt"


def _described(path: Path, checkpoint: dict) -> str:
    """What was written, as options to train it with."""
    from ..checkpoints.files import node

    model = node(checkpoint, "model")
    names = ("max_positions", "projected_dim", "sharing", "projection")
    options = [f"--{name.replace('_', '-')} {model[name]}" for name in names if model.get(name) is not None]
    return f"{path}: " + " ".join(options)
