"""The files that the targets start from."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")
pytest.importorskip("pyarrow")

from ..bad_input.world import world  # noqa: F401  fixture
