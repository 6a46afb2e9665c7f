"""The files of a tokenizer, next to data and checkpoints, or those of ``--tokenizer``."""

from pathlib import Path

DICTIONARY = "dict.txt"
GPT2_FILES = ("encoder.json", "vocab.bpe")
SENTENCEPIECE_FILE = "sentencepiece.bpe.model"
TOKENIZER_JSON = "tokenizer.json"
"""File names of fairseq, and the last one of ``transformers``."""
TOKENIZER_FILES = (SENTENCEPIECE_FILE, *GPT2_FILES, TOKENIZER_JSON)
TRAINED_MODEL = "spm.model"
"""A model that ``prepare sentencepiece`` trained."""
FILES_TEXT = f"{TRAINED_MODEL}, {SENTENCEPIECE_FILE}, {TOKENIZER_JSON}, or {' with '.join(GPT2_FILES)}"


def list_tokenizer_files(tokenizer: Path) -> list[Path]:
    """The files of a tokenizer, whose path is a SentencePiece model, a ``tokenizer.json``, or a folder of
    ``GPT2_FILES``."""
    return [tokenizer / name for name in GPT2_FILES] if tokenizer.is_dir() else [tokenizer]


def find_tokenizer_files(folder: Path) -> Path | None:
    """The path of the tokenizer in a folder; None if there is none."""
    for path in (folder / SENTENCEPIECE_FILE, folder, folder / TOKENIZER_JSON, folder / TRAINED_MODEL):
        if all(map(Path.is_file, list_tokenizer_files(path))):
            return path
    return None
