"""The tokenizer of a checkpoint for ``transformers``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

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
from ..data.tokenizer_json import FIRST_ID, SYMBOLS, rewrite
from ..huggingface.tokenization_linformer import LinformerByteLevelTokenizer, LinformerTokenizer


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

    where = f"at {dictionary}"
    if dictionary is None:
        dictionary, where = folder / DICTIONARY, f"in {folder}; pass one with --dictionary"
    if not Path(dictionary).is_file():
        raise ValueError(f"there is no {DICTIONARY} {where}")
    files = files or find_tokenizer_files(folder)
    if files is None:
        raise ValueError(f"there is no tokenizer ({FILES_TEXT}) in {folder}; pass --tokenizer, or --no-tokenizer")
    tokenizer = load_tokenizer(files, dictionary)
    paths = {DICTIONARY: Path(dictionary), **dict(zip(tokenizer.model_files, list_tokenizer_files(files)))}
    fast = build_fast(tokenizer)
    if fast is None:
        model = str(paths[SENTENCEPIECE_FILE])
        return LinformerTokenizer(str(dictionary), model, model_max_length=max_positions), paths
    bos, pad, eos, unk, mask = SYMBOLS
    is_byte_level = isinstance(fast.pre_tokenizer, pre_tokenizers.ByteLevel) and not fast.pre_tokenizer.add_prefix_space
    return (LinformerByteLevelTokenizer if is_byte_level else PreTrainedTokenizerFast)(
        tokenizer_object=fast,
        **dict(bos_token=bos, cls_token=bos, pad_token=pad, eos_token=eos, sep_token=eos, unk_token=unk),
        mask_token=mask,
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
    vocab = {piece: i for i, piece in enumerate(gpt2.pieces)}
    fast = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=gpt2.merges))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    pieces = {str(i): piece for piece, i in vocab.items()}
    entries = [pieces.get(name, name) for name in entry_names(gpt2.dictionary)]
    if missing := set(vocab) - set(entries):
        raise ValueError(
            f"the dictionary lacks {len(missing):,} tokens of GPT-2's BPE, such as {min(missing)!r}; pass a complete "
            "one with --dictionary, or --no-tokenizer"
        )
    return _add_dictionary(fast, entries)


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
