"""A ``tokenizer.json`` with the token IDs of a fairseq dictionary, for training and for ``transformers``.

fairseq's dictionary is <s>, <pad>, </s>, <unk>, the entries of ``dict.txt``, <mask>. The special tokens of a tokenizer
get these names and all tokens the IDs of the dictionary; text is split as before.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""Special tokens of fairseq; <mask> is the last one of a dictionary."""
BERT_SYMBOLS = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
"""Those of BERT with the same meanings."""
UNK, FIRST_ID = 3, 4


def read_settings(content: bytes, file) -> tuple[dict[str, Any], dict[str, int]]:
    """Read a ``tokenizer.json`` of any model: its content, and the IDs of all its tokens, added ones included."""
    try:
        settings = json.loads(content)
        vocab = settings["model"]["vocab"]
        is_unigram = settings["model"]["type"] == "Unigram"
        ids = {token: i for i, (token, _) in enumerate(vocab)} if is_unigram else dict(vocab)
        ids |= {token["content"]: token["id"] for token in settings.get("added_tokens") or []}
        " ".join(ids)  # all are text
        json.dumps(settings, ensure_ascii=False).encode()  # an escape can be half a character
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{file} is not a tokenizer.json") from None
    if any(type(i) is not int for i in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise ValueError(f"the token IDs of {file} must be 0 to V - 1, each once")
    return settings, ids


def order_tokens(ids: Mapping[str, int], file, special: Sequence[str] | None = None) -> list[str]:
    """The tokens in the order of fairseq's dictionary.

    Args:
        ids: as from ``read_settings``.
        special: the tokens for ``SYMBOLS``; None for those named like fairseq's or BERT's.
    """
    special = special or (SYMBOLS if SYMBOLS[0] in ids else BERT_SYMBOLS)
    if missing := [token for token in special if token not in ids]:
        names = " or ".join(", ".join(each) for each in (SYMBOLS, BERT_SYMBOLS))
        raise ValueError(f"{file} must have the special tokens {names}, but has no {missing[0]}")
    others = [token for token in sorted(ids, key=ids.__getitem__) if token not in special]
    for token in others:
        if token in SYMBOLS or token.split() != [token]:
            raise ValueError(
                f"tokens of {file} must have no white space, and not be {', '.join(SYMBOLS)}, got {token!r}"
            )
    return [*special[:-1], *others, special[-1]]


def rewrite(settings: dict[str, Any], tokens: Sequence[str], entries: Sequence[str]) -> bytes:
    """Rewrite a ``tokenizer.json`` for a dictionary; one that is rewritten already stays as it is.

    Args:
        settings: as from ``read_settings``.
        tokens: its tokens in the order of the dictionary.
        entries: (V,) their names there, from <s> to <mask>.
    """
    ids = {name: i for i, name in enumerate(entries)}
    model = dict(settings["model"])
    scores = dict(model["vocab"])
    added = {token["content"]: token for token in settings.get("added_tokens") or []}
    size = len(tokens)
    if tokens[-2] in added and tokens[-2] not in scores:  # the model's own come before added ones, and before <mask>
        size = 1 + max(i for i, token in enumerate(tokens[:-1]) if token in scores or token not in added)
    if model["type"] == "Unigram":
        pairs = [[name, scores.get(token, 0.0)] for name, token in zip(entries[:size], tokens)]
        model |= {"unk_id": UNK, "vocab": pairs}
    else:
        if model.get("dropout") is not None:  # of BPE, which would make the IDs random
            model["dropout"] = None
        if model.get("unk_token") is not None:
            model["unk_token"] = SYMBOLS[UNK]
        model["vocab"] = dict(zip(entries[:size], range(size)))
    names = dict(zip(tokens, entries))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    symbols = [
        # <mask> of some tokenizers includes the space before it.
        {"id": ids[name], "content": name, **flags, "lstrip": added.get(token, flags).get("lstrip", False)}
        for token, name in names.items()
        if name in SYMBOLS
    ]
    # Other special tokens are found in text, as by the encoder; names of fairseq's symbols are not.
    others = [
        {**token, "id": ids[content], "special": False}
        for content, token in added.items()
        if names[content] not in SYMBOLS
    ]
    split = settings.get("pre_tokenizer") or {}
    is_byte_level = split.get("type") == "ByteLevel"
    enclose = {  # in <s> a </s>, or <s> a </s> </s> b </s>
        "type": "RobertaProcessing",
        "cls": [SYMBOLS[0], ids[SYMBOLS[0]]],
        "sep": [SYMBOLS[2], ids[SYMBOLS[2]]],
        # As in RoBERTa, the offsets of a word leave out the space before it.
        "trim_offsets": is_byte_level,
        "add_prefix_space": is_byte_level and split["add_prefix_space"],
    }
    changed = {
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(symbols + others, key=lambda token: token["id"]),
        "post_processor": enclose,
        "model": model,
    }
    return json.dumps({**settings, **changed}, ensure_ascii=False).encode()
