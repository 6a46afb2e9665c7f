"""BERT's WordPiece through ``tokenizers``, with the token IDs of a fairseq dictionary.

``normalize`` rewrites a ``tokenizer.json``: its special tokens are fairseq's (<s> for [CLS], </s> for [SEP], ...), and
its IDs those of the dictionary. Text is split as before, and ``transformers`` can use the file as it is.
"""

import json
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any

SPECIAL_TOKENS = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": "<mask>"}
"""Special token of BERT -> of fairseq, in the order of fairseq's dictionary; <mask> is its last entry."""


def load_normalized(content: bytes, file) -> Any:
    """The tokenizer of ``tokenizers`` for a normalized ``tokenizer.json``; names of special tokens are ordinary text.

    Args:
        file: its path, for messages.

    Raises:
        ValueError: ``tokenizers`` cannot read it.
    """
    import tokenizers

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers are processes
    try:
        tokenizer = tokenizers.Tokenizer.from_str(content.decode())
    except Exception as error:  # tokenizers raises nothing narrower
        raise ValueError(f"{file} is not a valid tokenizer.json: {' '.join(str(error).split())[:200]}") from None
    tokenizer.encode_special_tokens = True
    return tokenizer


def list_tokens(content: bytes) -> list[str]:
    """The tokens of a normalized ``tokenizer.json`` by ID, from <s> to <mask>."""
    vocab: dict[str, int] = json.loads(content)["model"]["vocab"]
    return sorted(vocab, key=vocab.__getitem__)


def check_entries(tokens: Sequence[str], name) -> None:
    """Raise ValueError if a token of the tokenizer ``name`` cannot be an entry of fairseq's dictionary."""
    for token in tokens:
        if token in SPECIAL_TOKENS.values() or token.split() != [token]:
            raise ValueError(
                f"tokens of {name} must have no white space, and not be {', '.join(SPECIAL_TOKENS.values())}, got "
                f"{token!r}"
            )


def check_added_tokens(added: Iterable[str], allowed: Collection[str], name) -> None:
    """Raise ValueError if the tokenizer ``name`` has added tokens other than ``allowed``."""
    if extra := [token for token in added if token not in allowed]:
        raise ValueError(f"{name} must have no added tokens other than {', '.join(allowed)}, got {extra[0]!r}")


def normalize(content: bytes, file) -> bytes:
    """Rewrite a ``tokenizer.json`` with fairseq's special tokens and token IDs; a normalized one is unchanged.

    Args:
        file: its path, for messages.

    Raises:
        ValueError: it is not a WordPiece tokenizer, lacks a special token, or has an added token or one that
            cannot be in ``dict.txt``.
    """
    try:
        settings = json.loads(content)
        model = settings["model"]
        kind, vocab = model["type"], model.get("vocab")
        added = [token["content"] for token in settings.get("added_tokens") or []]
        json.dumps(settings, ensure_ascii=False).encode()  # an escape can be half a character
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{file} is not a tokenizer.json") from None
    if kind != "WordPiece":
        raise ValueError(f"{file} must have a WordPiece model, got {kind}")
    numbers = set(vocab.values()) if isinstance(vocab, dict) and all(type(n) is int for n in vocab.values()) else None
    if numbers is None or numbers != set(range(len(vocab))):
        raise ValueError(f"the token IDs of {file} must be 0 to V - 1, each once")
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    # Names of a normalized file map to themselves.
    names = {name: name for name in SPECIAL_TOKENS.values()} if "<s>" in model["vocab"] else SPECIAL_TOKENS
    if missing := [token for token in names if token not in model["vocab"]]:
        raise ValueError(f"{file} must have the special tokens {', '.join(names)}, but has no {missing[0]}")
    check_added_tokens(added, names, file)
    others = [token for token in tokens if token not in names]
    *first, mask = names.values()
    order = [*first, *others, mask]
    check_entries(others, file)
    ids = {token: i for i, token in enumerate(order)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    start, end = ({"SpecialToken": {"id": token, "type_id": 0}} for token in ("<s>", "</s>"))
    sequences = {name: {"Sequence": {"id": name, "type_id": 0}} for name in "AB"}
    template = {
        "type": "TemplateProcessing",
        "single": [start, sequences["A"], end],
        "pair": [start, sequences["A"], end, end, sequences["B"], end],
        "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("<s>", "</s>")},
    }
    normalized = {
        **settings,
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[name], "content": name, **flags} for name in names.values()],
        "post_processor": template,
        "model": {**model, "unk_token": "<unk>", "vocab": ids},
    }
    return json.dumps(normalized, ensure_ascii=False).encode()
