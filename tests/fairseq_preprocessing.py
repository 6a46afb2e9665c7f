"""The stock route from text to a data-bin and a small GPT-2 BPE for it."""

import json
import sys
from unittest import mock

from fairseq.examples.roberta import multiprocessing_bpe_encoder
from tokenizers.pre_tokenizers import ByteLevel

from .fairseq_commands import command


def write_gpt2(folder, merges=("h e", "l l", "he ll", "hell o", "Ġ w", "l o", "lo w", "Ġ low")):
    """A small BPE in the files of GPT-2's."""
    folder.mkdir(exist_ok=True)
    tokens = [*sorted(ByteLevel.alphabet()), *("".join(merge.split()) for merge in merges)]
    (folder / "encoder.json").write_text(
        json.dumps({**{token: i for i, token in enumerate(tokens)}, "<|endoftext|>": len(tokens)})
    )
    (folder / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    # As in RoBERTa's: by frequency, some missing, some never seen.
    numbers = [str(i) for i in reversed(range(len(tokens))) if i % 50 != 7]
    (folder / "dict.txt").write_text("".join(f"{n} {i}\n" for i, n in enumerate([*numbers, "madeupword0000"])))
    return folder


def gpt2_encode(gpt2_files, texts, encoded):
    """``multiprocessing_bpe_encoder``, as fairseq's scripts call it, of files with as many lines."""
    tokenizer = ["--encoder-json", gpt2_files / "encoder.json", "--vocab-bpe", gpt2_files / "vocab.bpe"]
    files = ["--inputs", *texts, "--outputs", *encoded]
    with mock.patch.object(sys, "argv", ["", *map(str, [*tokenizer, *files, "--keep-empty", "--workers", 1])]):
        multiprocessing_bpe_encoder.main()


def preprocess(text, dictionary, out):
    """``fairseq-preprocess`` of one file; the bytes of its ``.bin`` and ``.idx``."""
    command(
        "preprocess", "--only-source", "--srcdict", dictionary, "--trainpref", text, "--destdir", out, "--workers", 1
    )
    return [(out / f"train.{end}").read_bytes() for end in ("bin", "idx")]
