"""Convert a Transformer to a Linformer, distill it, and report how much of its features the Linformer keeps.

fairseq-linformer linearize sentence-transformers/all-MiniLM-L6-v2 minilm --text data/own/shard0 --max-positions 128
"""

import argparse
from pathlib import Path

from .convert import MODEL_OPTIONS, add_model_options


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="INPUT", help="model on the hub, folder of transformers, or fairseq checkpoint of RoBERTa")
    add("out", type=Path, metavar="OUT", help="folder to write, or to resume")
    text = "folder that `prepare pretraining` wrote with the Transformer's tokenizer, such as data/own/shard0"
    add("--text", required=True, metavar="DATA-BIN", help=text)
    add("--tokens-per-sample", type=int, metavar="N", help="tokens per block of text (default: --max-positions)")
    add("--batch-size", type=int, metavar="B", help="blocks per update (default: 16)")
    add("--max-update", type=int, default=1000, metavar="U", help="number of updates; 0 converts without training")
    add("--lr", type=float, metavar="LR", help="peak learning rate (default: 2e-4)")
    shorter = "probability that a batch is split into shorter blocks, to learn short inputs too (default: 0.5)"
    add("--short-seq-prob", type=float, metavar="P", help=shorter)
    add("--device", choices=("cpu", "cuda"), help="device to train on (default: cpu)")
    add("--amp", action="store_true", help="train in mixed precision: fp16 on a GPU, bf16 on a CPU")
    add_model_options(parser)


def run(options: argparse.Namespace) -> str:
    from ..training.linearize import Linearization, linearize

    given = dict(vars(options))
    out, model = given.pop("out"), {name: given.pop(name) for name in MODEL_OPTIONS if name in given}
    report = linearize(Linearization(model=model, **given), out)
    lines = [f"{out / 'model.pt'}: explained variance (R^2) of the teacher's features, by layer"]
    for name in ("before", "after") if options.max_update else ("before",):
        shares = report[f"variance_{name}"]
        lines.append(f"  {name} training: " + ", ".join(f"{share:.3f}" for share in shares))
    return "\n".join(lines)
