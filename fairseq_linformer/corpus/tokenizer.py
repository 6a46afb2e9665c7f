"""Text to the numbers of a fairseq dictionary: GPT-2's BPE as RoBERTa has it, or sentencepiece.

The stock route encodes a line to the names of its tokens (``multiprocessing_bpe_encoder``), and ``fairseq-preprocess``
looks each name up in ``dict.txt`` and appends </s>. Here a table maps the tokenizer's number directly to the
dictionary's; the numbers are the same.
"""

import hashlib
import itertools
import json
from pathlib import Path
from typing import Dict, Iterable, List, Sequence, Tuple

import numpy as np

from . import spm

# fairseq puts <s>, <pad>, </s>, <unk> before the entries of dict.txt, in this order.
EOS, UNKNOWN, FIRST = 2, 3, 4
GPT2_FILES, SENTENCEPIECE = ("encoder.json", "vocab.bpe"), "sentencepiece.bpe.model"
"""File names beside data and checkpoints; the second is fairseq's."""
# GPT-2's own, from its published encoder; contractions, words, numbers, signs, white space.
_GPT2_WORDS = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


class Tokenizer:
    """
    Attributes:
        name: ``gpt2`` or ``sentencepiece``.
        dictionary: the lines of ``dict.txt``.
        files: SHA-256 of each file it was made of, by name.
        beside: content of each file to put beside data and checkpoints so that texts can be encoded there, by name.
        dtype: of a data-bin with this dictionary, as fairseq chooses it.
    """

    name: str

    def __init__(self, dictionary: List[str], files: Dict[str, bytes], table: np.ndarray, beside: Dict[str, bytes]):
        self.dictionary = dictionary
        self.beside = beside
        self.files = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        self.dtype = np.dtype(np.uint16 if FIRST + len(dictionary) < 65500 else np.uint32)
        self._table = table.astype(self.dtype)

    def encode(self, lines: Sequence[str]) -> Tuple[np.ndarray, np.ndarray]:
        """Each line, stripped by the caller, with </s> at its end.

        Returns:
            (tokens,) numbers of the dictionary, line after line; (lines,) the length of each.
        """
        encoded = self._encode(lines)
        sizes = np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded)) + 1
        ends = np.cumsum(sizes)
        ids = np.empty(int(ends[-1]) if len(ends) else 0, dtype=self.dtype)
        inside = np.ones(len(ids), dtype=bool)
        inside[ends - 1] = False
        numbers = np.fromiter(itertools.chain.from_iterable(encoded), dtype=np.int64, count=int(inside.sum()))
        ids[inside] = self._table[numbers]
        ids[ends - 1] = EOS
        return ids, sizes

    def _encode(self, lines: Sequence[str]) -> List[List[int]]:
        """The tokenizer's own numbers."""
        raise NotImplementedError


class GPT2(Tokenizer):
    """GPT-2's BPE with RoBERTa's dictionary, through ``tiktoken``.

    Args:
        folder: holds ``encoder.json``, ``vocab.bpe`` and fairseq's ``dict.txt``.
        dictionary: another ``dict.txt``.

    Raises:
        ValueError: a file is missing, or they do not belong together.
    """

    name = "gpt2"

    def __init__(self, folder, dictionary=None):
        from tiktoken import Encoding

        names = (*GPT2_FILES, "dict.txt")
        paths = {name: Path(folder) / name for name in names}
        paths["dict.txt"] = Path(dictionary or paths["dict.txt"])
        contents = {name: _read(path, f"--gpt2 needs a folder with {', '.join(names)}") for name, path in paths.items()}
        try:
            numbers = json.loads(contents["encoder.json"])
            merges = [tuple(line.split(" ")) for line in contents["vocab.bpe"].decode().split("\n")[1:] if line]
        except ValueError:
            raise ValueError(f"{folder} has an encoder.json or vocab.bpe that cannot be read") from None
        byte = _bytes_of_symbols()
        # tiktoken merges in the order of the numbers, so they must be in the order of the merges.
        expected = [*byte, *("".join(pair) for pair in merges)]
        if not isinstance(numbers, dict) or [numbers.get(token) for token in expected] != list(range(len(expected))):
            raise ValueError(f"{folder} has an encoder.json that is not in the order of its vocab.bpe, as GPT-2's is")
        self._encoding = Encoding(
            "gpt2",
            pat_str=_GPT2_WORDS,
            mergeable_ranks={bytes(byte[symbol] for symbol in token): i for i, token in enumerate(expected)},
            special_tokens={},
        )
        try:
            dictionary = contents["dict.txt"].decode().splitlines()
        except UnicodeDecodeError:
            raise ValueError(f"{folder} has a dict.txt that is not UTF-8; it must be RoBERTa's") from None
        table, known = _table(dictionary, map(str, range(len(expected))))
        if known < 0.9 * len(table):
            share = f"{known:,} of the {len(table):,} numbers of encoder.json"
            raise ValueError(f"{folder} has a dict.txt with {share}; RoBERTa's has all")
        super().__init__(dictionary, contents, table, {name: contents[name] for name in GPT2_FILES})

    def _encode(self, lines):
        # Its encode_ordinary_batch is a thread pool, which costs more than a short line does.
        return [self._encoding.encode_ordinary(line) for line in lines]


class SentencePiece(Tokenizer):
    """A sentencepiece model; its dictionary is ``spm.dictionary``.

    If its normaliser keeps Unicode's other spaces (``identity``), pieces hold them, and the stock route splits there
    once more; here they stay pieces.

    Args:
        model: path of the model.
        dictionary: a ``dict.txt``, where it is not that of ``spm.dictionary``.

    Raises:
        ValueError: a file is missing, or they do not belong together.
    """

    name = "sentencepiece"

    def __init__(self, model, dictionary=None):
        content = _read(Path(model), "--sentencepiece needs a model file")
        try:
            self._processor = spm.load(content)
        except ValueError:
            raise ValueError(f"{model} is no sentencepiece model") from None
        if dictionary is None:
            lines = spm.entries(spm.dictionary(content))
        else:
            lines = _read(Path(dictionary), "the model needs its dictionary").decode().splitlines()
        count = self._processor.get_piece_size()
        table, known = _table(lines, map(self._processor.id_to_piece, range(count)))
        if known < 0.9 * (count - 3):
            share = f"{known:,} of the {count:,} pieces of {model}"
            raise ValueError(f"{dictionary} has {share}; they do not belong together")
        super().__init__(lines, {Path(model).name: content}, table, {SENTENCEPIECE: content})

    def _encode(self, lines):
        return self._processor.encode(list(lines), num_threads=1)


def load_tokenizer(gpt2=None, sentencepiece=None, dictionary=None) -> Tokenizer:
    """``GPT2`` of a folder or ``SentencePiece`` of a model; ``dictionary`` is a ``dict.txt`` instead of its own."""
    return GPT2(gpt2, dictionary) if gpt2 is not None else SentencePiece(sentencepiece, dictionary)


def tokenizer_beside(folder) -> Dict[str, Path]:
    """The ``gpt2`` or ``sentencepiece`` of ``load_tokenizer`` whose files lie in a folder; empty if there are none."""
    if (Path(folder) / SENTENCEPIECE).is_file():
        return {"sentencepiece": Path(folder) / SENTENCEPIECE}
    return {"gpt2": Path(folder)} if all((Path(folder) / name).is_file() for name in GPT2_FILES) else {}


def _table(dictionary: Sequence[str], names: Iterable[str]) -> Tuple[np.ndarray, int]:
    """The numbers of tokenizer entries in a dictionary, by their order; and how many are in it."""
    numbers = {line.rsplit(" ", 1)[0]: FIRST + i for i, line in enumerate(dictionary)}
    table = np.array([numbers.get(name, UNKNOWN) for name in names])
    return table, int((table != UNKNOWN).sum())


def _bytes_of_symbols() -> Dict[str, int]:
    """GPT-2 writes bytes as printable characters, in the order of its first 256 numbers."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


def _read(path: Path, hint: str) -> bytes:
    if not path.is_file():
        raise ValueError(f"{path} is not a file; {hint}")
    return path.read_bytes()
