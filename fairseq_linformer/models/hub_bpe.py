"""Tokenizers of fairseq's hub interface: ``tokenizer.json``, and the choice by the files of a folder."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq.data.encoders import register_bpe
from fairseq.dataclass import FairseqDataclass

from ..errors import only_errors

HUB_FILES = {
    "sentencepiece": {"sentencepiece_model": "sentencepiece.bpe.model"},
    "gpt2": {"gpt2_encoder_json": "encoder.json", "gpt2_vocab_bpe": "vocab.bpe"},
    "tokenizer_json": {"tokenizer_json": "tokenizer.json"},
}
"""fairseq's BPE -> its options, and their files in the folder of a checkpoint or of its data."""


_TALKATIVE = "fairseq.file_utils", "fairseq.tasks", "fairseq.models.roberta.model", f"{__package__}.linformer_roberta"
"""Loggers of ``from_pretrained``; one of them prints the whole configuration of the checkpoint."""


@dataclass
class TokenizerJsonConfig(FairseqDataclass):
    """Options of ``--bpe tokenizer_json``."""

    tokenizer_json: str = field(default="???", metadata={"help": "tokenizer.json with the tokens of the dictionary"})


@register_bpe("tokenizer_json", dataclass=TokenizerJsonConfig)
class TokenizerJsonBPE:
    """A ``tokenizer.json`` for fairseq: text to tokens of the dictionary, separated by spaces, and back."""

    def __init__(self, cfg: TokenizerJsonConfig):
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(cfg.tokenizer_json)
        self.tokenizer.encode_special_tokens = True  # their names in a text are ordinary text
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def encode(self, text: str) -> str:
        return " ".join(self.tokenizer.encode(text, add_special_tokens=False).tokens)

    def decode(self, tokens: str) -> str:
        text: str = self.tokenizer.decoder.decode(tokens.split())
        return text


class HubTokenizerMixin:
    """``from_pretrained`` of fairseq's RoBERTa, with the tokenizer of the checkpoint's folder."""

    @classmethod
    def hub_models(cls) -> dict[str, str]:
        """No models to download."""
        return {}

    @classmethod
    def from_pretrained(cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", bpe=None, **kwargs):
        """fairseq's RoBERTa hub interface around a checkpoint of this model.

        Args:
            model_name_or_path: folder of the checkpoint.
            checkpoint_file: file in it.
            data_name_or_path: folder of ``dict.txt``; relative to the checkpoint's folder if it starts with ".".
            bpe: tokenizer; None for that of a file that is passed, as ``tokenizer_json``, else for that of the files
                in the folder of the checkpoint, or of ``dict.txt``, else ``gpt2``.
        """
        if bpe is None:
            data = Path(model_name_or_path if str(data_name_or_path).startswith(".") else "", data_name_or_path)
            bpe, files = _choose_bpe((model_name_or_path, data), kwargs)
            kwargs = {**files, **kwargs}
        with only_errors(*_TALKATIVE):
            return super().from_pretrained(  # of RobertaModel, the other base class
                model_name_or_path, checkpoint_file, data_name_or_path, bpe=bpe, **kwargs
            )


def _choose_bpe(folders, options: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Name of fairseq's BPE, and its options: of the one that ``options`` has, or whose files the first folder has."""
    for bpe, names in HUB_FILES.items():
        if options.keys() & names.keys():
            return bpe, {}
    for folder in folders:
        for bpe, names in HUB_FILES.items():
            paths = {option: Path(folder) / name for option, name in names.items()}
            if all(path.is_file() for path in paths.values()):
                return bpe, {option: str(path) for option, path in paths.items()}
    return "gpt2", {}
