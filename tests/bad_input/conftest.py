"""The folder in which the cases run."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from ..data.conftest import gpt2  # noqa: F401  fixtures
from .world import world  # noqa: F401  fixture
