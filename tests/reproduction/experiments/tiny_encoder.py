"""A tiny encoder, a text and a task for it, as options of ``reproduce``."""

import random
from pathlib import Path

from fairseq_linformer.cli import main

from ...checkpoints.encoders import save_encoder
from ...task_data import files


def write_encoder(folder: Path) -> list[str]:
    """An encoder without a head of masked LM, and a text."""
    encoder = save_encoder(folder / "tiny-bert", "bert", False)
    words, generator = "the lowest tide was new newer slowly and told".split(), random.Random(0)
    lines = (" ".join(generator.choices(words, k=22)) + "\n\n" for _ in range(60))
    (folder / "train.txt").write_text("".join(lines))
    text = [str(folder / "bin"), "--source", str(folder / "train.txt"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", *text, *_tokenizer(folder)])
    return ["--scale", "smoke", "--encoder", str(encoder), "--data", str(folder / "bin")]


def write_inputs(folder: Path) -> list[str]:
    """Also IMDB at two n, and the folder of the runs, which comes last."""
    options = write_encoder(folder)
    source = files.write_tsv("imdb", folder / "IMDB")
    for name, n in (("imdb", 32), ("imdb-n64", 64)):
        truncated = ["--source", str(source), "--max-positions", str(n)]
        main(["prepare", "imdb", str(folder / "tasks" / name), *truncated, *_tokenizer(folder)])
    return [*options, "--tasks", str(folder / "tasks"), "--runs", str(folder / "runs")]


def _tokenizer(folder: Path) -> list[str]:
    return ["--wordpiece", str(folder / "tiny-bert" / "tokenizer.json")]
