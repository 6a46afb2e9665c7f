"""Inputs of the experiments at scale smoke."""

import random

import pytest

from fairseq_linformer.cli import main

from ..checkpoints.encoders import save_encoder
from ..data import task_files as files


@pytest.fixture(scope="session")
def smoke_inputs(tmp_path_factory):
    """A folder with an encoder, a text and a task for it: ``encoder``, ``train.txt``, ``text``, ``tasks``."""
    folder, draw = tmp_path_factory.mktemp("smoke"), random.Random(0)
    save_encoder(folder / "encoder", "bert", False)
    words = "the lowest tide was new newer slowly and told".split()
    (folder / "train.txt").write_text("".join(" ".join(draw.choices(words, k=22)) + "\n\n" for _ in range(60)))
    paragraphs = ["title", *(" ".join(draw.choices(words, k=6)) for _ in range(20))]
    (folder / "articles.txt").write_text(3 * ("\n".join(paragraphs) + "\n\n"))
    tokenizer = ["--tokenizer", str(folder / "encoder/tokenizer.json")]
    text = ["--source", str(folder / "train.txt"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", str(folder / "text"), *text, *tokenizer])
    variants = {
        "": (32, "head"),
        "-n4": (4, "head"),
        "-n16": (16, "head"),
        "-ends": (16, "head+tail"),
        "-whole": (1000, "head"),
    }
    source = files.write_tsv("imdb", folder / "imdb-source")
    for name, (n, truncation) in variants.items():
        words = ["--source", str(source), "--max-positions", str(n), "--truncation", truncation]
        main(["prepare", "imdb", str(folder / f"tasks/imdb{name}"), *words, *tokenizer])
    return folder
