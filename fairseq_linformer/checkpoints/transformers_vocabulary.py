"""The vocabulary of an encoder of ``transformers`` as fairseq's ``dict.txt`` and ``tokenizer.json``."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..data.tokenizer_files import TOKENIZER_JSON
from ..data.tokenizer_json import FIRST_ID, SYMBOLS, order_tokens, read_settings, rewrite
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
    """Read the vocabulary of a fast tokenizer.

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
    label = f"the tokenizer of {name}"
    settings, ids = read_settings(backend.to_str().encode(), label)
    if len(ids) != vocab_size:
        raise ValueError(
            f"{label} must have one token per embedding of the model ({vocab_size:,}), got {len(ids):,} tokens"
        )
    special = [getattr(tokenizer, f"{kind}_token") for kind in ("cls", "pad", "sep", "unk", "mask")]
    if None in special or len(set(special)) < len(special):
        raise ValueError(f"{label} must have five different tokens for cls, pad, sep, unk and mask")
    _check_text_is_enclosed(name, tokenizer)
    tokens = order_tokens(ids, label, special)
    entries = tokens[FIRST_ID:-1]
    content = rewrite(settings, tokens, [*SYMBOLS[:FIRST_ID], *entries, SYMBOLS[-1]])
    return Vocabulary(torch.tensor([ids[token] for token in tokens]), entries, {TOKENIZER_JSON: content})


def _check_text_is_enclosed(name: str, tokenizer: Any) -> None:
    """Raise ValueError if the tokenizer does not put its cls and sep tokens around text, as fairseq does."""
    encoded = tokenizer("a")["input_ids"]
    if encoded[:1] != [tokenizer.cls_token_id] or encoded[-1:] != [tokenizer.sep_token_id]:
        raise ValueError(
            f"the tokenizer of {name} must add {tokenizer.cls_token} before and {tokenizer.sep_token} after a text"
        )
