"""Export a checkpoint to transformers, or to ONNX for onnxruntime without PyTorch. `convert` reads the folder for
transformers back.

    fairseq-linformer export checkpoint_best.pt hf-base --dictionary dict.txt --tokenizer spm.model
    fairseq-linformer export checkpoint_best.pt onnx-base --onnx --int8 --max-positions 256
"""

import argparse
from pathlib import Path

from .parsers import add_shared


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    checkpoint = "fairseq checkpoint of a Linformer, or run folder; with --onnx also a folder that `export` wrote"
    add("checkpoint", metavar="CHECKPOINT", help=checkpoint)
    add("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    add_shared(parser, "--head", "--labels", "--dictionary", "--tokenizer")
    add("--no-tokenizer", action="store_true", help="do not export the tokenizer")
    pooling = (
        "a vector per input, for sentence-transformers or as output of the graph: mean, or the first token's features; "
        "none: a graph for the features of each token (default: as in the imported encoder)"
    )
    add("--pooling", choices=("mean", "cls", "none"), help=pooling)
    add("--license", metavar="ID", help="license for the model card, such as mit (default: that of the checkpoint)")
    add("--onnx", action="store_true", help="write an ONNX graph")
    add = parser.add_argument_group("graph", "With --onnx.").add_argument
    add("--int8", action="store_true", help="quantize linear layers, embeddings, E and F to 8 bits")
    add("--max-positions", type=int, metavar="N", help="longest input in tokens (default: the model's n)")


def run(options: argparse.Namespace) -> str:
    given = dict(vars(options))
    source, out, is_graph = given.pop("checkpoint"), given.pop("out"), given.pop("onnx", False)
    given["tokenizer_files"] = given.pop("tokenizer", None)
    given["tokenizer"] = not given.pop("no_tokenizer", False)
    if is_graph:
        from ..checkpoints.export_onnx import export_onnx

        export_onnx(source, out, **given)
        return f"{out} is written; {out / 'README.md'} shows how to run it"
    if {"int8", "max_positions"} & {*given} or given.get("pooling") == "none":
        raise ValueError("--int8, --max-positions and --pooling none need --onnx")
    from ..checkpoints.export import export_checkpoint

    export_checkpoint(source, out, **given)
    return f"{out} is written; load it with trust_remote_code=True"
