"""Checkpoints, folders and names that cannot be loaded are rejected."""

import shutil

import pytest

from fairseq_linformer.analysis.loading import load_model


def test_rejected_arguments(roberta, bert, tmp_path):
    with pytest.raises(ValueError, match="bert.* has its own tokenizer"):
        load_model(str(bert), dictionary="x")
    (tmp_path / "model.pt").write_bytes(roberta.read_bytes())
    with pytest.raises(ValueError, match="dict.txt"):
        load_model(tmp_path / "model.pt")


def test_a_folder_without_a_tokenizer_is_rejected(bert, tmp_path):
    """transformers builds one without words."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(bert / name, tmp_path)
    with pytest.raises(ValueError, match="has no tokenizer"):
        load_model(str(tmp_path))


def test_a_local_window_is_rejected(linformer):
    with pytest.raises(ValueError, match="local_window must be 0"):
        load_model(linformer(projected_dim=4, local_window=2))
