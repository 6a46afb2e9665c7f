"""Text to sentences of n tokens, as a stream: what has been read is not kept.

The paper's Figure 1 has sentences of n = 512 tokens of a masked-language-modelling text (WikiText-103) and of a
classification text (IMDB). It does not say what was done with shorter texts. Here

    packed    (for the first kind) paragraphs follow each other, </s> after each, and are cut every n - 1 tokens, <s>
              before: what fairseq's masked_lm trains on. Every sentence has n tokens.
    lines     (for the second kind) a paragraph, or a row of JSON lines or parquet, is a text: <s> text </s>. A longer
              one is cut to n and keeps its </s>; a shorter one is skipped, or padded, and either way counted.

No token is masked.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from ..corpus.documents import Unfit, documents, lines_as_documents, lines_of
from ..corpus.plan import make_plan, source_of
from ..corpus.sources import parse
from ..files import sha256

CUTS = ("packed", "lines")
SHORT = ("skip", "pad")
_CHUNK = 8 << 20
_LINES = 256


@dataclass
class Counts:
    """What became of the texts so far."""

    texts: int = 0
    """Paragraphs or rows read."""
    unfit: int = 0
    """Documents (with ``lines`` from a text file: lines) that are no text, left out."""
    cut: int = 0
    """Texts longer than n, whose end was left out (``lines`` only)."""
    short: int = 0
    """Sentences shorter than n, skipped or padded."""
    sentences: int = 0
    """Sentences produced."""


def _last_name(source: Dict[str, Any]) -> str:
    return str(source["location"]).rstrip("/").rsplit("/", 1)[-1]


class Sentences:
    """Sentences of at most n tokens, in the order of the text; each iteration starts from the beginning.

    Args:
        sources: as ``prepare pretraining --source`` takes them: a file, a folder, a pattern, ``hub:NAME``, with keys.
        tokenizer: a tokenizer of ``transformers``.
        n: tokens of a sentence, special symbols included.
        cut: ``packed`` or ``lines``, as above.
        short: ``skip`` or ``pad``: what happens to sentences shorter than n. (The caller pads.)
        bos, eos: ids of <s> and </s>; None if the model has none.

    Attributes:
        counts: of the current iteration.

    Raises:
        ValueError: an option is none of these, n leaves no place for text, or a source is missing or empty.
    """

    def __init__(
        self, sources: Sequence[str], tokenizer, n: int, cut: str = "packed", short: str = "skip",
        bos: Optional[int] = None, eos: Optional[int] = None,
    ):  # fmt: skip
        for name, value, allowed in (("cut", cut, CUTS), ("short", short, SHORT)):
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
        if n < 3:
            raise ValueError(f"n is {n}; it must be at least 3: <s>, a token, </s>")
        self.plan = make_plan([parse(source) for source in sources], _CHUNK)
        self.tokenizer, self.n, self.cut, self.short = tokenizer, n, cut, short
        self._first, self._last = ([] if token is None else [token] for token in (bos, eos))
        self.counts = Counts()

    @property
    def short_name(self) -> str:
        """For figures: the last names of the sources."""
        return ", ".join(map(_last_name, self.plan.sources))

    def identity(self) -> List[Dict[str, object]]:
        """JSON that differs between any two texts: settings, the SHA-256 of each file, and names without the folders
        above, which may be written in any way (names on the hub are whole)."""
        return [
            {**{key: value for key, value in source.items() if key != "files"},
             "location": _last_name(source) if source["files"] else str(source["location"]),
             "sha256": [sha256(file["path"]) for file in source["files"]]}
            for source in self.plan.sources
        ]  # fmt: skip

    def left_out(self) -> str:
        """The end of an error message: how many documents are no text, if any."""
        unfit = self.counts.unfit
        return f"; {unfit:,} documents are no text (NUL bytes, not UTF-8, too long) and were left out" if unfit else ""

    def check_apart(self, out) -> None:
        """
        Raises:
            ValueError: ``out`` lies in a folder that is read, and would become a part of the text.
        """
        for source in self.plan.sources:
            folder = Path(str(source["location"]))
            if folder.is_dir() and Path(out).absolute().resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"{out} is in {folder}, the folder of the text; take another folder")

    def __iter__(self) -> Iterator[List[int]]:
        self.counts = Counts()
        for sentence in self._packed() if self.cut == "packed" else self._lines():
            if len(sentence) < self.n:
                self.counts.short += 1
                if self.short == "skip":
                    continue
            self.counts.sentences += 1
            yield sentence

    def _packed(self) -> Iterator[List[int]]:
        room, buffer = self.n - len(self._first), []
        for ids in self._encoded():
            buffer += ids + self._last
            begin = 0
            while len(buffer) - begin >= room:
                yield self._first + buffer[begin : begin + room]
                begin += room
            buffer = buffer[begin:]
        if buffer:
            yield self._first + buffer

    def _lines(self) -> Iterator[List[int]]:
        room = self.n - len(self._first) - len(self._last)
        for ids in self._encoded():
            self.counts.cut += len(ids) > room
            yield self._first + ids[:room] + self._last

    def _encoded(self) -> Iterator[List[int]]:
        """The tokens of each text, encoded in small groups, which is faster with a fast tokenizer."""
        texts = self._texts()
        while group := list(islice(texts, _LINES)):
            for ids in self.tokenizer(group, add_special_tokens=False)["input_ids"]:
                self.counts.texts += 1
                yield list(ids)

    def _texts(self) -> Iterator[str]:
        for chunk in self.plan.chunks:
            by_line = chunk.format == "text" and self.cut == "lines"
            source = source_of(self.plan.sources[chunk.source])
            for raw in lines_as_documents(chunk) if by_line else documents(chunk, source):
                try:
                    lines = lines_of(raw)
                except Unfit:
                    self.counts.unfit += 1
                    continue
                yield from lines if chunk.format == "text" or self.cut == "packed" else [" ".join(lines)]
