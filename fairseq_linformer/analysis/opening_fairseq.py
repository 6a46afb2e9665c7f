"""A checkpoint of fairseq, opened to look at its attention. The tokenizer lies beside it or is given."""

from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import torch

from ..checkpoints.authors import from_authors
from ..checkpoints.files import node, read_checkpoint
from ..checkpoints.roberta import from_roberta
from ..checkpoints.tokenizer_files import DICTIONARY, check_size, find_tokenizer
from ..config import LinformerConfig
from ..corpus.tokenizer import GPT2_FILES, SENTENCEPIECE, tokenizer_beside
from ..files import sha256
from ..models.authors import is_authors
from ..models.compatibility import describe_mismatch
from ..models.options import resolve, to_linformer_config
from ..models.shapes import ATTENTION_HEADS, EMBEDDINGS, ENCODER, PADDING_IDX, current_names, max_positions, projections
from ..modules import LinformerEncoder
from .opening import Opened

BOS, EOS = 0, 2
"""Of every dictionary of fairseq."""


def open_checkpoint(path: Path, device: torch.device, wants_tokenizer: bool, dictionary=None, sentencepiece=None, gpt2=None) -> Opened:
    """As ``open_model``, of a file.

    Raises:
        ValueError: it is no checkpoint of these models, was trained with quantisation noise, or the tokenizer is missing or of
            another size; a sentence.
    """
    checkpoint = read_checkpoint(path)
    linformer = bool(projections(checkpoint["model"])) or is_authors(checkpoint["model"])
    if linformer:
        checkpoint = from_authors(checkpoint)
    else:
        n = max_positions(current_names(checkpoint["model"]))
        checkpoint = from_roberta(checkpoint, projected_dim=n, sharing="layerwise", projection="linear", projection_init="average")
    if node(checkpoint, "model").get("quant_noise_pq"):
        raise ValueError(f"{path} was trained with quant_noise_pq; its attention cannot be looked at, only 0 is allowed")
    state = checkpoint["model"]
    config = to_linformer_config(resolve(Namespace(**node(checkpoint, "model")), None), state[EMBEDDINGS].size(0), PADDING_IDX)
    encoder = LinformerEncoder(config)
    state = {key: value.float() for key, value in state.items() if key.startswith(ENCODER) and key != ENCODER + "version"}
    ours = {ENCODER + key: value for key, value in encoder.state_dict().items()}
    heads = {ATTENTION_HEADS: torch.tensor(config.attention_heads)}
    if problem := describe_mismatch({**ours, **heads}, {**state, **heads}, tied=False):
        raise ValueError(f"{path}: {problem}")
    encoder.load_state_dict({key.removeprefix(ENCODER): value for key, value in state.items()})
    encoder = encoder.to(device).eval()
    tokenizer, files = None, {}
    if wants_tokenizer:
        tokenizer, files = _tokenizer(path, config, dictionary, sentencepiece, gpt2)
    identity = {"files": {path.name: sha256(path), **files}}
    return Opened(str(path), "linformer" if linformer else "roberta", encoder, encoder, config.max_positions, tokenizer, BOS, EOS, PADDING_IDX, identity)


def _tokenizer(path: Path, config: LinformerConfig, dictionary, sentencepiece, gpt2) -> Tuple[Any, Dict[str, str]]:
    """The tokenizer, and the SHA-256 of its files."""
    if gpt2 is None and sentencepiece is None:
        found = tokenizer_beside(path.parent)
        if not found:
            raise ValueError(f"there is neither {SENTENCEPIECE}, nor {' and '.join(GPT2_FILES)}, beside {path}; give --sentencepiece or --gpt2")
        gpt2, sentencepiece = found.get("gpt2"), found.get("sentencepiece")
    encoder: Optional[Path] = None
    vocab: Optional[Path] = None
    if gpt2 is not None:
        encoder, vocab = Path(gpt2) / "encoder.json", Path(gpt2) / "vocab.bpe"
        if dictionary is None and (Path(gpt2) / DICTIONARY).is_file():
            dictionary = Path(gpt2) / DICTIONARY
    tokenizer = find_tokenizer(path, config.max_positions, dictionary, sentencepiece, encoder, vocab)
    check_size(tokenizer.files["vocab_file"], config.vocab_size)
    tokenizer.model_max_length = int(1e30)  # sentences are cut by the caller; it would warn about each
    return tokenizer, {name: sha256(file) for name, file in tokenizer.files.items()}
