"""A checkpoint of fairseq, loaded to read its attention. Its tokenizer lies beside it or is named."""

from argparse import Namespace
from pathlib import Path

import torch

from ..checkpoints.authors import from_authors
from ..checkpoints.files import node, read_checkpoint
from ..checkpoints.roberta import from_roberta
from ..checkpoints.tokenizer_files import DICTIONARY, check_size, find_tokenizer
from ..config import LinformerConfig
from ..corpus.tokenizer import GPT2_FILES, SENTENCEPIECE, tokenizer_beside
from ..files import sha256
from ..huggingface.tokenization_linformer import LinformerTokenizer
from ..models.authors import is_authors
from ..models.compatibility import describe_mismatch
from ..models.options import resolve, to_linformer_config
from ..models.shapes import ATTENTION_HEADS, EMBEDDINGS, ENCODER, PADDING_IDX, current_names, max_positions, projections
from ..modules import LinformerEncoder
from .attention_model import AttentionModel

BOS, EOS = 0, 2
"""In every dictionary of fairseq."""


def load_checkpoint(path: Path, device: torch.device, with_tokenizer: bool, dictionary=None, sentencepiece=None, gpt2=None) -> AttentionModel:
    """As ``load_model``, for a file.

    Raises:
        ValueError: it is no checkpoint of these models, was trained with quantisation noise, or the tokenizer is missing or of
            another size.
    """
    checkpoint = read_checkpoint(path)
    kind = "linformer" if projections(checkpoint["model"]) or is_authors(checkpoint["model"]) else "roberta"
    if kind == "linformer":
        checkpoint = from_authors(checkpoint)
    else:
        n = max_positions(current_names(checkpoint["model"]))
        checkpoint = from_roberta(checkpoint, projected_dim=n, sharing="layerwise", projection="linear", projection_init="average")
    if node(checkpoint, "model").get("quant_noise_pq"):
        raise ValueError(f"{path} was trained with quant_noise_pq; its attention can only be read where that is 0")
    config = to_linformer_config(resolve(Namespace(**node(checkpoint, "model")), None), checkpoint["model"][EMBEDDINGS].size(0), PADDING_IDX)
    encoder = LinformerEncoder(config)
    state = {key: value.float() for key, value in checkpoint["model"].items() if key.startswith(ENCODER) and key != ENCODER + "version"}
    expected = {ENCODER + key: value for key, value in encoder.state_dict().items()}
    heads = {ATTENTION_HEADS: torch.tensor(config.attention_heads)}
    if problem := describe_mismatch({**expected, **heads}, {**state, **heads}, tied=False):
        raise ValueError(f"{path}: {problem}")
    encoder.load_state_dict({key.removeprefix(ENCODER): value for key, value in state.items()})
    encoder = encoder.to(device).eval()
    tokenizer = _load_tokenizer(path, config, dictionary, sentencepiece, gpt2) if with_tokenizer else None
    files = {name: sha256(file) for name, file in tokenizer.files.items()} if tokenizer else {}
    identity = {"files": {path.name: sha256(path), **files}}
    return AttentionModel(str(path), kind, encoder, encoder, config.max_positions, tokenizer, BOS, EOS, PADDING_IDX, identity)


def _load_tokenizer(path: Path, config: LinformerConfig, dictionary, sentencepiece, gpt2) -> LinformerTokenizer:
    if gpt2 is None and sentencepiece is None and not tokenizer_beside(path.parent):
        raise ValueError(f"there is neither {SENTENCEPIECE}, nor {' and '.join(GPT2_FILES)}, beside {path}; give --sentencepiece or --gpt2")
    gpt2_files = [None, None] if gpt2 is None else [Path(gpt2) / name for name in GPT2_FILES]
    if gpt2 is not None and dictionary is None and (Path(gpt2) / DICTIONARY).is_file():
        dictionary = Path(gpt2) / DICTIONARY
    tokenizer = find_tokenizer(path, config.max_positions, dictionary, sentencepiece, *gpt2_files)
    check_size(tokenizer.files["vocab_file"], config.vocab_size)
    tokenizer.model_max_length = int(1e30)  # the caller cuts sentences; it would warn about each
    return tokenizer
