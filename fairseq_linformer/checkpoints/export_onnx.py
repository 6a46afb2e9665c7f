"""Export of checkpoints and exported folders to ONNX: graph, tokenizer, ``config.json`` with its code, and model card.

``onnxruntime`` runs the folder without PyTorch, fairseq and this package; the model card shows how.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..data.tokenizer_files import TOKENIZER_JSON
from ..files import new_folder
from ..huggingface import LinformerModel, LinformerPreTrainedConfig, LinformerPreTrainedModel
from ..models.state_dicts import PADDING_IDX
from .export import export_checkpoint
from .exported_folder import choose_class, read_exported_weights
from .files import Files
from .identify import ONNX_GRAPH, ONNX_INT8_GRAPH, Kind, identify
from .model_card import write_card
from .onnx_graph import write_graph
from .sentence_transformers import (
    POOLINGS,
    Pooling,
    describe_modules,
    find_length,
    find_pooling,
    read_modules,
    set_pooling,
)
from .transformers_loading import drop_stale, find_hub_file, load_config


def export_onnx(
    source,
    out,
    *,
    int8: bool = False,
    max_positions: int | None = None,
    pooling: str | None = None,
    tokenizer: bool = True,
    license: str | None = None,
    **options: Any,
) -> None:
    """Export a model to a folder for ``onnxruntime``.

    Args:
        source: as for ``identify``: a fairseq checkpoint, or a folder that ``export`` or ``save_pretrained`` wrote.
        out: folder to write, new or empty.
        int8: quantize the graph, see ``onnx_int8.py``.
        max_positions: longest input of the graph; None for the model's n.
        pooling: ``mean``, ``cls`` or ``none``, instead of the head's logits; without a trained head None is the pooling
            of the imported encoder, else ``none``.
        tokenizer, license: as for ``export_checkpoint``.
        options: others of ``export_checkpoint``, for a fairseq checkpoint only.
    """
    import onnxscript  # noqa: F401  without it, fail before the conversion

    model = identify(source)
    model.check_kind(Kind.FAIRSEQ, Kind.TRANSFORMERS)
    with ExitStack() as stack:
        folder = Path(model.path)
        if model.kind is Kind.FAIRSEQ:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model"
            export_checkpoint(model.path, folder, tokenizer=tokenizer, **options)
        elif any(options.values()):
            raise ValueError(f"{source} has its own tokenizer and labels, and one head; unset the options for them")
        network = _load(folder, source)
        config = network.config
        n = max_positions or config.max_positions
        if not 2 <= n <= config.max_positions:  # <s> and </s>
            raise ValueError(f"--max-positions must be between 2 and the model's n ({config.max_positions}), got {n}")
        modules = read_modules(str(folder))
        if pooling in POOLINGS:
            modules = set_pooling(modules, pooling, config.embed_dim)
        chosen = _choose_pooling(modules, pooling, isinstance(network, LinformerModel), source)
        config.architectures = [type(network).__name__ if chosen is None else "LinformerModel"]
        graph = {"max_positions": n, "int8": int8, "pooling": chosen and chosen.mode}
        target = stack.enter_context(new_folder(out))
        (target / ONNX_GRAPH).parent.mkdir()
        write_graph(network.float(), target / (ONNX_INT8_GRAPH if int8 else ONNX_GRAPH), n, chosen, int8)
        if tokenizer:
            # Inputs to be pooled are as long as in sentence-transformers.
            _write_tokenizer(folder, target, find_length(modules, n) if chosen and chosen.mode in POOLINGS else n)
        config.onnx = graph
        if license:
            config.fairseq = {**(config.fairseq or {}), "license": license}
        config.save_pretrained(target)
        write_card(target, config, graph=graph, vectors=chosen and str(chosen))


def _load(folder: Path, source) -> LinformerPreTrainedModel:
    """The model of an exported folder, which errors name as ``source``."""
    config = load_config(str(folder))
    if not isinstance(config, LinformerPreTrainedConfig):
        raise ValueError(f"{source} must be a folder that `export` wrote, got model_type {config.model_type!r}")
    weights = read_exported_weights(str(folder), config)
    model_class = choose_class(weights)
    if model_class is LinformerModel:
        weights = {key.removeprefix("linformer."): value for key, value in weights.items()}
    config.fairseq = drop_stale(config.fairseq, str(folder))
    network = model_class(config)
    network.load_state_dict(weights, strict=False)  # checked when they were read; a tied weight is stored once
    return network


def _choose_pooling(modules: Files, mode: str | None, is_headless: bool, source) -> Pooling | None:
    """The pooling of a graph; None for the head's logits."""
    if mode is None and not is_headless:
        return None
    if mode == "none" or not modules:
        return Pooling("none")
    if (pooling := find_pooling(modules)) is None:
        raise ValueError(
            f"{source} makes vectors by {describe_modules(modules)}, which a graph does not; pass --pooling none for "
            "the features of each token"
        )
    return pooling


def _write_tokenizer(source: Path, target: Path, max_positions: int) -> None:
    """Write the fast tokenizer of a folder for ``transformers``, truncating to ``max_positions``; say so if it has
    none."""
    if path := find_hub_file(str(source), TOKENIZER_JSON):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.enable_truncation(max_positions)
        tokenizer.enable_padding(pad_id=PADDING_IDX, pad_token="<pad>")
        tokenizer.save(str(target / TOKENIZER_JSON))
    else:
        print(f"no {TOKENIZER_JSON} is written, since the model has no fast tokenizer", file=sys.stderr)
