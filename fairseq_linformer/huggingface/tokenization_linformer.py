"""fairseq's tokenization for ``transformers``, without fairseq.

This file is copied into exported folders: it needs ``transformers``, and for sentencepiece models ``sentencepiece``.
Where ``tokenizers`` has the IDs of fairseq's ``dict.txt``, the folder has a fast tokenizer, in ``tokenizer.json``;
otherwise pieces come from sentencepiece, and token IDs from ``dict.txt``.
"""

import os
import shutil
from contextlib import suppress

from tokenizers.pre_tokenizers import ByteLevel
from transformers import AddedToken, PreTrainedTokenizer, PreTrainedTokenizerFast

FIRST_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"
SPECIAL_TOKENS = {
    "bos_token": "<s>",
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": MASK,
}


def read_token_ids(path) -> dict[str, int]:
    """Token IDs of the entries of fairseq's ``dict.txt`` and of its special symbols."""
    with open(path, encoding="utf-8") as lines:
        entries = [line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")[0] for line in lines]
    symbols = [*FIRST_SYMBOLS, *entries]
    ids = {symbol: i for i, symbol in enumerate(symbols)}
    ids.setdefault(MASK, len(symbols))
    return ids


class LinformerTokenizer(PreTrainedTokenizer):
    """The token IDs of fairseq's hub interface: ``<s> pieces </s>``, and ``<s> a </s> </s> b </s>`` for a pair.

    As in all tokenizers of ``transformers``, the name of a special symbol in the text is that symbol, whereas fairseq
    splits it into pieces, except for ``<mask>`` in ``fill_mask``.

    Args:
        vocab_file: fairseq's ``dict.txt``.
        sentencepiece_file: sentencepiece model.
    """

    vocab_files_names = {"vocab_file": "dict.txt", "sentencepiece_file": "sentencepiece.bpe.model"}
    model_input_names = ["input_ids", "attention_mask"]
    _auto_class = "AutoTokenizer"

    def __init__(self, vocab_file: str, sentencepiece_file: str, **kwargs):
        from sentencepiece import SentencePieceProcessor  # not at the top: the model next to it does not need it

        self.processor = SentencePieceProcessor(model_file=str(sentencepiece_file))
        self.files = dict(zip(self.vocab_files_names.values(), (vocab_file, sentencepiece_file)))
        self.ids = read_token_ids(vocab_file)
        self.entries = {i: entry for entry, i in self.ids.items()}
        # The space before <mask> belongs to the masked word. transformers keeps lstrip only for a token added by ID.
        mask = AddedToken(MASK, lstrip=True, normalized=False, special=True)
        kwargs["added_tokens_decoder"] = {**kwargs.get("added_tokens_decoder", {}), self.ids[MASK]: mask}
        kwargs.update({**SPECIAL_TOKENS, "mask_token": mask})
        kwargs.update(special_tokens_pattern="cls_double_sep", token_type_ids_pattern="all_zeros")
        kwargs.setdefault("clean_up_tokenization_spaces", False)
        super().__init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        return max(self.ids.values()) + 1

    def get_vocab(self) -> dict[str, int]:
        return {**self.ids, **self.added_tokens_encoder}

    def _tokenize(self, text: str) -> list[str]:
        # fairseq writes pieces as a line and splits it at white space, even inside pieces.
        return " ".join(self.processor.encode(text, out_type=str)).split()

    def _convert_token_to_id(self, token: str) -> int:
        return self.ids.get(token, self.ids["<unk>"])

    def _convert_id_to_token(self, index: int) -> str:
        return self.entries.get(index, "<unk>")

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens).replace("\u2581", " ").strip()

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Copy the files of this tokenizer."""
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        targets = {os.path.join(save_directory, prefix + name): path for name, path in self.files.items()}
        for target, path in targets.items():
            with suppress(shutil.SameFileError):
                shutil.copyfile(path, target)
        return tuple(targets)


class LinformerByteLevelTokenizer(PreTrainedTokenizerFast):
    """A fast tokenizer with byte-level BPE, whose tokens at the start of a word include the space before it.

    It has no constructor of its own, with which ``transformers`` would build another tokenizer from the vocabulary.
    """

    _auto_class = "AutoTokenizer"

    @property
    def add_prefix_space(self) -> bool:
        """Whether a space is put before each text, and with ``is_split_into_words`` before each word."""
        return self.backend_tokenizer.pre_tokenizer.add_prefix_space

    @add_prefix_space.setter
    def add_prefix_space(self, value: bool) -> None:
        self.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=value)
        self.backend_tokenizer.post_processor.add_prefix_space = value  # offsets leave it out

    def _encode_plus(self, *args, is_split_into_words: bool = False, **kwargs):
        if is_split_into_words and not self.add_prefix_space:
            raise ValueError(
                "is_split_into_words needs a tokenizer with add_prefix_space=True, an argument of from_pretrained, "
                "since words without a space before them would be one"
            )
        return super()._encode_plus(*args, is_split_into_words=is_split_into_words, **kwargs)
