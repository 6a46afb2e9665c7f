"""The first line of an error message, which may be empty."""

import pytest

from fairseq_linformer.data.sources import locate_source, parse_source
from fairseq_linformer.errors import first_line


@pytest.mark.parametrize(
    "message, line",
    [
        ("one\ntwo", "one"),
        ("\n one \n", "one"),
        ("Errors:\n\tone\n\ttwo", "Errors: one"),
        ("", ""),
        (ValueError(), ""),
        (OSError("a\nb"), "a"),
    ],
)
def test_first_line(message, line):
    assert first_line(message) == line


def test_hub_error_without_a_message(monkeypatch):
    import huggingface_hub

    def info(*_, **__):
        raise TimeoutError

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", info)
    with pytest.raises(ValueError, match="some/name.*TimeoutError"):
        locate_source(parse_source("hub:some/name"))
