"""Text to token IDs of a fairseq dictionary, with RoBERTa's GPT-2 BPE, SentencePiece or any ``tokenizer.json``.

fairseq encodes lines to token names (``multiprocessing_bpe_encoder``), which ``fairseq-preprocess`` looks up in
``dict.txt`` before it appends </s>. Here a table maps the tokenizer's IDs directly to the dictionary's; the result is
identical.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import sentencepiece_model, tokenizer_json
from .tokenizer_files import DICTIONARY, GPT2_FILES, SENTENCEPIECE_FILE, TOKENIZER_JSON
from .tokenizer_json import FIRST_ID, SYMBOLS, UNK

EOS = 2
MIN_KNOWN = 0.5
"""Share of its tokens that a tokenizer must find in a dictionary."""


class Tokenizer:
    """Encodes text to IDs of a fairseq dictionary. As text, names of special tokens are ordinary text or <unk>.

    Args:
        table: dictionary IDs by the tokenizer's own IDs.
        files: contents, by name, of the files that determine the token IDs.

    Attributes:
        name: ``gpt2``, ``sentencepiece``, or the model of a ``tokenizer.json``, such as ``wordpiece``.
        dictionary: the lines of ``dict.txt``.
        checksums: SHA-256 of each file of the tokenizer, by name.
        model_files: contents of the files, except for the dictionary, to write next to data and checkpoints.
        dtype: that of fairseq's data-bin with this dictionary.
    """

    name: str

    def __init__(self, dictionary: list[str], table: np.ndarray, files: dict[str, bytes]):
        self.dictionary = dictionary
        self.model_files = {name: content for name, content in files.items() if name != DICTIONARY}
        self.checksums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        self.dtype = np.dtype(np.uint16 if FIRST_ID + len(dictionary) < 65500 else np.uint32)
        self._table = table.astype(self.dtype)

    def encode(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode stripped lines; each ends with </s>.

        Returns:
            IDs (tokens,) of the dictionary, line after line, and the length (lines,) of each line.
        """
        encoded = self._encode(lines)
        lengths = np.fromiter(map(len, encoded), np.int32, len(encoded))
        own_ids = np.fromiter(itertools.chain.from_iterable(encoded), np.int64, lengths.sum())
        return np.insert(self._table[own_ids], np.cumsum(lengths), EOS), lengths + 1

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encode to the tokenizer's own IDs."""
        raise NotImplementedError


class FastTokenizer(Tokenizer):
    """A tokenizer of ``tokenizers``.

    Attributes:
        fast: encodes to its own IDs.
    """

    fast: Any

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers are processes
        return [each.ids for each in self.fast.encode_batch_fast(list(lines), add_special_tokens=False)]


class GPT2(FastTokenizer):
    """GPT-2's BPE with RoBERTa's dictionary, whose entries are the BPE's IDs.

    Args:
        folder: holds ``encoder.json``, ``vocab.bpe`` and fairseq's ``dict.txt``.
        dictionary: path of another ``dict.txt``.
    """

    name = "gpt2"

    def __init__(self, folder, dictionary=None):
        import tokenizers
        from tokenizers.decoders import ByteLevel as ByteLevelDecoder
        from tokenizers.pre_tokenizers import ByteLevel

        names = (*GPT2_FILES, DICTIONARY)
        paths = {name: Path(folder) / name for name in names}
        paths[DICTIONARY] = Path(dictionary or paths[DICTIONARY])
        for path in paths.values():
            if not path.is_file():
                raise ValueError(f"{path} does not exist; GPT-2's BPE needs a folder with {', '.join(names)}")
        merges = [tuple(line.split(" ")) for line in _read_lines(paths["vocab.bpe"])[1:] if line]
        try:
            encoder = json.loads(paths["encoder.json"].read_bytes())
            ids = {token: encoder[token] for token in (*ByteLevel.alphabet(), *map("".join, merges))}
            bpe = tokenizers.models.BPE(ids, merges)
        except Exception as error:  # tokenizers raises nothing narrower
            raise ValueError(f"{' and '.join(GPT2_FILES)} in {folder} are not a BPE: {error!r}") from None
        if {*ids.values()} != {*range(len(ids))}:
            raise ValueError(f"encoder.json in {folder} must have the IDs from 0, as GPT-2's has")
        self.fast = tokenizers.Tokenizer(bpe)
        self.fast.pre_tokenizer, self.fast.decoder = ByteLevel(add_prefix_space=False), ByteLevelDecoder()
        entries = _read_lines(paths[DICTIONARY])
        table = _build_table(entries, map(str, range(len(ids))), paths[DICTIONARY])
        super().__init__(entries, table, {name: path.read_bytes() for name, path in paths.items()})


class SentencePiece(Tokenizer):
    """A SentencePiece model.

    If the model does not normalize Unicode's other spaces (``identity``), its pieces contain them. fairseq splits such
    pieces at these spaces; here they stay whole.

    Args:
        model: path of the model.
        dictionary: path of a ``dict.txt``; by default the model's pieces in order.
    """

    name = "sentencepiece"

    def __init__(self, model, dictionary=None):
        content = Path(model).read_bytes()
        self._processor = sentencepiece_model.load_model(content, model)
        if dictionary is None:
            entries = [f"{piece} 1" for piece in sentencepiece_model.list_pieces(content, model)]
        else:
            entries = _read_lines(dictionary)
        pieces = map(self._processor.id_to_piece, range(self._processor.get_piece_size()))
        super().__init__(entries, _build_table(entries, pieces, dictionary), {SENTENCEPIECE_FILE: content})

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self._processor.encode(list(lines), num_threads=1)


class TokenizerJson(FastTokenizer):
    """A tokenizer of ``tokenizers``: WordPiece, BPE or unigram, with its normalization.

    Args:
        file: ``tokenizer.json`` with the special tokens of RoBERTa or BERT, or one of ``model_files``.
        dictionary: path of a ``dict.txt``, which must have its tokens in order.

    Attributes:
        order: (V,) IDs of the file's tokens in the order of the dictionary.
    """

    def __init__(self, file, dictionary=None):
        import tokenizers

        settings, ids = tokenizer_json.read_settings(Path(file).read_bytes(), file)
        tokens = tokenizer_json.order_tokens(ids, file)
        self.order = [ids[token] for token in tokens]
        names = [*SYMBOLS[:FIRST_ID], *tokens[FIRST_ID:-1], SYMBOLS[-1]]
        content = tokenizer_json.rewrite(settings, tokens, names)
        try:
            self.fast = tokenizers.Tokenizer.from_str(content.decode())
        except Exception as error:  # tokenizers raises nothing narrower
            raise ValueError(f"{file} is not a valid tokenizer.json: {' '.join(str(error).split())[:200]}") from None
        self.name = settings["model"]["type"].lower()
        self.fast.encode_special_tokens = True  # their names in a text are ordinary text
        entries = [f"{name} 1" for name in names[FIRST_ID:-1]]
        if dictionary is not None and entry_names(_read_lines(dictionary)) != names[FIRST_ID:-1]:
            raise ValueError(f"{dictionary} must have the tokens of {file}, in the same order")
        # A unigram model has the symbols among its pieces.
        table = np.array([UNK if name in SYMBOLS else i for i, name in enumerate(names)])
        super().__init__(entries, table, {TOKENIZER_JSON: content})


def load_tokenizer(path: Path, dictionary=None) -> Tokenizer:
    """Load a tokenizer with its own or another ``dict.txt``; ValueError as for its class."""
    if path.is_dir():
        return GPT2(path, dictionary)
    return (TokenizerJson if path.suffix == ".json" else SentencePiece)(path, dictionary)


def _read_lines(path) -> list[str]:
    """The lines of a file. As for fairseq, only line ends separate them: a piece may be U+0085 or U+2028."""
    try:
        with open(path, encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file]
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None


def entry_names(entries: Iterable[str]) -> list[str]:
    """The names in lines of ``dict.txt``."""
    return [line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")[0] for line in entries]


def _build_table(entries: Sequence[str], names: Iterable[str], dictionary) -> np.ndarray:
    """Dictionary IDs of the tokenizer's tokens, by the tokenizer's IDs.

    Args:
        dictionary: path of the dictionary, for the ValueError if it is that of another tokenizer.
    """
    ids = {name: FIRST_ID + i for i, name in enumerate(entry_names(entries))}
    table = np.array([ids.get(name, UNK) for name in names])
    known = int((table != UNK).sum())
    if known < MIN_KNOWN * (len(table) - FIRST_ID):
        raise ValueError(
            f"{dictionary} must be the tokenizer's dictionary, but it has only {known:,} of the {len(table):,} tokens"
        )
    return table
