"""The tokenizer of a checkpoint for ``transformers``, and the vocabulary of one of ``transformers`` for fairseq."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import pre_tokenizers
from torch import Tensor

from ..data.sentencepiece_model import list_pieces
from ..data.tokenizer import GPT2, SentencePiece, Tokenizer, entry_names, load_tokenizer
from ..data.tokenizer_files import (
    DICTIONARY,
    FILES_TEXT,
    SENTENCEPIECE_FILE,
    TOKENIZER_JSON,
    find_tokenizer_files,
    list_tokenizer_files,
)
from ..data.tokenizer_json import FIRST_ID, SYMBOLS, order_tokens, read_settings, rewrite
from ..huggingface.tokenization_linformer import SPECIAL_TOKENS, LinformerByteLevelTokenizer, LinformerTokenizer
from .files import Files
from .transformers_loading import load_from_transformers


def find_tokenizer(
    folder: Path, max_positions: int, dictionary=None, files: Path | None = None
) -> tuple[Any, dict[str, Path]]:
    """Load the tokenizer of a checkpoint; files that are not passed are looked up in ``folder``.

    Args:
        max_positions: n.
        dictionary: fairseq's ``dict.txt``.
        files: path of the tokenizer.

    Returns:
        The tokenizer for ``transformers``, and its files by name. It is a fast one, or ``LinformerTokenizer`` for a
        sentencepiece model of which ``tokenizers`` has other token IDs.
    """
    from transformers import PreTrainedTokenizerFast

    entries = Path(dictionary or folder / DICTIONARY)
    if not entries.is_file():
        where = f"at {dictionary}" if dictionary else f"in {folder}; pass one with --dictionary"
        raise ValueError(f"there is no {DICTIONARY} {where}")
    files = files or find_tokenizer_files(folder)
    if files is None:
        raise ValueError(f"there is no tokenizer ({FILES_TEXT}) in {folder}; pass --tokenizer, or --no-tokenizer")
    tokenizer = load_tokenizer(files, entries)
    paths = {DICTIONARY: entries, **dict(zip(tokenizer.model_files, list_tokenizer_files(files)))}
    fast = build_fast(tokenizer)
    if fast is None:
        model = str(paths[SENTENCEPIECE_FILE])
        return LinformerTokenizer(str(entries), model, model_max_length=max_positions), paths
    is_byte_level = isinstance(fast.pre_tokenizer, pre_tokenizers.ByteLevel) and not fast.pre_tokenizer.add_prefix_space
    return (LinformerByteLevelTokenizer if is_byte_level else PreTrainedTokenizerFast)(
        tokenizer_object=fast,
        **SPECIAL_TOKENS,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=max_positions,
        clean_up_tokenization_spaces=False,
    ), paths


def build_fast(tokenizer: Tokenizer) -> tokenizers.Tokenizer | None:
    """The tokenizer of ``tokenizers`` with the IDs of the dictionary; it encloses text in <s> and </s>, as fairseq.

    None if ``tokenizers`` has other IDs: for unigram models of sentencepiece, of which it breaks ties of scores in
    another order, and for those with the space after a word or a dictionary of other tokens.
    """
    if isinstance(tokenizer, GPT2):
        return _build_byte_level(tokenizer)
    if isinstance(tokenizer, SentencePiece):
        return _build_sentencepiece(tokenizer)
    return tokenizers.Tokenizer.from_str(tokenizer.model_files[TOKENIZER_JSON].decode())


def _build_byte_level(gpt2: GPT2) -> tokenizers.Tokenizer:
    pieces = {str(i): piece for piece, i in gpt2.fast.get_vocab().items()}
    entries = [pieces.get(name, name) for name in entry_names(gpt2.dictionary)]
    if missing := set(pieces.values()) - set(entries):
        raise ValueError(
            f"the dictionary lacks {len(missing):,} tokens of GPT-2's BPE, such as {min(missing)!r}; pass a complete "
            "one with --dictionary, or --no-tokenizer"
        )
    return _add_dictionary(tokenizers.Tokenizer.from_str(gpt2.fast.to_str()), entries)


def _build_sentencepiece(tokenizer: SentencePiece) -> tokenizers.Tokenizer | None:
    from sentencepiece import sentencepiece_model_pb2
    from transformers.convert_slow_tokenizer import SpmConverter

    content = tokenizer.model_files[SENTENCEPIECE_FILE]
    proto = sentencepiece_model_pb2.ModelProto.FromString(content)
    spec, entries = proto.trainer_spec, entry_names(tokenizer.dictionary)
    if spec.model_type != spec.BPE or spec.treat_whitespace_as_suffix or set(entries) != set(list_pieces(content)):
        return None
    fast = SpmConverter.build_tokenizer_from_spm_proto(proto, {piece.piece: i for i, piece in enumerate(proto.pieces)})
    return _add_dictionary(fast, entries)


def _add_dictionary(fast: tokenizers.Tokenizer, entries: Sequence[str]) -> tokenizers.Tokenizer:
    """The tokenizer with the IDs of a dictionary, whose entries include all of its tokens, and special tokens."""
    # The space before <mask> belongs to the masked word.
    fast.add_special_tokens([tokenizers.AddedToken(SYMBOLS[-1], lstrip=True, normalized=False)])
    names = list(dict.fromkeys([*SYMBOLS[:FIRST_ID], *entries, SYMBOLS[-1]]))
    return tokenizers.Tokenizer.from_str(rewrite(json.loads(fast.to_str()), names, names).decode())


def read_vocabulary(name: str, vocab_size: int, lower_case: bool = False) -> tuple[Tensor, Files]:
    """Read the vocabulary of a fast tokenizer, for a model with ``vocab_size`` embeddings.

    Spare embeddings, after those of the tokens, are left out.

    Args:
        lower_case: texts are in lower case before anything else.

    Returns:
        (V,) token IDs of ``transformers`` in the order of fairseq's dictionary: <s>, <pad>, </s>, <unk>, the others,
        <mask>; and ``dict.txt`` and ``tokenizer.json`` in this order.
    """
    from transformers import AutoTokenizer

    tokenizer, label = load_from_transformers(AutoTokenizer, name), f"the tokenizer of {name}"
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(f"{label} must be a fast one, with a tokenizer.json, got {type(tokenizer).__name__}")
    settings, ids = read_settings(backend.to_str().encode(), label)
    if len(ids) > vocab_size:
        raise ValueError(
            f"{label} must have at most one token per embedding of the model ({vocab_size:,}), got {len(ids):,} tokens"
        )
    if spare := vocab_size - len(ids):
        print(f"{name}: {spare:,} embeddings have no token and are left out", file=sys.stderr)
    if lower_case:
        normalizers = [{"type": "Lowercase"}, *filter(None, [settings.get("normalizer")])]
        settings["normalizer"] = {"type": "Sequence", "normalizers": normalizers}
    special = [getattr(tokenizer, f"{kind}_token") for kind in ("cls", "pad", "sep", "unk", "mask")]
    if None in special or len(set(special)) < len(special):
        raise ValueError(f"{label} must have five different tokens for cls, pad, sep, unk and mask")
    encoded = tokenizer("a")["input_ids"]
    if (encoded[0], encoded[-1]) != (tokenizer.cls_token_id, tokenizer.sep_token_id):
        raise ValueError(f"{label} must add {special[0]} before and {special[2]} after a text, as fairseq does")
    tokens = order_tokens(ids, label, special)
    entries = tokens[FIRST_ID:-1]
    return torch.tensor([ids[token] for token in tokens]), {
        DICTIONARY: "".join(f"{entry} 1\n" for entry in entries).encode(),
        TOKENIZER_JSON: rewrite(settings, tokens, [*SYMBOLS[:FIRST_ID], *entries, SYMBOLS[-1]]),
    }
