"""Export of checkpoints and exported folders to ONNX: ``model.onnx``, tokenizer, ``config.json`` and model card.

``onnxruntime`` runs the folder without PyTorch, fairseq and this package; the model card shows how.
"""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..data.tokenizer_files import TOKENIZER_JSON
from ..files import new_folder
from ..huggingface import LinformerModel
from ..models.state_dicts import PADDING_IDX
from .files import ONNX_GRAPH, is_fairseq_checkpoint
from .huggingface import choose_class, read_exported, to_huggingface
from .model_card import write_card
from .onnx_graph import write_graph
from .sentence_transformers import recorded_pooling


def to_onnx(
    source, out, *, int8: bool = False, max_positions: int | None = None, pooling: str | None = None, **options: Any
) -> None:
    """Export a model to a folder for ``onnxruntime``.

    Args:
        source: fairseq checkpoint, or a folder that ``to_huggingface`` or ``save_pretrained`` wrote.
        out: folder to write, new or empty.
        int8: quantize the graph, see ``onnx_int8.py``.
        max_positions: longest input of the graph; None for the model's n.
        pooling: as for ``onnx_graph.output_of``; without a trained head None is the pooling of the
            imported encoder, else ``none``.
        options: those of ``to_huggingface``; of a folder only ``tokenizer``.
    """
    import onnxscript  # noqa: F401  without it, fail before the conversion

    with ExitStack() as stack:
        folder = Path(source)
        if is_fairseq_checkpoint(source):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model"
            to_huggingface(source, folder, **options)
        elif any(options.get(name) for name in ("head", "dictionary", "tokenizer_files", "labels")):
            raise ValueError(f"{source} has its own tokenizer and labels, and one head; unset the options for them")
        config, weights = read_exported(folder)
        n = max_positions or config.max_positions
        if not 2 <= n <= config.max_positions:  # <s> and </s>
            raise ValueError(f"--max-positions must be between 2 and the model's n ({config.max_positions}), got {n}")
        model_class = choose_class(weights)
        if model_class is LinformerModel:
            weights = {key.removeprefix("linformer."): value for key, value in weights.items()}
            pooling = pooling or recorded_pooling(config).get("pooling", "none")
        model = model_class(config)
        model.load_state_dict(weights, strict=False)  # checked when they were read; a tied weight is stored once
        config.architectures = [model_class.__name__ if pooling is None else "LinformerModel"]
        settings = {"max_positions": n, "int8": int8, "pooling": pooling}
        target = stack.enter_context(new_folder(out))
        write_graph(model.float(), target / ONNX_GRAPH, n, pooling, int8)
        if options.get("tokenizer", True):
            _write_tokenizer(folder, target, n)
        content = {key: value for key, value in config.to_dict().items() if key != "auto_map"}
        (target / "config.json").write_text(json.dumps({**content, "onnx": settings}, indent=2) + "\n")
        write_card(target, config, settings)


def _write_tokenizer(source: Path, target: Path, max_positions: int) -> None:
    """Write the fast tokenizer of a folder for ``transformers``, if it has one, truncating to ``max_positions``."""
    if (source / TOKENIZER_JSON).is_file():
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(source / TOKENIZER_JSON))
        tokenizer.enable_truncation(max_positions)
        tokenizer.enable_padding(pad_id=PADDING_IDX, pad_token="<pad>")
        tokenizer.save(str(target / TOKENIZER_JSON))
