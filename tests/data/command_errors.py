"""Errors of the ``prepare`` command."""

import os

import pytest

from fairseq_linformer.cli import main


def error_of(capsys, gpt2, folder, *words, task="sst-2") -> str:
    """The one-line error message of the command for an output in ``folder``, which stays empty."""
    folder.mkdir(exist_ok=True)
    with pytest.raises(SystemExit) as end:
        main(["prepare", task, str(folder / "out"), "--tokenizer", str(gpt2), *map(str, words)])
    message = end.value.code
    assert isinstance(message, str) and message.startswith("fairseq-linformer: "), capsys.readouterr().err
    assert "\n" not in message and not os.listdir(folder)
    return message
