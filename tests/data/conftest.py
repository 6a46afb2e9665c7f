"""A GPT-2 tokenizer shared by the tests."""

import pytest

from fairseq_linformer.data.tokenizer import GPT2

from ..fairseq_preprocessing import write_gpt2


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    """The folder of its files."""
    return write_gpt2(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def bpe(gpt2):
    return GPT2(gpt2)
