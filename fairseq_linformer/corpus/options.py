"""The options that a corpus for pretraining depends on."""

import shlex
from dataclasses import dataclass, fields
from typing import Any, Dict, Optional, Tuple

MAX_SKIPPED = 0.01
"""Default share that may be skipped, of documents here and of the rows of a task."""
LATE = ("valid_share", "shards", "max_skipped")
"""Options that take effect after tokenising; they can be changed until the chunks are put together."""


@dataclass(frozen=True)
class Options:
    """The bytes of a corpus depend on all of these except ``chunk_mib``, ``max_skipped`` and the path of the tokenizer.

    Raises:
        ValueError: a value is out of range.
    """

    sources: Tuple[str, ...]
    """As sources.py has them, in order."""
    gpt2: Optional[str] = None
    """Folder of GPT-2's files and RoBERTa's dictionary. Exactly one of this and the next is required."""
    sentencepiece: Optional[str] = None
    """Path of a model."""
    valid_share: float = 0.005
    """Of the documents, for validation, chosen by their hashes; above 0 and below 1."""
    shards: int = 1
    """Folders that train is dealt out to, from 1 to 1,000."""
    unique_paragraphs: bool = False
    """Drop paragraphs that came before, in any document."""
    chunk_mib: float = 16
    """MiB of a file that a process reads at once, and that are lost when it is killed. A compressed file and JSON lines
    whose rows are joined are read as a whole, parquet by row groups (as a whole if joined), the hub by its shards."""
    max_skipped: float = MAX_SKIPPED
    """Share of the documents that may be skipped because they are no text; at least 0 and below 1."""

    def __post_init__(self):
        if not self.sources:
            raise ValueError("there is no source; give --source, for instance wikipedia or a file")
        if (self.gpt2 is None) == (self.sentencepiece is None):
            raise ValueError("there must be one tokenizer; give --gpt2 FOLDER or --sentencepiece MODEL")
        if not 0 < self.valid_share < 1:
            raise ValueError(f"valid_share is {self.valid_share}; it must be above 0 and below 1")
        if not 1 <= self.shards <= 1000:
            raise ValueError(f"shards is {self.shards}; it must be from 1 to 1,000")
        if not 0 < self.chunk_mib <= 1 << 20:
            raise ValueError(f"chunk_mib is {self.chunk_mib}; it must be above 0 and at most 1,048,576")
        check_max_skipped(self.max_skipped)

    @property
    def tokenizer(self) -> str:
        """Its kind."""
        return "gpt2" if self.gpt2 is not None else "sentencepiece"

    def compared(self) -> Dict[str, Any]:
        """What must not change when a run resumes; of the tokenizer only its kind, since a path has many spellings."""
        names = [f.name for f in fields(self) if f.name not in ("gpt2", "sentencepiece")]
        return {name: getattr(self, name) for name in (*names, "tokenizer")}

    def command(self, out) -> str:
        """The command line with these options."""
        words = ["fairseq-linformer", "prepare", "pretraining", str(out)]
        for source in self.sources:
            words += ["--source", source]
        for name in (self.tokenizer, "valid_share", "shards", "chunk_mib", "max_skipped"):
            words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        return shlex.join(words + ["--unique-paragraphs"] * self.unique_paragraphs)


def check_max_skipped(share: float) -> None:
    """Raise ValueError if a share is none, or would let everything be skipped."""
    if not 0 <= share < 1:
        raise ValueError(f"max_skipped is {share}; it must be at least 0 and below 1")
