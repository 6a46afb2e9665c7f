"""Tokenizers of fairseq's hub interface: WordPiece, and the choice by the files of a folder."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.data.encoders import register_bpe
from fairseq.dataclass import FairseqDataclass

from ..corpus.tokenizer import read_bytes
from ..corpus.tokenizer_files import find_tokenizer_files
from ..corpus.wordpiece import load_normalized, normalize


@dataclass
class WordPieceConfig(FairseqDataclass):
    """Options of ``--bpe wordpiece``."""

    wordpiece_file: str = field(default="???", metadata={"help": "tokenizer.json of BERT's WordPiece"})


@register_bpe("wordpiece", dataclass=WordPieceConfig)
class WordPieceBPE:
    """WordPiece for fairseq: text to tokens of the dictionary, separated by spaces, and back."""

    def __init__(self, cfg: WordPieceConfig):
        path = cfg.wordpiece_file
        self.tokenizer = load_normalized(normalize(read_bytes(path, "a WordPiece tokenizer is needed"), path), path)

    def encode(self, text: str) -> str:
        return " ".join(self.tokenizer.encode(text, add_special_tokens=False).tokens)

    def decode(self, tokens: str) -> str:
        text: str = self.tokenizer.decoder.decode(tokens.split())
        return text

    def is_beginning_of_word(self, token: str) -> bool:
        return not token.startswith("##")


class HubTokenizerMixin:
    """``from_pretrained`` of fairseq's RoBERTa, with the tokenizer of the checkpoint's folder."""

    @classmethod
    def from_pretrained(cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", bpe=None, **kwargs):
        """fairseq's RoBERTa hub interface around a checkpoint of this model.

        Args:
            model_name_or_path: folder of the checkpoint.
            checkpoint_file: file in it.
            data_name_or_path: folder of ``dict.txt``; relative to the checkpoint's folder if it starts with ".".
            bpe: tokenizer; None for that of ``sentencepiece_model`` or ``wordpiece_file`` if one is passed, else for
                that of the files in the folder, else ``gpt2``.
        """
        if bpe is None:
            bpe, files = _choose_bpe(model_name_or_path, kwargs)
            kwargs = {**files, **kwargs}
        return super().from_pretrained(  # of RobertaModel, the other base class
            model_name_or_path, checkpoint_file, data_name_or_path, bpe=bpe, **kwargs
        )


def _choose_bpe(folder, options: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Name of fairseq's BPE, and its options that are not passed already."""
    for option, bpe in (("sentencepiece_model", "sentencepiece"), ("wordpiece_file", "wordpiece")):
        if option in options:
            return bpe, {}
    files = find_tokenizer_files(folder)
    if files is None:
        return "gpt2", {}
    if files.kind == "gpt2":
        encoder, merges = map(str, files.paths)
        return "gpt2", {"gpt2_encoder_json": encoder, "gpt2_vocab_bpe": merges}
    return files.kind, {"wordpiece_file": str(files.path)} if files.kind == "wordpiece" else {}
