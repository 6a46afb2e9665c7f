"""The folder in which the cases run."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from .world import world  # noqa: F401  fixture
