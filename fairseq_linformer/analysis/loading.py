"""Loads an ``AttentionModel`` from a checkpoint, a folder or the Hugging Face hub."""

from dataclasses import asdict
from pathlib import Path

import torch

from ..checkpoints.files import find_companions
from ..checkpoints.identify import Kind, identify
from ..checkpoints.models import build_model, open_checkpoint
from ..checkpoints.to_linformer import to_linformer
from ..checkpoints.transformers_loading import (
    check_loaded_weights,
    find_max_positions,
    load_from_transformers,
    load_weights_from_transformers,
)
from ..checkpoints.transformers_tokenizer import find_tokenizer
from ..data.tokenizer_files import DICTIONARY
from ..huggingface import LinformerModel, LinformerPreTrainedConfig  # it registers the Linformer with AutoModel
from ..models.dictionaries import check_dictionary
from ..models.state_dicts import has_projections
from .attention_model import AttentionModel

NO_LIMIT = int(1e30)
"""``model_max_length``: the caller truncates sentences; with a limit the tokenizer would warn about each long one."""


def load_model(name, device: str = "cpu", dictionary=None, tokenizer_files: Path | None = None) -> AttentionModel:
    """Load a model in eval mode, with its tokenizer. No code from a checkpoint or the hub is executed.

    Args:
        name: as for ``identify``: a fairseq checkpoint (RoBERTa, this Linformer or the authors'), loaded weights-only,
            or a ``transformers`` model.
        dictionary, tokenizer_files: of a checkpoint; None for those next to it.
    """
    kind, name = source = identify(name)
    source.check_kind(Kind.FAIRSEQ, Kind.TRANSFORMERS)
    if kind is Kind.FAIRSEQ:
        model = _load_checkpoint(Path(name), dictionary, tokenizer_files)
    elif dictionary or tokenizer_files:
        raise ValueError(f"{name} has its own tokenizer; a dictionary and tokenizer are for fairseq checkpoints")
    else:
        model = _load_transformers(name)
    if window := getattr(model.module.config, "local_window", 0):
        raise ValueError(f"local_window must be 0, since neighbors are not columns of a map, got {window}")
    model.tokenizer.model_max_length = NO_LIMIT
    model.module.to(device).eval()
    model.read_maps(torch.full((1, 4), 2))  # any token but padding; raises ValueError if the model has no maps
    return model


def _load_checkpoint(path: Path, dictionary, files: Path | None) -> AttentionModel:
    checkpoint = open_checkpoint(path)
    if not has_projections(checkpoint["model"]):  # fairseq's own attention returns the mean over heads
        checkpoint = to_linformer(checkpoint, projection="none")
    encoder = build_model(checkpoint).encoder.sentence_encoder
    with torch.device("meta"):
        module = LinformerModel(LinformerPreTrainedConfig(**asdict(encoder.config)))
    module.encoder = encoder
    if files and dictionary is None and (files / DICTIONARY).is_file():  # that of GPT-2
        dictionary = files / DICTIONARY
    folder = find_companions(path, checkpoint)
    tokenizer, paths = find_tokenizer(folder, encoder.config.max_positions, dictionary, files)
    check_dictionary(paths[DICTIONARY], encoder.config.vocab_size, path)
    return AttentionModel(str(path), module, encoder.config.max_positions, tokenizer)


def _load_transformers(name: str) -> AttentionModel:
    from transformers import AutoModel, AutoTokenizer

    eager = {"attn_implementation": "eager"}  # others return no attention weights
    module, info = load_weights_from_transformers(
        AutoModel, name, **eager, dtype=torch.float32, output_loading_info=True
    )
    check_loaded_weights(name, info, lambda key: "pooler" in key)  # it comes after the last attention
    tokenizer = load_from_transformers(AutoTokenizer, name)
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise ValueError(f"{name} has no tokenizer: the one that transformers builds has only special symbols")
    if module.config.is_encoder_decoder:
        module = module.get_encoder()
    n = find_max_positions(module) or 512  # XLNet has no limit
    return AttentionModel(name, module, n, tokenizer)
