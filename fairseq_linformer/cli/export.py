"""``fairseq-linformer export``: a checkpoint as a folder for transformers, or as an ONNX graph."""

import argparse
from pathlib import Path
from typing import Any

from .parsers import add_command, add_shared, tokenizer_files


def add_parser(commands: Any) -> None:
    """Add ``export``."""
    parser = add_command(
        commands,
        "export",
        "export a checkpoint to transformers, or to ONNX for onnxruntime without PyTorch",
        """export checkpoint_best.pt hf-base --dictionary dict.txt --tokenizer spm.model
        export checkpoint_best.pt onnx-base --onnx --int8 --max-positions 256
        export minilm/model.pt embeddings --pooling mean""",
        description="`convert` reads the folder for transformers back.",
    )
    add = parser.add_argument
    checkpoint = "fairseq checkpoint of a Linformer, or run folder; with --onnx also a folder that `export` wrote"
    add("checkpoint", metavar="CHECKPOINT", help=checkpoint)
    add("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    add_shared(parser, "--head", "--labels", "--dictionary", "--tokenizer")
    add("--no-tokenizer", action="store_true", help="do not export the tokenizer")
    pooling = (
        "one vector per input, for sentence-transformers or as output of the graph: the mean over all tokens, or the "
        "first one's features; none: a graph for the features of each token (default: as in the imported encoder)"
    )
    add("--pooling", choices=("mean", "cls", "none"), help=pooling)
    license = "license for the model card, as the hub names it, such as mit (default: the imported encoder's)"
    add("--license", metavar="ID", help=license)
    add("--onnx", action="store_true", help="write an ONNX graph")
    add = parser.add_argument_group("graph", "With --onnx.").add_argument
    add("--int8", action="store_true", help="quantize linear layers, embeddings, E and F to 8 bits")
    add("--max-positions", type=int, metavar="N", help="longest input in tokens (default: the model's n)")
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> str:
    values: dict[str, Any] = {name: getattr(options, name) for name in ("head", "labels", "dictionary", "license")}
    values |= {"tokenizer": not options.no_tokenizer, "tokenizer_files": tokenizer_files(options)}
    if options.onnx:
        from ..checkpoints.export_onnx import export_onnx

        graph = {name: getattr(options, name) for name in ("int8", "max_positions", "pooling")}
        export_onnx(options.checkpoint, options.out, **graph, **values)
        return f"{options.out} is written; {options.out / 'README.md'} shows how to run it"
    if options.int8 or options.max_positions is not None or options.pooling == "none":
        options.parser.error("--int8, --max-positions and --pooling none need --onnx")
    from ..checkpoints.export import export_checkpoint

    export_checkpoint(options.checkpoint, options.out, pooling=options.pooling, **values)
    return f"{options.out} is written; load it with trust_remote_code=True"
