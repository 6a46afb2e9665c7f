"""The files of a tokenizer, next to data and checkpoints, or those of ``--tokenizer``."""

from dataclasses import dataclass
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


@dataclass(frozen=True)
class TokenizerFiles:
    """The files of a tokenizer: its kind and path.

    Attributes:
        kind: ``gpt2``, ``sentencepiece`` or ``tokenizer_json``.
        path: folder of ``GPT2_FILES``, SentencePiece model, or ``tokenizer.json``.
    """

    kind: str
    path: Path

    @property
    def paths(self) -> list[Path]:
        """Paths of its files."""
        return [self.path / name for name in GPT2_FILES] if self.kind == "gpt2" else [self.path]


def open_tokenizer_files(path) -> TokenizerFiles:
    """The tokenizer that a user names: a ``tokenizer.json``, a sentencepiece model, or a folder with either or with
    GPT-2's files."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    if not path.is_dir():
        return TokenizerFiles("tokenizer_json" if path.suffix == ".json" else "sentencepiece", path)
    if files := find_tokenizer_files(path):
        return files
    raise ValueError(f"{path} has no tokenizer ({FILES_TEXT})")


def find_tokenizer_files(folder) -> TokenizerFiles | None:
    """The tokenizer in a folder; None if there is none."""
    folder = Path(folder)
    for files in (
        TokenizerFiles("sentencepiece", folder / SENTENCEPIECE_FILE),
        TokenizerFiles("gpt2", folder),
        TokenizerFiles("tokenizer_json", folder / TOKENIZER_JSON),
        TokenizerFiles("sentencepiece", folder / TRAINED_MODEL),
    ):
        if all(path.is_file() for path in files.paths):
            return files
    return None
