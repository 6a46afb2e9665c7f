"""Files of models on the hub, without a network."""

from unittest.mock import Mock

import pytest
from huggingface_hub import constants

from fairseq_linformer.checkpoints.transformers_loading import find_hub_file, find_weights, load_from_transformers


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
    with pytest.raises(ValueError, match="has no model.safetensors, or it is not cached and the hub cannot be reached"):
        find_weights("me/model")
    with pytest.raises(ValueError, match="cannot load no name, which is neither a file nor a folder here.*Repo id"):
        find_hub_file("no name", "modules.json")


def test_a_long_reason_ends_with_a_whole_word():
    loader = Mock(from_pretrained=Mock(side_effect=OSError("because\n" * 40)))
    with pytest.raises(ValueError, match=r"from the hub: (because )+\.\.\.$"):
        load_from_transformers(loader, "me/model")


def test_files_of_a_folder_are_not_asked_from_the_hub(cache):
    assert find_hub_file(str(cache.parent), "config.json") == cache
    assert find_hub_file(str(cache.parent), "modules.json") is None
