"""Commands and checkpoints of the authors' plugin work after changing only --user-dir."""

import argparse

import pytest
import torch
from transformers import AutoModelForMaskedLM

import fairseq_linformer.huggingface  # noqa: F401  registers the model
from fairseq_linformer.checkpoints.export import export_checkpoint
from fairseq_linformer.checkpoints.identify import identify
from fairseq_linformer.checkpoints.models import build_model, open_checkpoint
from fairseq_linformer.models import LinformerRobertaConfig, LinformerRobertaModel, authors_plugin
from fairseq_linformer.models.options import resolve_options
from fairseq_linformer.modules import LinearProjection
from fairseq_linformer.training.initial_checkpoint import open_initial_checkpoint

from .. import authors_plugin as theirs
from ..fairseq_commands import TINY, TRAIN, finetune, load, load_model, train

SIZES = ["--arch", "linformer_roberta_base", "--encoder-layers", "2", *TINY[2:-2]]
MODES = {
    "headwise": ["--compressed", "2"],
    "key-value": ["--compressed", "3", "--shared-kv-compressed", "1"],
    "layerwise": "--compressed 4 --shared-kv-compressed 1 --shared-layer-kv-compressed 1 --freeze-compress 1".split(),
    "layerwise, values apart": ["--compressed", "2", "--shared-layer-kv-compressed", "1"],
}


def batches():
    """Unpadded inputs of full length, shorter, and shorter than k."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(4, 40, (2, length), generator=generator) for length in (16, 11, 3)]


@pytest.fixture(scope="module", params=MODES)
def checkpoint(request, mlm_data, tmp_path_factory):
    theirs.skip_without_plugin()
    folder = tmp_path_factory.mktemp("authors")
    return request.param, theirs.train(mlm_data, folder, *TRAIN, *SIZES, *MODES[request.param])


def assert_equal_features(model, expected):
    """Features and logits are the authors'."""
    model.eval()
    for batch, (features, logits) in zip(batches(), expected, strict=True):
        torch.testing.assert_close(model(batch, features_only=True)[0], features, rtol=0, atol=1e-5)
        torch.testing.assert_close(model(batch)[0], logits, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_features_equal_the_authors(checkpoint, tmp_path):
    mode, path = checkpoint
    model = load_model(path)
    expected = theirs.extract_features(path, batches(), tmp_path)
    assert_equal_features(model, expected)
    assert isinstance(model, LinformerRobertaModel) and model.args.sharing == mode.split(",")[0]
    assert {p.layout.windows for p in model.modules() if isinstance(p, LinearProjection)} == {None}
    # A new model of its options has no windows either: finetuned from scratch it is the same but for what was learned.
    assert "++model.projection_init='normal'" in (
        overrides := open_initial_checkpoint(identify(path), tmp_path / "runs").overrides
    ), overrides
    export_checkpoint(path, tmp_path / "hf", tokenizer=False)
    exported = AutoModelForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    with torch.no_grad():
        for batch, (_, logits) in zip(batches(), expected, strict=True):
            torch.testing.assert_close(exported(batch).logits, logits, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", ["headwise", "layerwise"], indirect=True)
def test_features_equal_version_1(checkpoint, mlm_data, tmp_path):
    """It shared less than its options say, and had output embeddings of its own: conversion finds that, and
    ``fairseq-train`` needs the options."""
    mode, path = checkpoint
    sharing = "headwise" if mode == "headwise" else "key-value"
    old = theirs.convert_to_version_1(path, tmp_path / "old.pt")
    options = ["--sharing", sharing, "--projected-dim", 16 // int(MODES[mode][1]), "--untie-weights-roberta"]
    start = ["--finetune-from-model", old, "--lr", 0, "--stop-min-lr", -1]
    train(mlm_data, tmp_path / "more", *start, model=[*SIZES, *options], updates=1)
    expected = theirs.extract_features(old, batches(), tmp_path)
    for model in (build_model(open_checkpoint(old)), load_model(tmp_path / "more/checkpoint_last.pt")):
        assert_equal_features(model, expected)
        assert model.args.sharing == sharing and model.args.untie_weights_roberta
    with pytest.raises(ValueError, match="untie_weights_roberta must be True.*`fairseq-linformer convert`"):
        load_model(old)


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", ["layerwise"], indirect=True)
def test_authors_checkpoint_in_training_finetuning_and_hub(checkpoint, mlm_data, class_data, tmp_path):
    mode, path = checkpoint
    losses = train(mlm_data, tmp_path / "more", "--finetune-from-model", path, model=[*SIZES, *MODES[mode]], updates=3)
    assert len(losses) == 3
    # What is saved then is this model's, and loads without the authors' options.
    saved = load(tmp_path / "more")
    assert not authors_plugin.is_authors_state_dict(saved["model"]) and saved["cfg"]["model"]["compressed"] is None
    assert saved["cfg"]["model"]["sharing"] == mode.split(",")[0]
    again = load_model(tmp_path / "more" / "checkpoint_last.pt")
    assert {p.layout.windows for p in again.modules() if isinstance(p, LinearProjection)} == {None}

    finetune(class_data, tmp_path / "task", "--finetune-from-model", path, *SIZES, *MODES[mode])
    assert load(tmp_path / "task")["cfg"]["model"]["sharing"] == mode.split(",")[0]

    hub = LinformerRobertaModel.from_pretrained(str(path.parent), path.name, mlm_data, bpe="characters")
    batch = batches()[0]
    assert torch.equal(hub.eval().extract_features(batch), load_model(path)(batch, features_only=True)[0])


def options(**options_given):
    defaults = {key: field.default for key, field in LinformerRobertaConfig.__dataclass_fields__.items()}
    return argparse.Namespace(**{**defaults, "arch": "linformer_roberta_tiny", "max_positions": 16, **options_given})


@pytest.mark.parametrize(
    "options_given",
    [
        dict(compressed=0),
        dict(freeze_compress=2),
        dict(projected_dim="8", compressed=2),
        dict(sharing="layerwise", shared_kv_compressed=1),
    ],
    ids=str,
)
def test_rejected_options(options_given):
    name, value = next(iter(options_given.items()))
    with pytest.raises(ValueError, match=f"{name} must .* got {value}"):
        resolve_options(options(**options_given))


def test_default_ratio_and_sharing():
    args = resolve_options(options(shared_kv_compressed=1))
    assert (args.projected_dim, args.sharing, args.freeze_projections) == (4, "key-value", False)
    assert resolve_options(options(freeze_compress=1)).freeze_projections
