"""Which files make the tokenizer of a checkpoint, and a tokenizer of ``transformers`` from them."""

import os
from pathlib import Path
from typing import List

from ..corpus.tokenizer import GPT2_FILES, SENTENCEPIECE, tokenizer_beside
from ..huggingface.tokenization_linformer import FIRST_SYMBOLS, LinformerTokenizer, read_dictionary

DICTIONARY = "dict.txt"


def find_tokenizer(
    checkpoint, max_positions: int, dictionary=None, sentencepiece=None, gpt2_encoder=None, gpt2_vocab=None
) -> LinformerTokenizer:
    """The tokenizer of a checkpoint: from the files that are given, else from those beside it.

    Args:
        checkpoint: path of the checkpoint; ``dict.txt``, and ``sentencepiece.bpe.model`` or ``encoder.json`` and
            ``vocab.bpe``, are looked for in its folder.
        max_positions: n.
        dictionary: fairseq's ``dict.txt``.
        sentencepiece: a model of sentencepiece; or
        gpt2_encoder, gpt2_vocab: GPT-2's ``encoder.json`` and ``vocab.bpe``.

    Raises:
        ValueError: a file is missing or is not what it should be.
    """
    beside = Path(checkpoint).parent
    if dictionary is None:
        dictionary = beside / DICTIONARY
        if not dictionary.is_file():
            raise ValueError(f"there is no {DICTIONARY} beside {checkpoint}; give the dictionary with --dictionary")
    if (gpt2_encoder is None) != (gpt2_vocab is None):
        raise ValueError("one of --gpt2-encoder and --gpt2-vocab is given; GPT-2's BPE needs both")
    if sentencepiece is not None and gpt2_encoder is not None:
        raise ValueError("--sentencepiece and --gpt2-encoder are given; a tokenizer has pieces of one kind")
    if sentencepiece is None and gpt2_encoder is None:
        found = tokenizer_beside(beside)
        sentencepiece = found.get("sentencepiece")
        if "gpt2" in found:
            gpt2_encoder, gpt2_vocab = (beside / name for name in GPT2_FILES)
        if not found:
            raise ValueError(
                f"there is no {SENTENCEPIECE} beside {checkpoint}; give --sentencepiece, or --gpt2-encoder and "
                "--gpt2-vocab, or leave the tokenizer out with --no-tokenizer"
            )
    for path in (dictionary, sentencepiece, gpt2_encoder, gpt2_vocab):
        if path is not None and not os.path.isfile(path):
            raise ValueError(f"{path} is not a file; it must be a file of the tokenizer")
    return LinformerTokenizer(
        str(dictionary),
        sentencepiece and str(sentencepiece),
        gpt2_encoder and str(gpt2_encoder),
        gpt2_vocab and str(gpt2_vocab),
        model_max_length=max_positions,
    )


def check_size(dictionary, vocab_size: int) -> None:
    """Refuse a dictionary of another size than the embeddings.

    Raises:
        ValueError: with both numbers.
    """
    entries = max(read_dictionary(dictionary).values()) + 1
    if entries != vocab_size:
        raise ValueError(
            f"{dictionary} gives {entries} entries, fairseq's own symbols included; the model has embeddings for "
            f"{vocab_size}"
        )


def read_labels(path, classes: int) -> List[str]:
    """The names of the classes from the ``dict.txt`` of fairseq's labels.

    Raises:
        ValueError: it is not a dictionary, or names too few.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a file; it must be a dictionary of labels")
    numbers = read_dictionary(path)
    names = {number - len(FIRST_SYMBOLS): label for label, number in numbers.items()}
    # The last one is <mask>. fairseq-preprocess may have filled the dictionary up to a multiple of 8.
    known = len(numbers) - len(FIRST_SYMBOLS) - 1
    if known < classes:
        raise ValueError(f"{path} names {known} labels; the head has {classes} classes")
    return [names[i] for i in range(classes)]


def write_label_dictionary(path, labels: List[str]) -> None:
    """A ``dict.txt`` of fairseq's with these labels."""
    for label in labels:
        if not label.strip() or "\n" in label or labels.count(label) > 1:
            raise ValueError(
                f"the label {label!r} cannot stand in a dictionary of fairseq; labels must differ and be one line each"
            )
    path.parent.mkdir()
    path.write_text("".join(f"{label} 1\n" for label in labels), encoding="utf-8")
