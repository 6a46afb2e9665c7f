"""Tokenizer and label files of a checkpoint, and the ``transformers`` tokenizer built from them."""

import os
from pathlib import Path

from ..corpus.tokenizer import GPT2_FILES, SENTENCEPIECE_FILE, find_tokenizer_files
from ..huggingface.tokenization_linformer import FIRST_SYMBOLS, LinformerTokenizer, read_dictionary

DICTIONARY = "dict.txt"


def find_tokenizer(
    checkpoint, max_positions: int, dictionary=None, sentencepiece=None, gpt2_encoder=None, gpt2_vocab=None
) -> LinformerTokenizer:
    """Load the tokenizer of a checkpoint; files that are not passed are looked up next to the checkpoint.

    Args:
        checkpoint: path of the checkpoint.
        max_positions: n.
        dictionary: fairseq's ``dict.txt``.
        sentencepiece: sentencepiece model; by default ``sentencepiece.bpe.model`` if there is one.
        gpt2_encoder, gpt2_vocab: GPT-2's ``encoder.json`` and ``vocab.bpe``, instead of ``sentencepiece``.

    Raises:
        ValueError: a file is missing or invalid.
    """
    folder = Path(checkpoint).parent
    if dictionary is None:
        dictionary = folder / DICTIONARY
        if not dictionary.is_file():
            raise ValueError(f"there is no {DICTIONARY} next to {checkpoint}; pass one with --dictionary")
    if (gpt2_encoder is None) != (gpt2_vocab is None):
        raise ValueError("GPT-2's BPE needs both gpt2_encoder and gpt2_vocab")
    if sentencepiece is not None and gpt2_encoder is not None:
        raise ValueError("sentencepiece and gpt2_encoder cannot be used together")
    if sentencepiece is None and gpt2_encoder is None:
        found = find_tokenizer_files(folder)
        sentencepiece = found.get("sentencepiece")
        if "gpt2" in found:
            gpt2_encoder, gpt2_vocab = (folder / name for name in GPT2_FILES)
        if not found:
            raise ValueError(
                f"there is no {SENTENCEPIECE_FILE} next to {checkpoint}; pass --sentencepiece-model or --gpt2-bpe, or "
                "--no-tokenizer to export none"
            )
    for path in (dictionary, sentencepiece, gpt2_encoder, gpt2_vocab):
        if path is not None and not os.path.isfile(path):
            raise ValueError(f"{path} is not a file; expected a tokenizer file")
    return LinformerTokenizer(
        str(dictionary),
        sentencepiece and str(sentencepiece),
        gpt2_encoder and str(gpt2_encoder),
        gpt2_vocab and str(gpt2_vocab),
        model_max_length=max_positions,
    )


def check_size(dictionary, vocab_size: int) -> None:
    """Raise ValueError unless the dictionary has as many entries as the embeddings."""
    entries = max(read_dictionary(dictionary).values()) + 1
    if entries != vocab_size:
        raise ValueError(
            f"{dictionary} must have {vocab_size} entries, special symbols included, one per embedding of the model, "
            f"got {entries}"
        )


def read_labels(path, classes: int) -> list[str]:
    """Read the names of ``classes`` classes from fairseq's ``dict.txt`` of labels.

    Raises:
        ValueError: the file is not a dictionary, or has fewer labels.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a file; expected a dict.txt of labels")
    numbers = read_dictionary(path)
    names = {number - len(FIRST_SYMBOLS): label for label, number in numbers.items()}
    # The last entry is <mask>. fairseq-preprocess may have padded the dictionary to a multiple of 8.
    known = len(numbers) - len(FIRST_SYMBOLS) - 1
    if known < classes:
        raise ValueError(f"{path} must name the {classes} classes of the head, got {known} labels")
    return [names[i] for i in range(classes)]


def write_label_dictionary(path, labels: list[str]) -> None:
    """Write fairseq's ``dict.txt`` of labels."""
    for label in labels:
        if not label.strip() or "\n" in label or labels.count(label) > 1:
            raise ValueError(f"labels must be distinct, not empty, and on one line each, got {label!r}")
    path.parent.mkdir()
    path.write_text("".join(f"{label} 1\n" for label in labels), encoding="utf-8")
