"""Tokenizers of fairseq's hub interface: WordPiece, and the choice by the files of a folder."""

import os
from dataclasses import dataclass, field
from typing import Any

from fairseq.data.encoders import register_bpe
from fairseq.dataclass import FairseqDataclass

from ..corpus.tokenizer import read_bytes
from ..corpus.tokenizer_files import SENTENCEPIECE_FILE, WORDPIECE_FILE
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
        self.tokenizer = load_normalized(normalize(read_bytes(path, "a WordPiece tokenizer is needed"), path))

    def encode(self, text: str) -> str:
        return " ".join(self.tokenizer.encode(text, add_special_tokens=False).tokens)

    def decode(self, tokens: str) -> str:
        text: str = self.tokenizer.decoder.decode(tokens.split())
        return text

    def is_beginning_of_word(self, token: str) -> bool:
        return not token.startswith("##")


def choose_bpe(folder, options: dict[str, Any]) -> dict[str, Any]:
    """Options of ``from_pretrained`` that choose the tokenizer of a folder: SentencePiece, WordPiece, else GPT-2's BPE.

    Args:
        options: options that the caller set.
    """

    def exists(name: str) -> bool:
        return os.path.exists(os.path.join(folder, name))

    if "sentencepiece_model" in options or exists(SENTENCEPIECE_FILE):
        return {"bpe": "sentencepiece"}
    if "wordpiece_file" in options:
        return {"bpe": "wordpiece"}
    if exists(WORDPIECE_FILE):
        return {"bpe": "wordpiece", "wordpiece_file": os.path.join(folder, WORDPIECE_FILE)}
    return {"bpe": "gpt2"}
