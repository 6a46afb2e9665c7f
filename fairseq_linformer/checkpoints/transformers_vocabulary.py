"""The vocabulary of an encoder of ``transformers`` as fairseq's ``dict.txt`` and tokenizer files."""

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..data.tokenizer import bytes_of_symbols
from ..data.tokenizer_files import GPT2_FILES, WORDPIECE_FILE
from ..data.wordpiece import check_added_tokens, check_entries, normalize
from .transformers_loading import load_from_transformers

END_OF_TEXT = "<|endoftext|>"
"""In GPT-2's vocabulary; text never contains it."""


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
    _check_text_is_enclosed(name, tokenizer)
    *first, mask = special
    others = [i for i in range(vocab_size) if i not in special]
    names = {i: token for token, i in ids.items()}
    kind = content["model"]["type"]
    if kind == "WordPiece":
        entries = [names[i] for i in others]
        files = {WORDPIECE_FILE: normalize(json.dumps(content).encode(), f"the tokenizer of {name}")}
    elif kind == "BPE" and _splits_like_gpt2(content):
        gpt2_ids, files = _to_gpt2(content["model"])
        _check_bpe(name, content, {names[i] for i in special}, set(ids), gpt2_ids)
        entries = [str(gpt2_ids.get(names[i], names[i])) for i in others]
    else:
        raise ValueError(f"the tokenizer of {name} must be a WordPiece or RoBERTa's byte-level BPE, got another {kind}")
    check_entries(entries, f"the tokenizer of {name}")
    return Vocabulary(torch.tensor([*first, *others, mask]), entries, files)


def _check_text_is_enclosed(name: str, tokenizer: Any) -> None:
    """Raise ValueError if the tokenizer does not put its cls and sep tokens around text, as fairseq does."""
    encoded = tokenizer("a")["input_ids"]
    if encoded[:1] != [tokenizer.cls_token_id] or encoded[-1:] != [tokenizer.sep_token_id]:
        raise ValueError(
            f"the tokenizer of {name} must add {tokenizer.cls_token} before and {tokenizer.sep_token} after a text"
        )


def _check_bpe(
    name: str, content: dict[str, Any], special: set[str], tokens: set[str], gpt2_ids: dict[str, int]
) -> None:
    """
    Raises:
        ValueError: the BPE has added tokens or settings that GPT-2's does not have, lacks one of its tokens, or has
            another token that looks like one of its IDs in ``dict.txt``.
    """
    added = [token["content"] for token in content["added_tokens"]]
    check_added_tokens(added, sorted(special), f"the tokenizer of {name}")
    for setting in ("ignore_merges", "dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if content["model"].get(setting):
            raise ValueError(
                f"{setting} of the tokenizer of {name} must be unset, as in GPT-2, got {content['model'][setting]!r}"
            )
    if missing := [token for token in gpt2_ids if token not in tokens and token != END_OF_TEXT]:
        raise ValueError(
            f"the tokenizer of {name} must have every byte and the result of every merge, but has no {missing[0]!r}"
        )
    if numbers := sorted(token for token in tokens - set(gpt2_ids) if token.isdecimal()):
        raise ValueError(f"tokens of {name} that are numbers must be results of merges, got {numbers[0]!r}")


def _splits_like_gpt2(content: dict[str, Any]) -> bool:
    """Whether a byte-level BPE splits text as GPT-2's does."""
    before = content["pre_tokenizer"] or {}
    options = before.get("add_prefix_space"), before.get("use_regex", True)
    return before.get("type") == "ByteLevel" and options == (False, True) and content["normalizer"] is None


def _to_gpt2(model: dict[str, Any]) -> tuple[dict[str, int], dict[str, bytes]]:
    """GPT-2's token IDs, which are in the order of the merges, and its files ``encoder.json`` and ``vocab.bpe``."""
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
    tokens = [*bytes_of_symbols(), *("".join(pair) for pair in merges), END_OF_TEXT]
    ids = {token: i for i, token in enumerate(tokens)}
    encoder, vocab = GPT2_FILES
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    return ids, {encoder: json.dumps(ids).encode(), vocab: "\n".join(lines).encode()}
