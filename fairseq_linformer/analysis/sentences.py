"""A stream of sentences of n tokens from text, in constant memory.

Figure 1 of the paper uses n = 512 tokens of WikiText-103 (masked language modeling) and of IMDB (classification). The
paper does not say what it did with shorter texts. Here, without masking any token:

    packed    for language modeling: paragraphs, each followed by </s>, are concatenated and split every n - 1 tokens,
              and <s> is prepended, as in fairseq's masked_lm. Every sentence has n tokens.
    lines     for classification: each line, or row of JSON lines or parquet, is one sentence, <s> text </s>. A longer
              one is truncated to n and keeps its </s>; a shorter one is counted, and skipped or padded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from ..data.documents import read_documents, split_paragraphs
from ..data.manifest import describe_source
from ..data.sources import Source, locate_source, parse_source

BREAK_MODES = ("packed", "lines")
SHORT = ("skip", "pad")
_TOKENIZER_BATCH = 256


@dataclass
class Counts:
    """Counts of what was read so far.

    Attributes:
        texts: paragraphs, lines or rows.
        cut: texts truncated to n (``lines`` only).
        short: sentences shorter than n, skipped or padded.
        sentences: sentences produced.
    """

    texts: int = 0
    cut: int = 0
    short: int = 0
    sentences: int = 0


def _base_name(source: Source) -> str:
    return source.location.rstrip("/").rsplit("/", 1)[-1]


class Sentences:
    """Sentences of at most n tokens, in the order of the text; each iteration starts over.

    Args:
        sources: as for ``prepare pretraining --source``: a file, folder, pattern or ``hub:NAME``, with options.
        tokenizer: a ``transformers`` tokenizer.
        n: tokens per sentence, including special symbols.
        break_mode: ``packed`` or ``lines``, see above.
        short: ``skip`` sentences shorter than n, or yield them for the caller to ``pad``.
        bos, eos: token IDs of <s> and </s>; None if the model has none.

    Attributes:
        counts: of the current iteration.

    Raises:
        ValueError: an option is unknown, n is below 3, or a source is missing or empty.
    """

    def __init__(
        self,
        sources: Sequence[str],
        tokenizer,
        n: int,
        break_mode: str = "packed",
        short: str = "skip",
        bos: int | None = None,
        eos: int | None = None,
    ):
        for name, value, allowed in (("break_mode", break_mode, BREAK_MODES), ("short", short, SHORT)):
            if value not in allowed:
                raise ValueError(f"unknown {name} {value!r}; choose from {', '.join(allowed)}")
        if n < 3:
            raise ValueError(f"n must be at least 3 (<s>, a token, </s>), got {n}")
        self.sources = [locate_source(parse_source(source)) for source in sources]
        self.tokenizer, self.n, self.break_mode, self.short = tokenizer, n, break_mode, short
        self._bos, self._eos = ([] if token is None else [token] for token in (bos, eos))
        self.counts = Counts()

    @property
    def short_name(self) -> str:
        """Names of the sources without their folders, for figures."""
        return ", ".join(map(_base_name, self.sources))

    def identity(self) -> list[dict[str, object]]:
        """JSON that identifies the text: options, SHA-256 of each file, and names without folders (full names on the
        hub)."""
        return [
            {
                **{key: value for key, value in described.items() if key != "files"},
                "location": _base_name(source) if source.files else source.location,
                "sha256": [file["sha256"] for file in described["files"]],
            }
            for source, described in zip(self.sources, map(describe_source, self.sources))
        ]

    def __iter__(self) -> Iterator[list[int]]:
        self.counts = Counts()
        for sentence in self._packed() if self.break_mode == "packed" else self._lines():
            if len(sentence) < self.n:
                self.counts.short += 1
                if self.short == "skip":
                    continue
            self.counts.sentences += 1
            yield sentence

    def _packed(self) -> Iterator[list[int]]:
        length, buffer = self.n - len(self._bos), []
        for ids in self._token_ids():
            buffer += ids + self._eos
            start = 0
            while len(buffer) - start >= length:
                yield self._bos + buffer[start : start + length]
                start += length
            buffer = buffer[start:]
        if buffer:
            yield self._bos + buffer

    def _lines(self) -> Iterator[list[int]]:
        length = self.n - len(self._bos) - len(self._eos)
        for ids in self._token_ids():
            self.counts.cut += len(ids) > length
            yield self._bos + ids[:length] + self._eos

    def _token_ids(self) -> Iterator[list[int]]:
        """Token IDs of each text, without special symbols. Fast tokenizers are faster on batches."""
        texts = self._texts()
        while batch := list(islice(texts, _TOKENIZER_BATCH)):
            for ids in self.tokenizer(batch, add_special_tokens=False)["input_ids"]:
                self.counts.texts += 1
                yield list(ids)

    def _texts(self) -> Iterator[str]:
        # Each file for itself, because a folder may have text and rows.
        parts = [[s] if s.hub else [replace(s, files=(file,)) for file in s.files] for s in self.sources]
        for part in chain.from_iterable(parts):
            for document in read_documents(part, streaming=True):
                lines = split_paragraphs(document)
                if part.has_rows and self.break_mode == "lines":
                    lines = [" ".join(lines)] if lines else []
                yield from lines
