"""Loads an ``AttentionModel`` from a checkpoint, a folder or the Hugging Face hub."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..checkpoints.authors import from_authors
from ..checkpoints.files import get_cfg_section, read_checkpoint
from ..checkpoints.roberta import from_roberta
from ..checkpoints.transformers_loading import (
    check_loaded_weights,
    load_from_transformers,
    load_weights_from_transformers,
)
from ..checkpoints.transformers_tokenizer import find_tokenizer
from ..config import LinformerConfig
from ..data.tokenizer_files import DICTIONARY, FILES_TEXT, FLAGS_TEXT, TokenizerFiles, find_tokenizer_files
from ..files import sha256
from ..huggingface import LinformerPreTrainedConfig  # the package registers the Linformer with AutoModel
from ..models.authors_plugin import is_authors_state_dict
from ..models.dictionaries import check_dictionary
from ..models.options import resolve_options, to_linformer_config
from ..models.shapes import EMBEDDINGS, ENCODER, PADDING_IDX, has_projections, max_positions, upgrade_names
from ..modules import LinformerEncoder
from .attention_model import AttentionModel

BOS, EOS = 0, 2
"""In every dictionary of fairseq."""
NO_LIMIT = int(1e30)
"""``model_max_length``: the caller truncates sentences; with a limit the tokenizer would warn about each long one."""


def load_model(
    model, device: str = "cpu", tokenizer: bool = True, dictionary=None, tokenizer_files: TokenizerFiles | None = None
) -> AttentionModel:
    """Load a model in eval mode, with its tokenizer. No code from a checkpoint or the hub is executed.

    Args:
        model: a file is a fairseq checkpoint (RoBERTa, this Linformer or the authors'), loaded weights-only; a folder
            is a ``transformers`` model; anything else is a name on the hub, such as ``roberta-base``.
        device: a PyTorch device, such as ``cuda:1``.
        tokenizer: False to load none.
        dictionary: fairseq's ``dict.txt``; None for the one in GPT-2's folder or next to the checkpoint.
        tokenizer_files: None for those next to the checkpoint.

    Raises:
        ValueError: the model does not exist, cannot be read, or returns no attention weights; or a tokenizer option is
            set for a ``transformers`` model.
    """
    try:
        target = torch.device(device)
        torch.zeros(1, device=target).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(f"device must be one that PyTorch can use, such as cpu or cuda, got {device!r}") from None
    if os.path.isfile(model):
        return _load_checkpoint(Path(model), target, tokenizer, dictionary, tokenizer_files)
    name = str(model)
    if not os.path.isdir(name) and (name.endswith(".pt") or name.startswith((".", "/")) or name.count("/") > 1):
        raise ValueError(f"{name} is not a fairseq checkpoint, a transformers folder or a model on the hub")
    for option, value in (("dictionary", dictionary), ("tokenizer", tokenizer_files and tokenizer_files.path)):
        if value is not None:
            raise ValueError(f"{option} is for fairseq checkpoints; {name} has its own tokenizer, got {value}")
    return _load_transformers(name, target, tokenizer)


def _load_checkpoint(
    path: Path, device: torch.device, with_tokenizer: bool, dictionary, tokenizer_files: TokenizerFiles | None
) -> AttentionModel:
    """
    Raises:
        ValueError: the checkpoint is of another model or trained with quantization noise, or its tokenizer is missing
            or of a different size.
    """
    checkpoint = read_checkpoint(path)
    kind = (
        "linformer" if has_projections(checkpoint["model"]) or is_authors_state_dict(checkpoint["model"]) else "roberta"
    )
    if kind == "linformer":
        checkpoint = from_authors(checkpoint)
    else:
        n = max_positions(upgrade_names(checkpoint["model"]))
        checkpoint = from_roberta(
            checkpoint, projected_dim=n, sharing="layerwise", projection="linear", projection_init="average"
        )
    if get_cfg_section(checkpoint, "model").get("quant_noise_pq"):
        raise ValueError(
            f"{path} was trained with quant_noise_pq; its attention can only be read with quant_noise_pq 0"
        )
    config = to_linformer_config(
        resolve_options(Namespace(**get_cfg_section(checkpoint, "model")), None),
        checkpoint["model"][EMBEDDINGS].size(0),
        PADDING_IDX,
    )
    encoder = LinformerEncoder(config)
    parameters = {key: value.float() for key, value in checkpoint["model"].items() if key.startswith(ENCODER)}
    parameters.pop(ENCODER + "version", None)
    encoder.load_state_dict({key.removeprefix(ENCODER): value for key, value in parameters.items()})
    encoder = encoder.to(device).eval()
    tokenizer, files = _load_tokenizer(path, config, dictionary, tokenizer_files) if with_tokenizer else (None, {})
    identity = {"files": {path.name: sha256(path), **{name: sha256(file) for name, file in files.items()}}}
    return AttentionModel(
        str(path), kind, encoder, encoder, config.max_positions, tokenizer, BOS, EOS, PADDING_IDX, identity
    )


def _load_tokenizer(
    path: Path, config: LinformerConfig, dictionary, files: TokenizerFiles | None
) -> tuple[Any, dict[str, Path]]:
    if files is None and not find_tokenizer_files(path.parent):
        raise ValueError(f"there is no tokenizer ({FILES_TEXT}) next to {path}; pass {FLAGS_TEXT}")
    if files and files.kind == "gpt2" and dictionary is None and (files.path / DICTIONARY).is_file():
        dictionary = files.path / DICTIONARY
    tokenizer, paths = find_tokenizer(path, config.max_positions, dictionary, files)
    check_dictionary(paths[DICTIONARY], config.vocab_size, path)
    tokenizer.model_max_length = NO_LIMIT
    return tokenizer, paths


def _load_transformers(name: str, device: torch.device, with_tokenizer: bool) -> AttentionModel:
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    # Models of transformers return attention weights only with this attention; those of a Linformer are computed here.
    is_linformer = load_from_transformers(AutoConfig, name).model_type == LinformerPreTrainedConfig.model_type
    attention = {} if is_linformer else {"attn_implementation": "eager"}
    module, info = load_weights_from_transformers(
        AutoModel, name, **attention, dtype=torch.float32, output_loading_info=True
    )
    tokenizer = load_from_transformers(AutoTokenizer, name) if with_tokenizer else None
    check_loaded_weights(name, info, lambda key: "pooler" in key)  # it comes after the last attention
    special = (None, None, None)
    if tokenizer is not None:
        _check_tokenizer(name, tokenizer, module)
        tokenizer.model_max_length = NO_LIMIT
        first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
        special = (
            tokenizer.bos_token_id if first is None else first,
            tokenizer.eos_token_id if last is None else last,
            tokenizer.pad_token_id,
        )
    if module.config.is_encoder_decoder:
        module = module.get_encoder()
    module = module.to(device).eval()
    encoder = next((submodule for submodule in module.modules() if isinstance(submodule, LinformerEncoder)), None)
    kind = "transformers" if encoder is None else "linformer"
    n = _max_length(module) if encoder is None else encoder.config.max_positions
    return AttentionModel(name, kind, module, encoder, n, tokenizer, *special, _identity(name, module))


def _check_tokenizer(name: str, tokenizer, module: Any) -> None:
    """
    Raises:
        ValueError: the tokenizer has only special symbols (transformers builds such a one if files are missing), or
            more tokens than the model has embeddings.
    """
    tokens, embeddings = len(tokenizer), module.get_input_embeddings().num_embeddings
    if tokens <= len(set(tokenizer.all_special_ids)):
        raise ValueError(f"{name} has no tokenizer: the one transformers builds for it contains only special symbols")
    if tokens > embeddings:
        raise ValueError(
            f"the tokenizer of {name} must have at most {embeddings:,} tokens (embeddings), got {tokens:,}"
        )


def _max_length(module: nn.Module) -> int:
    """n. RoBERTa's position embeddings start with unused rows, up to and including the padding row."""
    for name, embedding in module.named_modules():
        if name.endswith("position_embeddings") and isinstance(embedding, nn.Embedding):
            return embedding.num_embeddings - (0 if embedding.padding_idx is None else embedding.padding_idx + 1)
    configured = getattr(module.config, "max_position_embeddings", None) or 0
    return int(configured) if configured > 0 else 512  # XLNet has -1


def _identity(name: str, module: nn.Module) -> dict[str, Any]:
    if not os.path.isdir(name):
        return {"hub": name, "commit": getattr(module.config, "_commit_hash", None)}
    return {"files": {path.name: sha256(path) for path in sorted(Path(name).iterdir()) if path.is_file()}}
