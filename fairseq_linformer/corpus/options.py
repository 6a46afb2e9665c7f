"""What a corpus for pretraining depends on."""

import shlex
from dataclasses import dataclass, fields
from typing import Any, Dict, Optional, Tuple

MAX_SKIPPED = 0.01
"""Share that may be skipped unless another is given, of documents here and of the rows of a task."""
LATE = ("valid_share", "shards", "max_skipped")
"""Options that come to bear when all is tokenised; until it is put together they can be changed."""


@dataclass(frozen=True)
class Options:
    """What is made. Another ``chunk_mib`` or ``max_skipped``, or another path of the same tokenizer, gives the same bytes; all else
    may change them.

    Raises:
        ValueError: a value that cannot be; a sentence.
    """

    sources: Tuple[str, ...]
    """As sources.py has them, in order."""
    gpt2: Optional[str] = None
    """Folder of GPT-2's files and RoBERTa's dictionary. One of this and the next must be given."""
    sentencepiece: Optional[str] = None
    """Path of a model."""
    valid_share: float = 0.005
    """Of the documents, for validation, as their hashes have it; above 0 and below 1."""
    shards: int = 1
    """Folders that train is dealt out to, from 1 to 1,000."""
    unique_paragraphs: bool = False
    """Drop paragraphs that came before, in any document."""
    chunk_mib: float = 16
    """MiB of a file that a process takes at once, and that are lost when it is killed. A compressed file and JSON lines
    whose rows are joined are taken as a whole, parquet by row groups (as a whole if joined), the hub by its shards."""
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
        """By what a run that goes on is known: of the tokenizer its kind, since one path can be written in many ways."""
        names = [f.name for f in fields(self) if f.name not in ("gpt2", "sentencepiece")]
        return {name: getattr(self, name) for name in (*names, "tokenizer")}

    def command(self, out) -> str:
        """The command line that does it."""
        words = ["fairseq-linformer", "prepare", "pretraining", str(out)]
        for source in self.sources:
            words += ["--source", source]
        words += [f"--{self.tokenizer}", str(getattr(self, self.tokenizer))]
        for name in ("valid_share", "shards", "chunk_mib", "max_skipped"):
            words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        return shlex.join(words + ["--unique-paragraphs"] * self.unique_paragraphs)


def check_max_skipped(share: float) -> None:
    """Refuse a share that is none, or that would let everything be skipped.

    Raises:
        ValueError: with a sentence.
    """
    if not 0 <= share < 1:
        raise ValueError(f"max_skipped is {share}; it must be at least 0 and below 1")
