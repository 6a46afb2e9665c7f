"""The vocabulary of an encoder of ``transformers`` as fairseq's ``dict.txt`` and tokenizer files."""

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..corpus.tokenizer import bytes_of_symbols
from ..corpus.tokenizer_files import GPT2_FILES, WORDPIECE_FILE
from ..corpus.wordpiece import check_entries, normalize
from .transformers_loading import load_from_transformers


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary in the order of fairseq's dictionary: <s>, <pad>, </s>, <unk>, the others, <mask>.

    Attributes:
        order: (V,) token IDs of ``transformers``, in this order.
        entries: names of the tokens in ``dict.txt``, which has neither the special symbols nor <mask>.
        files: contents of the tokenizer files, by name.
    """

    order: Tensor
    entries: list[str]
    files: dict[str, bytes]


def read_vocabulary(name: str, vocab_size: int) -> Vocabulary:
    """Read the vocabulary of a WordPiece tokenizer, or of RoBERTa's byte-level BPE.

    Args:
        name: folder, or name of a model on the hub.
        vocab_size: number of embeddings of the model.

    Raises:
        ValueError: there is no such tokenizer, or it does not match the embeddings.
    """
    from transformers import AutoTokenizer

    tokenizer = load_from_transformers(AutoTokenizer, name)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(
            f"the tokenizer of {name} must be a fast one, with a tokenizer.json, got {type(tokenizer).__name__}"
        )
    content = json.loads(backend.to_str())
    ids = tokenizer.get_vocab()
    if sorted(ids.values()) != list(range(vocab_size)):
        raise ValueError(
            f"the tokenizer of {name} must have one token per embedding of the model ({vocab_size:,}), got "
            f"{len(ids):,} tokens"
        )
    special = [getattr(tokenizer, f"{kind}_token_id") for kind in ("cls", "pad", "sep", "unk", "mask")]
    if None in special or len(set(special)) < len(special):
        raise ValueError(f"the tokenizer of {name} must have five different tokens for cls, pad, sep, unk and mask")
    *first, mask = special
    others = [i for i in range(vocab_size) if i not in special]
    names = {i: token for token, i in ids.items()}
    kind = content["model"]["type"]
    if kind == "WordPiece":
        entries = [names[i] for i in others]
        files = {WORDPIECE_FILE: normalize(json.dumps(content).encode(), f"the tokenizer of {name}")}
    elif kind == "BPE" and _splits_like_gpt2(content):
        gpt2_ids, files = _to_gpt2(content["model"])
        entries = [str(gpt2_ids.get(names[i], names[i])) for i in others]
    else:
        raise ValueError(f"the tokenizer of {name} must be a WordPiece or RoBERTa's byte-level BPE, got another {kind}")
    check_entries(entries, f"the tokenizer of {name}")
    return Vocabulary(torch.tensor([*first, *others, mask]), entries, files)


def _splits_like_gpt2(content: dict[str, Any]) -> bool:
    """Whether a byte-level BPE splits text as GPT-2's does."""
    before = content["pre_tokenizer"] or {}
    options = before.get("add_prefix_space"), before.get("use_regex", True)
    return before.get("type") == "ByteLevel" and options == (False, True) and content["normalizer"] is None


def _to_gpt2(model: dict[str, Any]) -> tuple[dict[str, int], dict[str, bytes]]:
    """GPT-2's token IDs, which are in the order of the merges, and its files ``encoder.json`` and ``vocab.bpe``."""
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
    tokens = [*bytes_of_symbols(), *("".join(pair) for pair in merges), "<|endoftext|>"]
    ids = {token: i for i, token in enumerate(tokens)}
    encoder, vocab = GPT2_FILES
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    return ids, {encoder: json.dumps(ids).encode(), vocab: "\n".join(lines).encode()}
