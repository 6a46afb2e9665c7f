"""What a corpus for pretraining depends on."""

import shlex
from dataclasses import dataclass
from typing import Optional, Tuple


LATE = ("valid_share", "shards")
"""Options that come to bear when all is tokenised; until it is put together they can be changed."""


@dataclass(frozen=True)
class Options:
    """What the result depends on.

    Raises:
        ValueError: a value that cannot be; a sentence.
    """

    sources: Tuple[str, ...]
    """As sources.py has them, in order."""
    gpt2: Optional[str] = None
    """Folder of GPT-2's files and RoBERTa's dictionary; or"""
    sentencepiece: Optional[str] = None
    """a model."""
    valid_share: float = 0.005
    shards: int = 1
    unique_paragraphs: bool = False
    chunk_mib: float = 16
    """MiB of a file that a process takes at once, and that are lost when it is killed."""

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

    def command(self, out) -> str:
        """The command line that does it."""
        words = ["fairseq-linformer", "prepare", "pretraining", str(out)]
        for source in self.sources:
            words += ["--source", source]
        words += ["--gpt2", self.gpt2] if self.gpt2 else ["--sentencepiece", self.sentencepiece]
        words += ["--valid-share", str(self.valid_share), "--shards", str(self.shards), "--chunk-mib", str(self.chunk_mib)]
        return shlex.join(words + ["--unique-paragraphs"] * self.unique_paragraphs)
