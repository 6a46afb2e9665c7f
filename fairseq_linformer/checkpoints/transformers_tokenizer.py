"""The tokenizer of a checkpoint for ``transformers``."""

from pathlib import Path
from typing import Any

from ..data.tokenizer import load_tokenizer
from ..data.tokenizer_files import DICTIONARY, FILES_TEXT, FLAGS_TEXT, TokenizerFiles, find_tokenizer_files
from ..data.tokenizer_json import SYMBOLS
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
        The tokenizer for ``transformers``, and its files by name. It is a fast one
        unless the dictionary has other tokens than the tokenizer; ``why_slow`` of the slow one is the reason.

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
        fast = tokenizer.to_fast()
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
