"""Text to token IDs of a fairseq dictionary, with RoBERTa's GPT-2 BPE, SentencePiece or BERT's WordPiece.

fairseq encodes lines to token names (``multiprocessing_bpe_encoder``), which ``fairseq-preprocess`` looks up in
``dict.txt`` before it appends </s>. Here a table maps the tokenizer's IDs directly to the dictionary's; the result is
identical.
"""

import hashlib
import io
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from . import sentencepiece_model, wordpiece
from .binarized import token_dtype
from .tokenizer_files import GPT2_FILES, SENTENCEPIECE_FILE, WORDPIECE_FILE, TokenizerFiles

# fairseq inserts <s>, <pad>, </s> and <unk> before the entries of dict.txt, in this order.
EOS, UNK, FIRST_ID = 2, 3, 4
# From OpenAI's encoder.py: contractions, words, numbers, punctuation, white space.
_GPT2_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


class Tokenizer:
    """Encodes text to IDs of a fairseq dictionary.

    Attributes:
        name: ``gpt2``, ``sentencepiece`` or ``wordpiece``.
        dictionary: the lines of ``dict.txt``.
        checksums: SHA-256 of each file of the tokenizer, by name.
        model_files: contents, by name, of the files to write next to data and checkpoints, for encoding text later.
        dtype: that of fairseq's data-bin with this dictionary.
    """

    name: str

    def __init__(
        self, dictionary: list[str], files: dict[str, bytes], table: np.ndarray, model_files: dict[str, bytes]
    ):
        self.dictionary = dictionary
        self.model_files = model_files
        self.checksums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        self.dtype = token_dtype(FIRST_ID + len(dictionary))
        self._table = table.astype(self.dtype)

    def encode(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode stripped lines; each ends with </s>.

        Returns:
            IDs (tokens,) of the dictionary, line after line, and the length (lines,) of each line.
        """
        encoded = self._encode(lines)
        sizes = np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded)) + 1
        ends = np.cumsum(sizes)
        ids = np.empty(int(ends[-1]) if len(ends) else 0, dtype=self.dtype)
        is_text = np.ones(len(ids), dtype=bool)
        is_text[ends - 1] = False
        own_ids = np.fromiter(itertools.chain.from_iterable(encoded), dtype=np.int64, count=int(is_text.sum()))
        ids[is_text] = self._table[own_ids]
        ids[ends - 1] = EOS
        return ids, sizes

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encode to the tokenizer's own IDs."""
        raise NotImplementedError


class GPT2(Tokenizer):
    """GPT-2's BPE with RoBERTa's dictionary, through ``tiktoken``.

    Args:
        folder: holds ``encoder.json``, ``vocab.bpe`` and fairseq's ``dict.txt``.
        dictionary: path of another ``dict.txt``.

    Raises:
        ValueError: a file is missing or unreadable, or the files do not belong together.
    """

    name = "gpt2"

    def __init__(self, folder, dictionary=None):
        from tiktoken import Encoding

        names = (*GPT2_FILES, "dict.txt")
        paths = {name: Path(folder) / name for name in names}
        paths["dict.txt"] = Path(dictionary or paths["dict.txt"])
        hint = f"GPT-2's BPE needs a folder with {', '.join(names)}"
        contents = {name: read_bytes(path, hint) for name, path in paths.items()}
        try:
            encoder = json.loads(contents["encoder.json"])
        except ValueError:
            raise ValueError(f"{paths['encoder.json']} is not JSON") from None
        lines = _decode(paths["vocab.bpe"], contents["vocab.bpe"]).split("\n")[1:]
        merges = [tuple(line.split(" ")) for line in lines if line]
        byte = bytes_of_symbols()
        # tiktoken merges in the order of the IDs, which must therefore be the order of the merges.
        tokens = [*byte, *("".join(pair) for pair in merges)]
        if not isinstance(encoder, dict) or [encoder.get(token) for token in tokens] != list(range(len(tokens))):
            raise ValueError(f"encoder.json in {folder} must be in the order of its vocab.bpe, as GPT-2's is")
        self._encoding = Encoding(
            "gpt2",
            pat_str=_GPT2_PATTERN,
            mergeable_ranks={bytes(byte[symbol] for symbol in token): i for i, token in enumerate(tokens)},
            special_tokens={},
        )
        entries = _read_entries(paths["dict.txt"], contents["dict.txt"])
        table, num_known = _build_table(entries, map(str, range(len(tokens))))
        if num_known < 0.9 * len(table):
            share = f"{num_known:,} of the {len(table):,} IDs of encoder.json"
            raise ValueError(f"{paths['dict.txt']} must be RoBERTa's dictionary, but it has only {share}")
        super().__init__(entries, contents, table, {name: contents[name] for name in GPT2_FILES})

    def _encode(self, lines):
        # encode_ordinary_batch starts a thread pool, which costs more than a short line.
        return [self._encoding.encode_ordinary(line) for line in lines]


class SentencePiece(Tokenizer):
    """A SentencePiece model.

    If the model does not normalize Unicode's other spaces (``identity``), its pieces contain them. fairseq splits such
    pieces at these spaces; here they stay whole.

    Args:
        model: path of the model.
        dictionary: path of a ``dict.txt``; by default the model's pieces in order.

    Raises:
        ValueError: a file is missing or unreadable, or the files do not belong together.
    """

    name = "sentencepiece"

    def __init__(self, model, dictionary=None):
        content = read_bytes(Path(model), "a SentencePiece model is needed")
        try:
            self._processor = sentencepiece_model.load_model(content)
        except ValueError:
            raise ValueError(f"{model} is not a SentencePiece model") from None
        if dictionary is None:
            try:
                entries = sentencepiece_model.dictionary_lines(sentencepiece_model.list_pieces(content))
            except ValueError as error:
                raise ValueError(f"{model}: {error}") from None
        else:
            entries = _read_entries(dictionary, read_bytes(dictionary, "the model's dictionary is needed"))
        num_pieces = self._processor.get_piece_size()
        table, num_known = _build_table(entries, map(self._processor.id_to_piece, range(num_pieces)))
        if num_known < 0.9 * (num_pieces - 3):
            share = f"{num_known:,} of the {num_pieces:,} pieces of {model}"
            raise ValueError(f"{dictionary} must be the model's dictionary, but it has only {share}")
        super().__init__(entries, {SENTENCEPIECE_FILE: content}, table, {SENTENCEPIECE_FILE: content})

    def _encode(self, lines):
        return self._processor.encode(list(lines), num_threads=1)


class WordPiece(Tokenizer):
    """A WordPiece tokenizer. As text, names of special tokens are split like other words.

    Args:
        file: ``tokenizer.json`` of BERT, or of this class.
        dictionary: path of a ``dict.txt``; by default the tokenizer's tokens in order.

    Raises:
        ValueError: a file is missing or unreadable, or the files do not belong together.
    """

    name = "wordpiece"

    def __init__(self, file, dictionary=None):
        content = read_bytes(Path(file), "the tokenizer.json of a WordPiece tokenizer is needed")
        content = wordpiece.normalize(content, file)
        self._tokenizer = wordpiece.load_normalized(content, file)
        tokens = wordpiece.list_tokens(content)
        entries = [f"{token} 1" for token in tokens[FIRST_ID:-1]]
        if dictionary is not None:
            found = _read_entries(dictionary, read_bytes(dictionary, "the tokenizer's dictionary is needed"))
            if [line.rsplit(" ", 1)[0] for line in found] != tokens[FIRST_ID:-1]:
                raise ValueError(f"{dictionary} must have the tokens of {file}, in the same order")
        table, _ = _build_table(entries, tokens)
        super().__init__(entries, {WORDPIECE_FILE: content}, table, {WORDPIECE_FILE: content})

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [each.ids for each in self._tokenizer.encode_batch_fast(list(lines), add_special_tokens=False)]


def load_tokenizer(files: TokenizerFiles, dictionary=None) -> Tokenizer:
    """Load a tokenizer with its own or another ``dict.txt``; ValueError as for its class."""
    if files.kind == "gpt2":
        return GPT2(files.path, dictionary)
    if files.kind == "sentencepiece":
        return SentencePiece(files.path, dictionary)
    return WordPiece(files.path, dictionary)


def _read_entries(path: Path | str, content: bytes) -> list[str]:
    """The lines of a ``dict.txt``. As for fairseq, only line ends separate them: a piece may be U+0085 or U+2028."""
    return [line.rstrip("\n") for line in io.StringIO(_decode(path, content), newline=None)]


def _decode(path: Path | str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None


def _build_table(entries: Sequence[str], names: Iterable[str]) -> tuple[np.ndarray, int]:
    """Dictionary IDs of the tokenizer's tokens, by the tokenizer's IDs; and how many tokens the dictionary has."""
    ids = {line.rsplit(" ", 1)[0]: FIRST_ID + i for i, line in enumerate(entries)}
    table = np.array([ids.get(name, UNK) for name in names])
    return table, int((table != UNK).sum())


def bytes_of_symbols() -> dict[str, int]:
    """The printable characters that represent bytes in GPT-2's files, in the order of its first 256 IDs."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


def read_bytes(path: Path | str, hint: str) -> bytes:
    """The content of a file; ValueError with the hint if there is none."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; {hint}")
    return path.read_bytes()
