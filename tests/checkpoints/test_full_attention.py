"""Models without projection, fairseq's RoBERTa: converted, exported, and in checkpoints of ``roberta_eps``."""

from argparse import Namespace

import pytest
import torch
from transformers import AutoModelForMaskedLM

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.export import export_checkpoint
from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.models import build_model, open_checkpoint
from fairseq_linformer.checkpoints.to_linformer import resize
from fairseq_linformer.models import LinformerRobertaModel

from ..fairseq_commands import load, load_model
from .test_to_linformer import batch

CLOSE = dict(rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def roberta(train_roberta):
    return train_roberta("--encoder-normalize-before")


def logits(model):
    with torch.no_grad():
        return model.eval()(batch())[0][batch().ne(1)]


@pytest.fixture(scope="module")
def old(roberta, mlm_data, tmp_path_factory):
    """A checkpoint of the architecture ``roberta_eps``, as an earlier version wrote it, and its logits."""
    checkpoint = load(roberta.parent)
    options = vars(checkpoint["cfg"]["model"])
    for name in ("_name", "arch"):
        options[name] = "roberta_eps"
    model = load_model(roberta)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 0.5  # far from the default
    checkpoint["cfg"]["model"] = Namespace(**options, layer_norm_eps=0.5)
    path = tmp_path_factory.mktemp("old") / "old.pt"
    torch.save(checkpoint, path)
    return path, logits(model)


def test_old_checkpoints_of_roberta_eps_load(old, mlm_data):
    path, expected = old
    for model in (
        load_model(path),
        build_model(open_checkpoint(path)),
        LinformerRobertaModel.from_pretrained(str(path.parent), path.name, mlm_data, bpe="characters").model,
    ):
        assert model.args.projection == "none"
        torch.testing.assert_close(logits(model), expected, **CLOSE)


def test_conversion_without_projection(roberta, tmp_path):
    convert(roberta, tmp_path / "same", projection="none")
    options = load(tmp_path / "same", "model.pt")["cfg"]["model"]
    assert (options["_name"], options["projection"]) == ("linformer_roberta", "none")
    assert options["projected_dim"] is options["sharing"] is None and options["local_window"] == 0
    expected = logits(load_model(roberta))
    torch.testing.assert_close(logits(load_model(tmp_path / "same" / "model.pt")), expected, **CLOSE)
    # And it is an encoder, which becomes a Linformer.
    convert(tmp_path / "same" / "model.pt", tmp_path / "linformer", projected_dim=16)
    torch.testing.assert_close(logits(load_model(tmp_path / "linformer" / "model.pt")), expected, **CLOSE)
    with pytest.raises(ValueError, match="local_window must be unset with projection 'none'"):
        convert(roberta, tmp_path / "no", projection="none", local_window=4)


def test_export_and_import(roberta, tmp_path):
    convert(roberta, tmp_path / "same", projection="none")
    export_checkpoint(tmp_path / "same" / "model.pt", tmp_path / "hf", tokenizer=False)
    assert "\nA RoBERTa, exported by" in (tmp_path / "hf/README.md").read_text()
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    expected = logits(load_model(roberta))
    with torch.no_grad():
        torch.testing.assert_close(model(batch()).logits[batch().ne(1)], expected, **CLOSE)
    convert(tmp_path / "hf", tmp_path / "back", arch="roberta")
    ours, theirs = (read_checkpoint(tmp_path / name / "model.pt")["model"] for name in ("back", "same"))
    assert ours.keys() == theirs.keys() and all(torch.equal(value, theirs[key]) for key, value in ours.items())
    with pytest.raises(ValueError, match="must be a checkpoint of linformer_roberta, got architecture 'roberta'"):
        export_checkpoint(roberta, tmp_path / "no", tokenizer=False)


def test_a_resized_roberta_keeps_its_final_layer_norm(roberta):
    """fairseq drops it from a pre-norm checkpoint without the buffer ``version``."""
    model = build_model(resize(read_checkpoint(roberta), 32))
    assert model.encoder.sentence_encoder.layer_norm is not None
