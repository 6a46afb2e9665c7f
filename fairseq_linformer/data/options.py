"""Options of ``prepare pretraining``."""

import shlex
from dataclasses import dataclass, fields
from typing import Any

from .tokenizer_files import TOKENIZER_FLAGS, TokenizerFiles, choose_tokenizer

MAX_SKIPPED = 0.01
"""Default limit on the share of documents, or of rows of a task, that are skipped."""
LATE_OPTIONS = ("valid_share", "shards", "max_skipped")
"""Options applied after tokenization; they may change until the chunks are assembled."""
NO_SOURCE = "at least one --source is required, such as wikipedia or a file"


@dataclass(frozen=True)
class CorpusOptions:
    """Options of a corpus. Its bytes depend on all except ``chunk_mib``, ``max_skipped`` and the tokenizer's path.

    Raises:
        ValueError: a value is out of range.
    """

    sources: tuple[str, ...]
    """In order, as ``sources.py`` describes them."""
    gpt2: str | None = None
    """Folder of GPT-2's BPE files and RoBERTa's dictionary. One of the three tokenizers must be set."""
    sentencepiece: str | None = None
    """Path of a SentencePiece model."""
    tokenizer_json: str | None = None
    """Path of a ``tokenizer.json``."""
    valid_share: float = 0.005
    """Share of the documents for validation, selected by hash; between 0 and 1."""
    shards: int = 1
    """Number of folders for the training data, from 1 to 1,000."""
    unique_paragraphs: bool = False
    """Drop duplicate paragraphs across all documents."""
    chunk_mib: float = 16
    """MiB of a text file per chunk, the work lost if a process is killed. Compressed files and JSON lines with joined
    rows are one chunk each; parquet is split by row groups (unless rows are joined), the hub by shards."""
    max_skipped: float = MAX_SKIPPED
    """Limit on the share of documents that are skipped because they are not valid text; at least 0 and below 1."""

    def __post_init__(self):
        if not self.sources:
            raise ValueError(NO_SOURCE)
        if sum(path is not None for path in (self.gpt2, self.sentencepiece, self.tokenizer_json)) != 1:
            raise ValueError("exactly one of gpt2 (a folder), sentencepiece and tokenizer_json (a file) must be set")
        if not 0 < self.valid_share < 1:
            raise ValueError(f"valid_share must be above 0 and below 1, got {self.valid_share}")
        if not 1 <= self.shards <= 1000:
            raise ValueError(f"shards must be between 1 and 1,000, got {self.shards}")
        if not 0 < self.chunk_mib <= 1 << 20:
            raise ValueError(f"chunk_mib must be above 0 and at most 1,048,576, got {self.chunk_mib}")
        check_max_skipped(self.max_skipped)

    @property
    def tokenizer_files(self) -> TokenizerFiles:
        """Where the tokenizer is."""
        files = choose_tokenizer(self.gpt2, self.sentencepiece, self.tokenizer_json)
        assert files is not None  # checked above
        return files

    def fixed_options(self) -> dict[str, Any]:
        """The options that a resumed run must not change, without the tokenizer's path, which has many spellings."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in TOKENIZER_FLAGS}
        return {**values, "tokenizer": self.tokenizer_files.kind}

    def command(self, out) -> str:
        """The command line with these options."""
        words = ["fairseq-linformer", "prepare", "pretraining", str(out)]
        for source in self.sources:
            words += ["--source", source]
        kind = self.tokenizer_files.kind
        words += [TOKENIZER_FLAGS[kind], str(getattr(self, kind))]
        for name in ("valid_share", "shards", "chunk_mib", "max_skipped"):
            words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        return shlex.join(words + ["--unique-paragraphs"] * self.unique_paragraphs)


def check_max_skipped(share: float) -> None:
    """Raise ValueError unless 0 <= share < 1."""
    if not 0 <= share < 1:
        raise ValueError(f"max_skipped must be at least 0 and below 1, got {share}")
