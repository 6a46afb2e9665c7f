"""Files of models on the hub, without a network."""

import pytest
from huggingface_hub import constants

from fairseq_linformer.checkpoints.transformers_loading import find_hub_file, find_weights


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The hub's cache, which has a file of me/model."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    file = tmp_path / "models--me--model/snapshots/abc/1_Pooling/config.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    (tmp_path / "models--me--model/refs").mkdir()
    (tmp_path / "models--me--model/refs/main").write_text("abc")
    return file


def test_files_of_the_hub_are_those_in_its_cache(cache):
    assert find_hub_file("me/model", "1_Pooling/config.json") == cache
    assert find_hub_file("me/model", "modules.json") is None
    with pytest.raises(ValueError, match="has no model.safetensors, or it is not cached; a pickle can contain code"):
        find_weights("me/model")
    with pytest.raises(ValueError, match="cannot load no name, which is neither a file nor a folder here.*Repo id"):
        find_hub_file("no name", "modules.json")


def test_a_file_that_may_exist_is_not_missing(cache, monkeypatch):
    """The hub cannot be reached, and only one of the files is known not to exist."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    (cache.parents[3] / ".no_exist/abc").mkdir(parents=True)
    (cache.parents[3] / ".no_exist/abc/modules.json").touch()
    assert find_hub_file("me/model", "modules.json") is None
    with pytest.raises(ValueError, match="cannot load me/model, .*, from the hub"):
        find_hub_file("me/model", "config_sentence_transformers.json")
