"""A tiny encoder, a text and a task for it."""

from pathlib import Path

from fairseq_linformer.cli import main

from ...checkpoints.encoders import save_encoder
from ...task_data import files


def write_inputs(folder: Path) -> list[str]:
    """Options of ``reproduce`` for an experiment that finetunes an encoder."""
    encoder = save_encoder(folder / "tiny-bert", "bert", False)
    words = "the lowest tide was new newer slowly and told".split()
    lines = (" ".join(words[(i * j) % len(words)] for j in range(3, 25)) + "\n\n" for i in range(60))
    (folder / "train.txt").write_text("".join(lines))
    tokenizer = ["--wordpiece", str(encoder / "tokenizer.json")]
    text = [str(folder / "bin"), "--source", str(folder / "train.txt"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", *text, *tokenizer])
    source = files.write_tsv("imdb", folder / "IMDB")
    for name, n in (("imdb", 32), ("imdb-n64", 64)):
        options = ["--source", str(source), "--max-positions", str(n)]
        main(["prepare", "imdb", str(folder / "tasks" / name), *options, *tokenizer])
    paths = {"encoder": encoder, "data": folder / "bin", "tasks": folder / "tasks", "runs": folder / "runs"}
    return ["--scale", "smoke", *(word for name, path in paths.items() for word in (f"--{name}", str(path)))]
