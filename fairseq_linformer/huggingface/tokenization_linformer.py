"""fairseq's tokenization for ``transformers``, without fairseq, for dictionaries that lack tokens of the tokenizer.

This file is copied into exported folders: it needs ``transformers``, and ``sentencepiece`` for sentencepiece models.
Pieces come from sentencepiece or from the byte-level BPE of ``tokenizers``, and token IDs from fairseq's ``dict.txt``.
With all tokens in the dictionary, the folder has a fast tokenizer instead, in ``tokenizer.json``.
"""

import json
import os
import shutil
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AddedToken, PreTrainedTokenizer

try:
    import sentencepiece
except ImportError:  # only sentencepiece models need it
    sentencepiece = None  # type: ignore[assignment]

FIRST_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"


def read_token_ids(path) -> dict[str, int]:
    """Token IDs of the entries of fairseq's ``dict.txt`` and of its special symbols."""
    with open(path, encoding="utf-8") as lines:
        entries = [line.rstrip().removesuffix(" #fairseq:overwrite") for line in lines]
    symbols = [*FIRST_SYMBOLS, *(entry.rpartition(" ")[0] for entry in entries)]
    ids = {symbol: i for i, symbol in enumerate(symbols)}
    ids.setdefault(MASK, len(symbols))
    return ids


class SentencePieceEncoder:
    """A sentencepiece model: text to dictionary entries, and back."""

    def __init__(self, model_file: str | Path):
        if sentencepiece is None:
            raise ImportError(
                "this tokenizer needs the package sentencepiece, which is not installed", name="sentencepiece"
            )
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model_file))

    def split(self, text: str) -> list[str]:
        # fairseq writes pieces as a line and splits it at white space, even inside pieces.
        return " ".join(self.processor.encode(text, out_type=str)).split()

    def join(self, tokens: list[str]) -> str:
        return "".join(tokens).replace("\u2581", " ").strip()

    def name(self, entry: str) -> str:
        return entry


class ByteLevelBPE:
    """GPT-2's byte-level BPE. Its dictionary entries are the IDs of the pieces in ``encoder.json``."""

    def __init__(self, encoder_file: str | Path, merges_file: str | Path):
        ids = json.loads(Path(encoder_file).read_text(encoding="utf-8"))
        # The first line is a comment, the last one empty.
        lines = Path(merges_file).read_text(encoding="utf-8").split("\n")[1:-1]
        merges = [(left, right) for left, right in map(str.split, lines)]
        self.names = {str(i): piece for piece, i in ids.items()}
        self.tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
        self.tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.decoder = decoders.ByteLevel()

    def split(self, text: str) -> list[str]:
        return self.tokenizer.encode(text, add_special_tokens=False).tokens

    def join(self, tokens: list[str]) -> str:
        return self.decoder.decode(tokens)

    def name(self, entry: str) -> str:
        return self.names.get(entry, entry)


class LinformerTokenizer(PreTrainedTokenizer):
    """The token IDs of fairseq's hub interface: ``<s> pieces </s>``, and ``<s> a </s> </s> b </s>`` for a pair.

    As in all tokenizers of ``transformers``, the name of a special symbol in the text is that symbol, whereas fairseq
    splits it into pieces, except for ``<mask>`` in ``fill_mask``.

    Args:
        vocab_file: fairseq's ``dict.txt``.
        sentencepiece_file: sentencepiece model.
        encoder_file, merges_file: GPT-2's ``encoder.json`` and ``vocab.bpe``, instead of a sentencepiece model.

    Raises:
        ValueError: a file is invalid, or neither a sentencepiece model nor a GPT-2 BPE is set.
    """

    vocab_files_names = {
        "vocab_file": "dict.txt",
        "sentencepiece_file": "sentencepiece.bpe.model",
        "encoder_file": "encoder.json",
        "merges_file": "vocab.bpe",
    }
    model_input_names = ["input_ids", "attention_mask"]
    _auto_class = "AutoTokenizer"
    why_slow: str | None = None
    """Why the export has no fast tokenizer."""

    def __init__(
        self,
        vocab_file: str,
        sentencepiece_file: str | None = None,
        encoder_file: str | None = None,
        merges_file: str | None = None,
        **kwargs,
    ):
        self.pieces: SentencePieceEncoder | ByteLevelBPE
        if sentencepiece_file:
            self.pieces = SentencePieceEncoder(sentencepiece_file)
        elif encoder_file and merges_file:
            self.pieces = ByteLevelBPE(encoder_file, merges_file)
        else:
            raise ValueError(
                "either sentencepiece_file, or encoder_file and merges_file (GPT-2's encoder.json and vocab.bpe), must "
                "be set"
            )
        paths = (vocab_file, sentencepiece_file, encoder_file, merges_file)
        self.files = {name: path for name, path in zip(self.vocab_files_names, paths) if path}
        self.ids = {self.pieces.name(entry): i for entry, i in read_token_ids(vocab_file).items()}
        self.entries = {i: entry for entry, i in self.ids.items()}
        # The space before <mask> belongs to the masked word. transformers keeps lstrip only for a token added by ID.
        mask = AddedToken(MASK, lstrip=True, normalized=False, special=True)
        kwargs["added_tokens_decoder"] = {**kwargs.get("added_tokens_decoder", {}), self.ids[MASK]: mask}
        kwargs["mask_token"] = mask
        for name, symbol in zip(("bos_token", "pad_token", "eos_token", "unk_token"), FIRST_SYMBOLS):
            kwargs[name] = symbol
        kwargs.update(
            cls_token="<s>",
            sep_token="</s>",
            special_tokens_pattern="cls_double_sep",
            token_type_ids_pattern="all_zeros",
        )
        kwargs.setdefault("clean_up_tokenization_spaces", False)
        super().__init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        return max(self.ids.values()) + 1

    def get_vocab(self) -> dict[str, int]:
        return {**self.ids, **self.added_tokens_encoder}

    def _tokenize(self, text: str) -> list[str]:
        return self.pieces.split(text)

    def _convert_token_to_id(self, token: str) -> int:
        return self.ids.get(token, self.ids["<unk>"])

    def _convert_id_to_token(self, index: int) -> str:
        return self.entries.get(index, "<unk>")

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return self.pieces.join(tokens)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Copy the files of this tokenizer."""
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        targets = []
        for name, path in self.files.items():
            target = os.path.join(save_directory, prefix + self.vocab_files_names[name])
            if not (os.path.exists(target) and os.path.samefile(path, target)):
                shutil.copyfile(path, target)
            targets.append(target)
        return tuple(targets)
