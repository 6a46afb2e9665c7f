"""A stream of sentences of n tokens from text, in constant memory.

Figure 1 of the paper uses n = 512 tokens of WikiText-103 (masked language modeling) and of IMDB (classification). The
paper does not say what it did with shorter texts. Here, without masking any token, with fairseq's names:

    none    for language modeling: paragraphs, each followed by </s>, are concatenated and split every n - 1 tokens,
            and <s> is prepended, as in fairseq's masked_lm. Every sentence has n tokens.
    eos     for classification: each line, or row of JSON lines or parquet, is one sentence, <s> text </s>. A longer
            one is truncated to n and keeps its </s>; a shorter one is skipped and counted.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from ..data.documents import read_documents, split_paragraphs
from ..data.sources import locate_source, parse_source
from .attention_model import AttentionModel

_TOKENIZER_BATCH = 256


class Sentences:
    """Sentences of n tokens, in the order of the text; each iteration starts over.

    Args:
        source: as for ``prepare pretraining --source``: a file, folder, pattern or ``hub:NAME``, with options.
        model: its tokenizer and special symbols are used.
        n: tokens per sentence, including special symbols.
        break_mode: ``none`` or ``eos``; None for ``eos`` if the source has rows, otherwise ``none``.

    Attributes:
        name: of the source without its folder, for figures.
        truncated, skipped: number of texts, in the current iteration, that were longer or shorter than n.
    """

    def __init__(self, source: str, model: AttentionModel, n: int, break_mode: str | None = None):
        self.source = locate_source(parse_source(source))
        self.name = self.source.location.rstrip("/").rsplit("/", 1)[-1]
        self.tokenizer, self.n = model.tokenizer, n
        self.break_mode = break_mode or ("eos" if self.source.has_rows else "none")
        self._bos = self._first_token("cls_token_id", "bos_token_id")
        self._eos = self._first_token("sep_token_id", "eos_token_id")
        self.truncated = self.skipped = 0

    def __iter__(self) -> Iterator[list[int]]:
        self.truncated = self.skipped = 0
        for sentence in self._packed() if self.break_mode == "none" else self._lines():
            if len(sentence) < self.n:
                self.skipped += 1
            else:
                yield sentence

    def _first_token(self, *names: str) -> list[int]:
        """The first of these special tokens that the tokenizer has; empty if it has none."""
        return [token for name in names if (token := getattr(self.tokenizer, name)) is not None][:1]

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
            self.truncated += len(ids) > length
            yield self._bos + ids[:length] + self._eos

    def _token_ids(self) -> Iterator[list[int]]:
        """Token IDs of each text, without special symbols. Fast tokenizers are faster on batches."""
        texts = self._texts()
        while batch := list(islice(texts, _TOKENIZER_BATCH)):
            yield from map(list, self.tokenizer(batch, add_special_tokens=False)["input_ids"])

    def _texts(self) -> Iterator[str]:
        files = [replace(self.source, files=(file,)) for file in self.source.files]
        for part in [self.source] if self.source.hub else files:  # a folder may have both text and rows
            for document in read_documents(part, streaming=True):
                lines = split_paragraphs(document)
                if part.has_rows and self.break_mode == "eos":
                    lines = [" ".join(lines)] if lines else []
                yield from lines
