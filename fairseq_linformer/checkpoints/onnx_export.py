"""Export of checkpoints and exported folders to ONNX: ``model.onnx``, tokenizer, ``config.json`` and model card.

``onnxruntime`` runs the folder without PyTorch, fairseq and this package; the model card shows how.
"""

import json
import shutil
import tempfile
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..data.tokenizer_files import (
    DICTIONARY,
    GPT2_FILES,
    SENTENCEPIECE_FILE,
    TOKENIZER_FLAGS,
    TOKENIZER_JSON,
    TokenizerFiles,
    find_tokenizer_files,
)
from ..files import check_new_folder, new_folder, read_json
from ..huggingface import LinformerForMaskedLM, LinformerForSequenceClassification, LinformerPreTrainedConfig
from ..models.shapes import PADDING_IDX
from .files import ONNX_GRAPH, is_fairseq_checkpoint
from .huggingface import read_exported, to_huggingface
from .huggingface_state import CLASSIFIER
from .model_card import build_model_card
from .onnx_card import describe_usage
from .onnx_graph import DEFAULT_OPSET, EXTERNAL_BYTES, MAX_OPSET, MIN_OPSET, Model, write_graph
from .transformers_loading import WEIGHTS
from .transformers_tokenizer import find_tokenizer

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
MIN_GRAPH_POSITIONS = 2
"""<s> and </s>."""
_SLOW_TOKENIZER = (SENTENCEPIECE_FILE, *GPT2_FILES, DICTIONARY, "tokenization_linformer.py")


def to_onnx(
    source,
    out,
    *,
    int8: bool = False,
    head: str | None = None,
    max_positions: int | None = None,
    opset: int = DEFAULT_OPSET,
    dictionary=None,
    tokenizer_files: TokenizerFiles | None = None,
    labels=None,
    tokenizer: bool = True,
) -> str | None:
    """Export a model to a folder for ``onnxruntime``.

    Args:
        source: fairseq checkpoint, or a folder that ``to_huggingface`` or ``save_pretrained`` wrote.
        out: folder to write, new or empty.
        int8: quantize weights, see ``onnx_int8.py``.
        head: classification head of a checkpoint, as in ``to_huggingface``; that of a folder must have this name.
        max_positions: longest input of the graph; None for the model's n.
        opset: version of ONNX's operators.
        dictionary, tokenizer_files, labels, tokenizer: as in ``to_huggingface``; only for a checkpoint.

    Returns:
        Why the exported tokenizer is slow; None if it is fast, if none is exported, or if the reason is unknown.

    Raises:
        ValueError: a file or option is invalid. Nothing is written.
        ImportError: a package of the extra ``onnx`` is missing.
        OSError: the folder cannot be written.
    """
    check_new_folder(out)
    if not MIN_OPSET <= opset <= MAX_OPSET:
        raise ValueError(f"--opset must be between {MIN_OPSET} and {MAX_OPSET}, got {opset}")
    check_packages("convert to-onnx")
    with ExitStack() as stack:
        folder = Path(source)
        if is_fairseq_checkpoint(str(source)):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model"
            reason = to_huggingface(
                source,
                folder,
                dictionary=dictionary,
                tokenizer_files=tokenizer_files,
                head=head,
                labels=labels,
                tokenizer=tokenizer,
            )
        else:
            flag = "" if tokenizer_files is None else TOKENIZER_FLAGS[tokenizer_files.kind]
            for name, value in (("--dictionary", dictionary), ("--labels", labels), (flag, tokenizer_files)):
                if value is not None:
                    raise ValueError(f"{name} needs a fairseq checkpoint, got the folder {source}")
            reason = _explain_slow(folder) if tokenizer else None
        config, weights = read_exported(folder)
        has_head = any(key.startswith(CLASSIFIER) for key in weights)
        if head is not None and not (has_head and head == config.classification_head_name):
            known = config.classification_head_name if has_head else "no classification head"
            raise ValueError(f"unknown head {head!r}; {source} has {known}")
        n = config.max_positions
        if max_positions is not None and not MIN_GRAPH_POSITIONS <= max_positions <= n:
            raise ValueError(
                f"--max-positions must be between {MIN_GRAPH_POSITIONS} and the model's n ({n}), got {max_positions}"
            )
        settings = {"max_positions": max_positions or n, "opset": opset, "int8": int8}
        target = stack.enter_context(new_folder(out))
        model = _build_model(config, weights, has_head)
        _write_model(model, target, settings)
        kind = _write_tokenizer(folder, target, settings["max_positions"]) if tokenizer else None
        content = {key: value for key, value in config.to_dict().items() if key != "auto_map"}
        (target / "config.json").write_text(json.dumps({**content, "onnx": settings}, indent=2) + "\n")
        names = [config.id2label[i] for i in range(config.num_labels)] if has_head else []
        card = build_model_card(
            config.fairseq or {},
            config.to_linformer_config(),
            config.classification_head_name if has_head else None,
            names,
            f"slow: {reason}" if reason else kind,
            describe_usage(config, has_head, kind, settings),
        )
        (target / "README.md").write_text(card, encoding="utf-8")
    return reason


def check_packages(needed_by: str) -> None:
    """Check that the packages of the extra ``onnx`` are installed.

    Args:
        needed_by: a command or an experiment, for the error.

    Raises:
        ImportError: one is missing.
    """
    for name in PACKAGES:
        if find_spec(name) is None:
            raise ImportError(f"{needed_by} needs {name}; install fairseq-linformer[onnx]", name=name)


def _build_model(config: LinformerPreTrainedConfig, weights: dict[str, Any], has_head: bool) -> Model:
    model = (LinformerForSequenceClassification if has_head else LinformerForMaskedLM)(config)
    model.load_state_dict(weights, strict=False)  # checked when they were read; a tied weight is stored once
    return model.float()


def _write_model(model: Model, folder: Path, settings: dict[str, Any]) -> None:
    graph = folder / ("float.onnx" if settings["int8"] else ONNX_GRAPH)
    num_bytes = write_graph(model, graph, settings["max_positions"], settings["opset"])
    if settings["int8"]:
        from .onnx_int8 import quantize

        quantize(graph, folder / ONNX_GRAPH, external=num_bytes // 4 > EXTERNAL_BYTES)  # 8 bits instead of 32
        for path in folder.glob("float.onnx*"):
            path.unlink()


def _write_tokenizer(source: Path, target: Path, max_positions: int) -> str | None:
    """Write the tokenizer, truncating to ``max_positions``: ``fast`` or ``slow``, or None if there is none."""
    if (source / TOKENIZER_JSON).is_file():
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(source / TOKENIZER_JSON))
        tokenizer.enable_truncation(max_positions)
        tokenizer.enable_padding(pad_id=PADDING_IDX, pad_token="<pad>")
        tokenizer.save(str(target / TOKENIZER_JSON))
        return "fast"
    config_file = source / "tokenizer_config.json"
    if not config_file.is_file():
        return None
    content = {**read_json(config_file), "model_max_length": max_positions}
    (target / config_file.name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for name in _SLOW_TOKENIZER:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    return "slow"


def _explain_slow(folder: Path) -> str | None:
    """Why a folder for ``transformers`` has no fast tokenizer; None if it has one, or if the reason is unknown."""
    if (folder / TOKENIZER_JSON).is_file() or not (folder / DICTIONARY).is_file() or not find_tokenizer_files(folder):
        return None
    return getattr(find_tokenizer(folder / WEIGHTS, max_positions=1)[0], "why_slow", None)
