"""The files of a tokenizer, next to data and checkpoints, and its option on the command line."""

from dataclasses import dataclass
from pathlib import Path

DICTIONARY = "dict.txt"
GPT2_FILES = ("encoder.json", "vocab.bpe")
SENTENCEPIECE_FILE = "sentencepiece.bpe.model"
TOKENIZER_JSON = "tokenizer.json"
"""File names of fairseq, and the last one of ``transformers``."""
TOKENIZER_FILES = (SENTENCEPIECE_FILE, *GPT2_FILES, TOKENIZER_JSON)
TOKENIZER_FLAGS = {"gpt2": "--gpt2-bpe", "sentencepiece": "--sentencepiece-model", "tokenizer_json": "--tokenizer-json"}
"""The option of each kind of tokenizer."""
FLAGS_TEXT = "--gpt2-bpe, --sentencepiece-model or --tokenizer-json"
FILES_TEXT = f"{SENTENCEPIECE_FILE}, {TOKENIZER_JSON}, or {' with '.join(GPT2_FILES)}"


@dataclass(frozen=True)
class TokenizerFiles:
    """Kind and path of a tokenizer.

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


def choose_tokenizer(gpt2=None, sentencepiece=None, tokenizer_json=None) -> TokenizerFiles | None:
    """The tokenizer whose path is set; None if no path is."""
    paths = {"gpt2": gpt2, "sentencepiece": sentencepiece, "tokenizer_json": tokenizer_json}
    return next((TokenizerFiles(kind, Path(path)) for kind, path in paths.items() if path is not None), None)


def find_tokenizer_files(folder) -> TokenizerFiles | None:
    """The tokenizer in a folder; None if there is none."""
    folder = Path(folder)
    for files in (
        TokenizerFiles("sentencepiece", folder / SENTENCEPIECE_FILE),
        TokenizerFiles("gpt2", folder),
        TokenizerFiles("tokenizer_json", folder / TOKENIZER_JSON),
    ):
        if all(path.is_file() for path in files.paths):
            return files
    return None
