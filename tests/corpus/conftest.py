"""A tokenizer's files, shared by the tests."""

import pytest

from ..stock_text import write_gpt2


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("gpt2"))
