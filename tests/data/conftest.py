"""A GPT-2 tokenizer, and errors of the ``prepare`` command."""

import os

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.data.tokenizer import GPT2

from ..fairseq_preprocessing import write_gpt2


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    """The folder of its files."""
    return write_gpt2(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def bpe(gpt2):
    return GPT2(gpt2)


@pytest.fixture
def error_of(gpt2, tmp_path):
    """A function that returns the one-line error of the command, which leaves nothing behind."""

    def error_of(*words, task="sst-2") -> str:
        folder = tmp_path / "outputs"
        folder.mkdir(exist_ok=True)
        with pytest.raises(SystemExit) as end:
            main(["prepare", task, str(folder / "out"), "--tokenizer", str(gpt2), *map(str, words)])
        message = end.value.code
        assert message.startswith("fairseq-linformer: ") and "\n" not in message and not os.listdir(folder)
        return message

    return error_of
