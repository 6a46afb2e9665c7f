"""The folder in which the cases run."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from ..task_data.conftest import gpt2, gpt2_files  # noqa: F401  fixtures
from .world import world  # noqa: F401  fixture
