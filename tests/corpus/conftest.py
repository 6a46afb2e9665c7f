"""Files of a GPT-2 tokenizer, shared by the tests."""

import pytest

from ..fairseq_preprocessing import write_gpt2


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("gpt2"))
