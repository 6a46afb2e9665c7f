"""All of these need what the extra ``huggingface`` installs."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")
