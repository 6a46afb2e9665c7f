"""Checkpoints, folders and names that cannot be loaded are refused."""

import json
import shutil

import pytest
import torch

from fairseq_linformer.analysis.loading import load_model


def test_a_checkpoint_of_a_development_version_is_refused(linformer, tmp_path):
    checkpoint = torch.load(linformer(projected_dim=5, sharing="headwise", projection_lr_scale=0.5), weights_only=True)
    checkpoint["model"] = {key: value for key, value in checkpoint["model"].items() if not key.endswith(".start")}
    torch.save(checkpoint, tmp_path / "old.pt")
    with pytest.raises(ValueError, match="0.2"):
        load_model(tmp_path / "old.pt", tokenizer=False)


def test_a_model_without_attention_weights(bert):
    with pytest.raises(ValueError, match="fnet gives no attention weights"):
        load_model(str(bert / "fnet"))


def test_refusals(roberta, bert, tmp_path):
    (tmp_path / "text").write_text("no checkpoint")
    for path, options, named in (
        (roberta, {"device": "abacus"}, "abacus"),
        (roberta, {"device": "meta"}, "meta"),
        (tmp_path / "missing", {}, "missing"),
        ("nothere.pt", {}, "nothere.pt"),
        (str(bert / "bert"), {"dictionary": "x"}, "dictionary is x"),
        (tmp_path / "text", {}, "text"),
    ):
        with pytest.raises(ValueError, match=named):
            load_model(path, **options)
    (tmp_path / "model.pt").write_bytes(roberta.read_bytes())
    with pytest.raises(ValueError, match="sentencepiece.bpe.model"):
        load_model(tmp_path / "model.pt")
    assert load_model(tmp_path / "model.pt", tokenizer=False).tokenizer is None


def test_a_folder_of_transformers_that_is_not_whole(bert, tmp_path):
    """transformers invents a tokenizer without words, and layers at random."""

    def copied(name, **config):
        shutil.copytree(bert / "bert", tmp_path / name)
        config_before = json.loads((tmp_path / name / "config.json").read_text())
        (tmp_path / name / "config.json").write_text(json.dumps({**config_before, **config}))
        return tmp_path / name

    with pytest.raises(ValueError, match="16 parameters, such as encoder.layer.2.attention"):
        load_model(str(copied("layers", num_hidden_layers=3)))
    for path in copied("words").iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            path.unlink()
    with pytest.raises(ValueError, match="words has no tokenizer"):
        load_model(str(tmp_path / "words"))
    assert load_model(str(tmp_path / "words"), tokenizer=False).n == 24
