"""A model to read attention from, loaded from a file, a folder or the Hugging Face hub."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict

import torch
from torch import nn

from ..checkpoints.authors import from_authors
from ..checkpoints.files import node, read_checkpoint
from ..checkpoints.roberta import from_roberta
from ..checkpoints.tokenizer_files import DICTIONARY, check_size, find_tokenizer
from ..config import LinformerConfig
from ..corpus.tokenizer import GPT2_FILES, SENTENCEPIECE, tokenizer_beside
from ..errors import first_line
from ..files import sha256
from ..huggingface import LinformerTokenizer  # which also registers the Linformer with AutoModel
from ..models.authors import is_authors
from ..models.compatibility import describe_mismatch
from ..models.options import resolve, to_linformer_config
from ..models.shapes import ATTENTION_HEADS, EMBEDDINGS, ENCODER, PADDING_IDX, current_names, max_positions, projections
from ..modules import LinformerEncoder
from .attention_model import AttentionModel

BOS, EOS = 0, 2
"""In every dictionary of fairseq."""
NO_WARNING = int(1e30)
"""For ``model_max_length``: sentences are cut by the caller, and the tokenizer would warn about each."""


def load_model(
    model, device: str = "cpu", tokenizer: bool = True, dictionary=None, sentencepiece=None, gpt2=None
) -> AttentionModel:
    """
    Args:
        model: a file is a checkpoint of fairseq (RoBERTa, this Linformer or the authors'), loaded weights-only; a
            folder is one of ``transformers``; anything else is a name on the hub, such as ``roberta-base``. Its code is
            never run.
        device: as PyTorch writes it.
        tokenizer: False to load none.
        dictionary: fairseq's ``dict.txt``; None for the one beside the checkpoint (or in ``gpt2``).
        sentencepiece: a sentencepiece model; None for ``sentencepiece.bpe.model`` beside the checkpoint, or
        gpt2: a folder with ``encoder.json`` and ``vocab.bpe``; None for those beside the checkpoint.

    Raises:
        ValueError: it does not exist, cannot be read, or has no attention weights; an option is for the other kind.
    """
    try:
        target = torch.device(device)
        torch.zeros(1, device=target).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(f"device is {device!r}; PyTorch cannot compute there") from None
    if os.path.isfile(model):
        return _load_checkpoint(Path(model), target, tokenizer, dictionary, sentencepiece, gpt2)
    name = str(model)
    if not os.path.isdir(name) and (name.endswith(".pt") or name.startswith((".", "/")) or name.count("/") > 1):
        raise ValueError(f"{name} is not a fairseq checkpoint, a transformers folder or a model on the hub")
    for option, value in (("dictionary", dictionary), ("sentencepiece", sentencepiece), ("gpt2", gpt2)):
        if value is not None:
            raise ValueError(f"{option} is {value}, which is for checkpoints of fairseq; {name} has its own tokenizer")
    return _load_transformers(name, target, tokenizer)


def _load_checkpoint(
    path: Path, device: torch.device, with_tokenizer: bool, dictionary=None, sentencepiece=None, gpt2=None
) -> AttentionModel:
    """
    Raises:
        ValueError: it is not a checkpoint of one of these models, was trained with quantisation noise, or the tokenizer is
            missing or of another size.
    """
    checkpoint = read_checkpoint(path)
    kind = "linformer" if projections(checkpoint["model"]) or is_authors(checkpoint["model"]) else "roberta"
    if kind == "linformer":
        checkpoint = from_authors(checkpoint)
    else:
        n = max_positions(current_names(checkpoint["model"]))
        checkpoint = from_roberta(checkpoint, projected_dim=n, sharing="layerwise", projection="linear",
                                  projection_init="average")  # fmt: skip
    if node(checkpoint, "model").get("quant_noise_pq"):
        raise ValueError(f"{path} was trained with quant_noise_pq; its attention can only be read where that is 0")
    config = to_linformer_config(resolve(Namespace(**node(checkpoint, "model")), None),
                                 checkpoint["model"][EMBEDDINGS].size(0), PADDING_IDX)  # fmt: skip
    encoder = LinformerEncoder(config)
    parameters = {key: value.float() for key, value in checkpoint["model"].items() if key.startswith(ENCODER)}
    parameters.pop(ENCODER + "version", None)
    expected = {ENCODER + key: value for key, value in encoder.state_dict().items()}
    heads = {ATTENTION_HEADS: torch.tensor(config.attention_heads)}
    if problem := describe_mismatch({**expected, **heads}, {**parameters, **heads}, tied=False):
        raise ValueError(f"{path}: {problem}")
    encoder.load_state_dict({key.removeprefix(ENCODER): value for key, value in parameters.items()})
    encoder = encoder.to(device).eval()
    tokenizer = _load_tokenizer(path, config, dictionary, sentencepiece, gpt2) if with_tokenizer else None
    files = {name: sha256(file) for name, file in tokenizer.files.items()} if tokenizer else {}
    identity = {"files": {path.name: sha256(path), **files}}
    return AttentionModel(str(path), kind, encoder, encoder, config.max_positions, tokenizer, BOS, EOS, PADDING_IDX,
                          identity)  # fmt: skip


def _load_tokenizer(path: Path, config: LinformerConfig, dictionary, sentencepiece, gpt2) -> LinformerTokenizer:
    if gpt2 is None and sentencepiece is None and not tokenizer_beside(path.parent):
        raise ValueError(f"{path} has no {SENTENCEPIECE} or {GPT2_FILES[0]} beside it; give --sentencepiece or --gpt2")
    gpt2_files = [None, None] if gpt2 is None else [Path(gpt2) / name for name in GPT2_FILES]
    if gpt2 is not None and dictionary is None and (Path(gpt2) / DICTIONARY).is_file():
        dictionary = Path(gpt2) / DICTIONARY
    tokenizer = find_tokenizer(path, config.max_positions, dictionary, sentencepiece, *gpt2_files)
    check_size(tokenizer.files["vocab_file"], config.vocab_size)
    tokenizer.model_max_length = NO_WARNING
    return tokenizer


def _load_transformers(name: str, device: torch.device, with_tokenizer: bool) -> AttentionModel:
    from transformers import AutoModel, AutoTokenizer

    tokenizer = None
    try:
        module, info = AutoModel.from_pretrained(name, attn_implementation="eager", trust_remote_code=False,
                                                 dtype=torch.float32, output_loading_info=True)  # fmt: skip
        if with_tokenizer:
            kind = LinformerTokenizer if module.config.model_type == "linformer" else AutoTokenizer
            tokenizer = kind.from_pretrained(name, trust_remote_code=False)
    except ImportError:
        raise
    except Exception as error:  # a damaged folder or the network can fail in any way
        raise ValueError(f"{name} cannot be loaded: {type(error).__name__}: {first_line(error)}") from None
    # the pooler comes after all attention
    if missing := sorted(key for key in info["missing_keys"] if "pooler" not in key):
        raise ValueError(f"{name} has no weights for {len(missing)} parameters, such as {missing[0]}")
    special = (None, None, None)
    if tokenizer is not None:
        _check_tokenizer(name, tokenizer, module)
        tokenizer.model_max_length = NO_WARNING
        first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
        special = (tokenizer.bos_token_id if first is None else first,
                   tokenizer.eos_token_id if last is None else last, tokenizer.pad_token_id)  # fmt: skip
    if module.config.is_encoder_decoder:
        module = module.get_encoder()
    module = module.to(device).eval()
    encoder = next((part for part in module.modules() if isinstance(part, LinformerEncoder)), None)
    kind = "transformers" if encoder is None else "linformer"
    n = _longest_input(module) if encoder is None else encoder.config.max_positions
    return AttentionModel(name, kind, module, encoder, n, tokenizer, *special, _identity(name, module))


def _check_tokenizer(name: str, tokenizer, module: nn.Module) -> None:
    """
    Raises:
        ValueError: it has no words (transformers invents such a tokenizer where files are missing), or more than the
            model.
    """
    entries, rows = len(tokenizer), module.get_input_embeddings().num_embeddings
    if entries <= len(set(tokenizer.all_special_ids)):
        raise ValueError(f"{name} has no tokenizer: the one transformers builds for it contains only special symbols")
    if entries > rows:
        raise ValueError(f"the tokenizer of {name} has {entries:,} entries, and the model {rows:,} embeddings")


def _longest_input(module: nn.Module) -> int:
    """n. RoBERTa's table of positions begins with the row of padding and those before it."""
    for name, table in module.named_modules():
        if name.endswith("position_embeddings") and isinstance(table, nn.Embedding):
            return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    configured = getattr(module.config, "max_position_embeddings", None) or 0
    return int(configured) if configured > 0 else 512  # XLNet has -1


def _identity(name: str, module: nn.Module) -> Dict[str, Any]:
    if not os.path.isdir(name):
        return {"hub": name, "commit": getattr(module.config, "_commit_hash", None)}
    return {"files": {path.name: sha256(path) for path in sorted(Path(name).iterdir()) if path.is_file()}}
