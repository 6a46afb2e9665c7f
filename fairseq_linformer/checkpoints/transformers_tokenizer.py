"""The tokenizer of a checkpoint for ``transformers``."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from ..data.sentencepiece_model import list_pieces
from ..data.tokenizer import GPT2, SentencePiece, Tokenizer, entry_names, load_tokenizer
from ..data.tokenizer_files import (
    DICTIONARY,
    FILES_TEXT,
    FLAGS_TEXT,
    SENTENCEPIECE_FILE,
    TOKENIZER_JSON,
    TokenizerFiles,
    find_tokenizer_files,
)
from ..data.tokenizer_json import FIRST_ID, SYMBOLS, rewrite
from ..huggingface.tokenization_linformer import LinformerTokenizer


def find_tokenizer(
    checkpoint, max_positions: int, dictionary=None, files: TokenizerFiles | None = None
) -> tuple[Any, dict[str, Path]]:
    """Load the tokenizer of a checkpoint; files that are not passed are looked up next to the checkpoint.

    Args:
        checkpoint: path of the checkpoint.
        max_positions: n.
        dictionary: fairseq's ``dict.txt``.
        files: kind and path of the tokenizer.

    Returns:
        The tokenizer for ``transformers``, and its files by name. It is a fast one wherever that has the same token
        IDs; otherwise ``why_slow`` of the slow one is the reason.

    Raises:
        ValueError: a file is missing or invalid.
    """
    from transformers import PreTrainedTokenizerFast

    folder = Path(checkpoint).parent
    if dictionary is None:
        dictionary = folder / DICTIONARY
        if not dictionary.is_file():
            raise ValueError(f"there is no {DICTIONARY} next to {checkpoint}; pass one with --dictionary")
    files = files or find_tokenizer_files(folder)
    if files is None:
        raise ValueError(
            f"there is no tokenizer ({FILES_TEXT}) next to {checkpoint}; pass {FLAGS_TEXT}, or --no-tokenizer"
        )
    tokenizer = load_tokenizer(files, dictionary)
    paths = {DICTIONARY: Path(dictionary), **dict(zip(tokenizer.model_files, files.paths))}
    try:
        fast = build_fast(tokenizer)
    except ValueError as error:
        arguments = LinformerTokenizer.vocab_files_names.items()
        slow = LinformerTokenizer(
            **{argument: str(paths[name]) for argument, name in arguments if name in paths},
            model_max_length=max_positions,
        )
        slow.why_slow = str(error)
        return slow, paths
    bos, pad, eos, unk, mask = SYMBOLS
    return PreTrainedTokenizerFast(
        tokenizer_object=fast,
        **dict(bos_token=bos, cls_token=bos, pad_token=pad, eos_token=eos, sep_token=eos, unk_token=unk),
        mask_token=mask,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=max_positions,
        clean_up_tokenization_spaces=False,
    ), paths


def build_fast(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """The tokenizer of ``tokenizers`` with the IDs of the dictionary; it encloses text in <s> and </s>, as fairseq.

    Raises:
        ValueError: there is none; the message is the reason.
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
    return _add_dictionary(fast, [pieces.get(name, name) for name in entry_names(gpt2.dictionary)], gpt2.pieces)


def _build_sentencepiece(tokenizer: SentencePiece) -> tokenizers.Tokenizer:
    from sentencepiece import sentencepiece_model_pb2
    from transformers.convert_slow_tokenizer import SpmConverter

    content = tokenizer.model_files[SENTENCEPIECE_FILE]
    proto = sentencepiece_model_pb2.ModelProto.FromString(content)
    spec = proto.trainer_spec
    if spec.model_type != spec.BPE or spec.treat_whitespace_as_suffix:
        # Of a unigram model, tokenizers breaks ties of scores in another order.
        raise ValueError("the sentencepiece model is not a BPE with the space before a word")
    fast = SpmConverter.build_tokenizer_from_spm_proto(proto, {piece.piece: i for i, piece in enumerate(proto.pieces)})
    pieces, entries = list_pieces(content), entry_names(tokenizer.dictionary)
    if extra := sorted(set(entries) - set(pieces)):
        raise ValueError(f"the dictionary has {len(extra):,} tokens that the model lacks, such as {extra[0]!r}")
    return _add_dictionary(fast, entries, pieces)


def _add_dictionary(
    fast: tokenizers.Tokenizer, entries: Sequence[str], needed: Collection[str]
) -> tokenizers.Tokenizer:
    """The tokenizer with the IDs of a dictionary and its special tokens; ValueError if the dictionary lacks a token.

    Args:
        entries: names of ``dict.txt``.
        needed: tokens that text can have.
    """
    if missing := sorted(set(needed) - set(entries)):
        raise ValueError(f"the dictionary lacks {len(missing):,} tokens of the tokenizer, such as {missing[0]!r}")
    # The space before <mask> belongs to the masked word.
    fast.add_special_tokens([tokenizers.AddedToken(SYMBOLS[-1], lstrip=True, normalized=False)])
    names = list(dict.fromkeys([*SYMBOLS[:FIRST_ID], *entries, SYMBOLS[-1]]))
    content = rewrite(json.loads(fast.to_str()), names, names)
    return tokenizers.Tokenizer.from_str(content.decode())
