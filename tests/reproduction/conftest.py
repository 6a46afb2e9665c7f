"""Inputs of the experiments at scale smoke."""

import random

import pytest

from fairseq_linformer.cli import main

from ..checkpoints.encoders import save_encoder
from ..data import task_files as files


@pytest.fixture(scope="session")
def smoke_inputs(tmp_path_factory):
    """A folder with an encoder, a text and tasks for it: ``encoder``, ``train.txt``, ``text``, ``tasks``."""
    folder, draw = tmp_path_factory.mktemp("smoke"), random.Random(0)
    save_encoder(folder / "encoder", "bert", False)
    words = "the lowest tide was new newer slowly and told".split()
    (folder / "train.txt").write_text("".join(" ".join(draw.choices(words, k=22)) + "\n\n" for _ in range(60)))
    tokenizer = ["--tokenizer", str(folder / "encoder/tokenizer.json")]
    text = ["--source", str(folder / "train.txt"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", str(folder / "text"), *text, *tokenizer])
    for task in ("sst-2", "imdb"):
        source = files.write_tsv(task, folder / f"{task}-source")
        for n in (16, 32):
            out = str(folder / "tasks" / (task if n == 32 else f"{task}-n{n}"))
            main(["prepare", task, out, "--source", str(source), "--max-positions", str(n), *tokenizer])
    return folder
