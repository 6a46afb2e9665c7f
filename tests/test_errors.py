"""The first line of what others say, which may be nothing."""

import pytest

from fairseq_linformer.corpus.plan import make_plan
from fairseq_linformer.corpus.sources import parse
from fairseq_linformer.errors import first_line


@pytest.mark.parametrize("said, line", [("one\ntwo", "one"), ("\n one \n", "one"), ("", ""), (ValueError(), ""), (OSError("a\nb"), "a")])
def test_first_line(said, line):
    assert first_line(said) == line


def test_a_hub_that_fails_without_a_word(monkeypatch):
    import huggingface_hub

    def info(*_, **__):
        raise TimeoutError

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", info)
    with pytest.raises(ValueError, match="the hub's some/name cannot be reached: TimeoutError"):
        make_plan([parse("hub:some/name")], 1)
