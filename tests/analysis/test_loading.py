"""Checkpoints, folders and names that cannot be loaded are rejected."""

import json
import shutil

import pytest

from fairseq_linformer.analysis.loading import load_model


def test_model_without_attention_weights_is_rejected(bert):
    with pytest.raises(ValueError, match="fnet returns no attention weights"):
        load_model(str(bert / "fnet"))


def test_rejected_arguments(roberta, bert, tmp_path):
    with pytest.raises(ValueError, match="bert has its own tokenizer"):
        load_model(str(bert / "bert"), dictionary="x")
    (tmp_path / "model.pt").write_bytes(roberta.read_bytes())
    with pytest.raises(ValueError, match="dict.txt"):
        load_model(tmp_path / "model.pt")


def test_incomplete_transformers_folder_is_rejected(bert, tmp_path):
    """transformers initializes missing layers at random, and builds a tokenizer without words."""

    def copy(name, **config):
        shutil.copytree(bert / "bert", tmp_path / name)
        original = json.loads((tmp_path / name / "config.json").read_text())
        (tmp_path / name / "config.json").write_text(json.dumps({**original, **config}))
        return tmp_path / name

    with pytest.raises(ValueError, match=r"do not match its config.json: encoder.layer.2.attention.\S+ is missing"):
        load_model(str(copy("layers", num_hidden_layers=3)))
    for path in copy("words").iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            path.unlink()
    with pytest.raises(ValueError, match="words has no tokenizer"):
        load_model(str(tmp_path / "words"))


def test_a_local_window_is_rejected(linformer):
    with pytest.raises(ValueError, match="local_window must be 0"):
        load_model(linformer(projected_dim=4, local_window=2))
