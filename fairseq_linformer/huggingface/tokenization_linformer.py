"""fairseq's way from text to token numbers, for ``transformers`` and without fairseq.

This file is copied into exported folders: it needs ``transformers``, and ``sentencepiece`` for a model that was trained
with it. The pieces come from sentencepiece itself, or from the byte-level BPE of ``tokenizers``; fairseq's ``dict.txt``
numbers them. A ``tokenizer.json``
would be faster but not exact: it cannot number two pieces alike, which a dictionary that lacks pieces needs (they are
all <unk>), and its white space is not in all cases sentencepiece's.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AddedToken, PreTrainedTokenizer

try:
    import sentencepiece
except ImportError:  # only models of sentencepiece need it
    sentencepiece = None

FIRST_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"


def read_dictionary(path) -> Dict[str, int]:
    """The numbers that fairseq gives to the entries of a ``dict.txt``, its own symbols included.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no dictionary; the sentence names file and line.
    """
    numbers = {symbol: i for i, symbol in enumerate(FIRST_SYMBOLS)}
    count = len(numbers)
    with open(path, encoding="utf-8") as lines:
        try:
            for i, line in enumerate(lines, start=1):
                symbol, _, field = line.rstrip().rpartition(" ")
                if overwrite := field == "#fairseq:overwrite":
                    symbol, _, field = symbol.rpartition(" ")
                if not symbol or not field.isdecimal():
                    entry = line.rstrip()[:60]
                    raise ValueError(f"{path}, line {i}: {entry!r} is not an entry of a dictionary, 'PIECE COUNT'")
                if symbol in numbers and not overwrite:
                    raise ValueError(f"{path}, line {i}: {symbol!r} is there a second time; an entry stands once")
                numbers[symbol] = count
                count += 1
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a dictionary: it is not UTF-8") from None
    numbers.setdefault(MASK, count)
    return numbers


class Pieces:
    """Pieces of sentencepiece: text to entries of the dictionary, and back."""

    def __init__(self, model_file):
        if sentencepiece is None:
            raise ImportError(
                "this tokenizer needs the package sentencepiece, which is not installed", name="sentencepiece"
            )
        self.processor = sentencepiece.SentencePieceProcessor()
        try:
            self.processor.Load(str(model_file))
        except (RuntimeError, OSError):
            raise ValueError(f"{model_file} is no sentencepiece model") from None

    def split(self, text: str) -> List[str]:
        # fairseq writes pieces as a line and splits it at white space, whatever the pieces are.
        return " ".join(self.processor.Encode(text, out_type=str)).split()

    def join(self, tokens: List[str]) -> str:
        return "".join(tokens).replace("\u2581", " ").strip()

    def name(self, entry: str) -> str:
        return entry


class BytePieces:
    """Pieces of GPT-2's byte-level BPE. Their entries in the dictionary are the numbers that ``encoder.json`` gives
    them; here they are called by themselves."""

    def __init__(self, encoder_file, merges_file):
        try:
            with open(encoder_file, encoding="utf-8") as file:
                numbers = json.load(file)
            # A comment stands before the merges and an empty line after them.
            lines = Path(merges_file).read_text(encoding="utf-8").split("\n")[1:-1]
            bpe = models.BPE(vocab=numbers, merges=[tuple(line.split()) for line in lines])
        except OSError:
            raise
        except Exception as error:  # tokenizers raises nothing narrower
            raise ValueError(f"{encoder_file} and {merges_file} are no GPT-2 BPE: {error}") from None
        self.names = {str(number): piece for piece, number in numbers.items()}
        self.tokenizer = Tokenizer(bpe)
        self.tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.decoder = decoders.ByteLevel()

    def split(self, text: str) -> List[str]:
        return self.tokenizer.encode(text, add_special_tokens=False).tokens

    def join(self, tokens: List[str]) -> str:
        return self.decoder.decode(tokens)

    def name(self, entry: str) -> str:
        return self.names.get(entry, entry)


class LinformerTokenizer(PreTrainedTokenizer):
    """Text to the token numbers that fairseq's hub interface gives: ``<s> pieces </s>``, and for a pair ``<s> a </s>
    </s> b </s>``.

    As with any tokenizer of ``transformers``, the name of a special symbol in the text is that symbol; fairseq cuts it
    into pieces, except for ``<mask>`` in ``fill_mask``.

    Args:
        vocab_file: fairseq's ``dict.txt``.
        sentencepiece_file: model of sentencepiece; or
        encoder_file, merges_file: GPT-2's ``encoder.json`` and ``vocab.bpe``.

    Raises:
        ValueError: a file is not what it should be, or neither kind of pieces is given.
    """

    vocab_files_names = {
        "vocab_file": "dict.txt",
        "sentencepiece_file": "sentencepiece.bpe.model",
        "encoder_file": "encoder.json",
        "merges_file": "vocab.bpe",
    }
    model_input_names = ["input_ids", "attention_mask"]
    _auto_class = "AutoTokenizer"

    def __init__(
        self,
        vocab_file: str,
        sentencepiece_file: Optional[str] = None,
        encoder_file: Optional[str] = None,
        merges_file: Optional[str] = None,
        **kwargs,
    ):
        if sentencepiece_file:
            self.pieces = Pieces(sentencepiece_file)
        elif encoder_file and merges_file:
            self.pieces = BytePieces(encoder_file, merges_file)
        else:
            raise ValueError("no pieces: a sentencepiece model, or GPT-2's encoder.json and vocab.bpe, must be given")
        given = zip(self.vocab_files_names, (vocab_file, sentencepiece_file, encoder_file, merges_file))
        self.files = {name: path for name, path in given if path}
        self.numbers = {self.pieces.name(entry): i for entry, i in read_dictionary(vocab_file).items()}
        self.entries = {i: entry for entry, i in self.numbers.items()}
        # The space before a masked word belongs to the word that is missing. Only a token that is there by its number
        # keeps this.
        mask = AddedToken(MASK, lstrip=True, normalized=False, special=True)
        kwargs["added_tokens_decoder"] = {**kwargs.get("added_tokens_decoder", {}), self.numbers[MASK]: mask}
        kwargs["mask_token"] = mask
        for name, symbol in zip(("bos_token", "pad_token", "eos_token", "unk_token"), FIRST_SYMBOLS):
            kwargs[name] = symbol
        kwargs.update(cls_token="<s>", sep_token="</s>", special_tokens_pattern="cls_double_sep",
                      token_type_ids_pattern="all_zeros")  # fmt: skip
        kwargs.setdefault("clean_up_tokenization_spaces", False)
        super().__init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        return max(self.numbers.values()) + 1

    def get_vocab(self) -> Dict[str, int]:
        return {**self.numbers, **self.added_tokens_encoder}

    def _tokenize(self, text: str) -> List[str]:
        return self.pieces.split(text)

    def _convert_token_to_id(self, token: str) -> int:
        return self.numbers.get(token, self.numbers["<unk>"])

    def _convert_id_to_token(self, index: int) -> str:
        return self.entries.get(index, "<unk>")

    def convert_tokens_to_string(self, tokens: List[str]) -> str:
        return self.pieces.join(tokens)

    def save_vocabulary(self, save_directory: str, filename_prefix: Optional[str] = None) -> Tuple[str, ...]:
        """Copy the files that this tokenizer was made from."""
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        targets = []
        for name, path in self.files.items():
            target = os.path.join(save_directory, prefix + self.vocab_files_names[name])
            if not (os.path.exists(target) and os.path.samefile(path, target)):
                shutil.copyfile(path, target)
            targets.append(target)
        return tuple(targets)
