"""A tokenizer shared by the tests."""

import pytest

from fairseq_linformer.corpus.tokenizer import GPT2

from ..fairseq_preprocessing import write_gpt2


@pytest.fixture(scope="session")
def gpt2_files(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def gpt2(gpt2_files):
    return GPT2(gpt2_files)
