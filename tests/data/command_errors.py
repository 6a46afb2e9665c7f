"""Errors of the ``prepare`` command."""

import os

import pytest

from fairseq_linformer.cli import main


def error_of(capsys, gpt2, source, *options, task="sst-2", out=None) -> str:
    """The one-line error message of the command, which leaves no files."""
    folder = source.parent / "rejected"
    folder.mkdir(exist_ok=True)
    with pytest.raises(SystemExit) as end:
        main(
            [
                "prepare",
                task,
                str(out or folder / "out"),
                "--source",
                str(source),
                "--gpt2-bpe",
                str(gpt2),
                *map(str, options),
            ]
        )
    message = end.value.code
    assert isinstance(message, str) and message.startswith("fairseq-linformer: "), capsys.readouterr().err
    assert "\n" not in message and not os.listdir(folder)
    return message
