"""These tests need the extra ``huggingface``."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")
