"""The tokenizer of a checkpoint for ``transformers``."""

import os
from pathlib import Path
from typing import Any

from ..data.tokenizer import WordPiece
from ..data.tokenizer_files import DICTIONARY, FILES_TEXT, FLAGS_TEXT, TokenizerFiles, find_tokenizer_files
from ..huggingface.tokenization_linformer import FIRST_SYMBOLS, MASK, LinformerTokenizer
from .fast_tokenizer import build_fast_tokenizer


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
        The tokenizer for ``transformers``, and its files by name; ``vocab_file`` is the dictionary. It is the fast one
        wherever that has the same token IDs; otherwise ``why_slow`` of the slow one is the reason.

    Raises:
        ValueError: a file is missing or invalid.
    """
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
    for path in (dictionary, *files.paths):
        if not os.path.isfile(path):
            raise ValueError(f"{path} is not a file; expected a tokenizer file")
    if files.kind == "wordpiece":
        return _load_wordpiece(files.path, dictionary, max_positions)
    model, *merges = map(str, files.paths)
    parts = {"encoder_file": model, "merges_file": merges[0]} if merges else {"sentencepiece_file": model}
    tokenizer = LinformerTokenizer(str(dictionary), **parts, model_max_length=max_positions)
    files_by_name = {name: Path(path) for name, path in tokenizer.files.items()}
    try:
        return build_fast_tokenizer(tokenizer), files_by_name
    except ValueError as error:
        tokenizer.why_slow = str(error)
        return tokenizer, files_by_name


def _load_wordpiece(path: Path, dictionary, max_positions: int) -> tuple[Any, dict[str, Path]]:
    """Load the fast tokenizer of ``transformers`` with the token IDs of the dictionary, and its files."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    (content,) = WordPiece(path, dictionary).model_files.values()
    bos, pad, eos, unk = FIRST_SYMBOLS
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(content.decode()),
        **dict(bos_token=bos, cls_token=bos, pad_token=pad, eos_token=eos, sep_token=eos, unk_token=unk),
        mask_token=MASK,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=max_positions,
    )
    return tokenizer, {"vocab_file": Path(dictionary), "wordpiece_file": path}
