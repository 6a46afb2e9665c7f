"""A command line and the checkpoints of the authors' plugin, after changing --user-dir alone."""

import argparse

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_linformer.finetuning.start import open_start
from fairseq_linformer.models import LinformerRobertaConfig, LinformerRobertaModel, authors
from fairseq_linformer.models.options import resolve
from fairseq_linformer.modules import LinearProjection

from .. import authors as theirs
from ..stock import PLUGIN, TINY, TRAIN, command, finetune, load, train

SIZES = ["--arch", "linformer_roberta_base", "--encoder-layers", "2", *TINY[2:-2]]
MODES = {
    "headwise": ["--compressed", "2"],
    "key-value": ["--compressed", "3", "--shared-kv-compressed", "1"],
    "layerwise": [
        "--compressed",
        "4",
        "--shared-kv-compressed",
        "1",
        "--shared-layer-kv-compressed",
        "1",
        "--freeze-compress",
        "1",
    ],
    "layerwise, values apart": ["--compressed", "2", "--shared-layer-kv-compressed", "1"],
}


def batches():
    """Without padding, whole and short; and shorter than k."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(4, 40, (2, length), generator=generator) for length in (16, 11, 3)]


@pytest.fixture(scope="module", params=MODES)
def checkpoint(request, mlm_data, tmp_path_factory):
    theirs.require()
    folder = tmp_path_factory.mktemp("authors")
    return request.param, theirs.train(mlm_data, folder, *TRAIN, *SIZES, *MODES[request.param])


def check(path, folder):
    """Loaded from what the checkpoint says of itself, features and logits equal theirs."""
    expected = theirs.features(path, batches(), folder)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    assert isinstance(model.eval(), LinformerRobertaModel)
    for batch, (features, logits) in zip(batches(), expected):
        torch.testing.assert_close(model(batch, features_only=True)[0], features, rtol=0, atol=1e-5)
        torch.testing.assert_close(model(batch)[0], logits, rtol=0, atol=1e-5)
    return model


@pytest.mark.slow
def test_features_are_theirs(checkpoint, tmp_path):
    mode, path = checkpoint
    model = check(path, tmp_path)
    assert model.args.sharing == mode.split(",")[0]
    assert {p.offset for p in model.modules() if isinstance(p, LinearProjection)} == {None}
    # A new model of its options has no windows either: finetuned from scratch it is the same but for what was learnt.
    assert "++model.projection_init='normal'" in (said := open_start(path, tmp_path / "runs").overrides), said


@pytest.mark.slow
def test_version_1_too(checkpoint, tmp_path):
    """Which did not share, whatever its options said."""
    mode, path = checkpoint
    model = check(theirs.as_version_1(path, tmp_path / "old.pt"), tmp_path)
    assert model.args.sharing == ("headwise" if mode == "headwise" else "key-value")
    assert model.args.untie_weights_roberta


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", ["layerwise"], indirect=True)
def test_training_validation_finetuning_and_hub(checkpoint, mlm_data, class_data, tmp_path, caplog):
    mode, path = checkpoint
    command("validate", mlm_data, "--user-dir", PLUGIN, "--task", "masked_lm", "--path", path, "--batch-size", "8", "--cpu",
            "--num-workers", "0")  # fmt: skip
    losses = train(mlm_data, tmp_path / "more", "--finetune-from-model", path, model=[*SIZES, *MODES[mode]], updates=3)
    assert len(losses) == 3
    # What is saved then is this model's, and loads without the authors' options.
    saved = load(tmp_path / "more")
    assert not authors.is_authors(saved["model"]) and saved["cfg"]["model"]["compressed"] is None
    assert saved["cfg"]["model"]["sharing"] == mode.split(",")[0]
    (again,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "more" / "checkpoint_last.pt")])
    assert {p.offset for p in again.modules() if isinstance(p, LinearProjection)} == {None}

    finetune(class_data, tmp_path / "task", "--finetune-from-model", path, *SIZES, *MODES[mode])
    assert load(tmp_path / "task")["cfg"]["model"]["sharing"] == mode.split(",")[0]

    hub = LinformerRobertaModel.from_pretrained(str(path.parent), path.name, mlm_data, bpe="characters")
    batch = batches()[0]
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    assert torch.equal(hub.eval().extract_features(batch), model.eval()(batch, features_only=True)[0])


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", ["layerwise, values apart"], indirect=True)
def test_version_1_trains_on_as_what_it_is(checkpoint, mlm_data, tmp_path):
    mode, path = checkpoint
    old = theirs.as_version_1(path, tmp_path / "old.pt")
    train(mlm_data, tmp_path / "more", "--finetune-from-model", old, model=[*SIZES, *MODES[mode]], updates=1)
    saved = load(tmp_path / "more")["cfg"]["model"]
    assert saved["sharing"] == ("headwise" if mode == "headwise" else "key-value")
    assert saved["untie_weights_roberta"]
    checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "more" / "checkpoint_last.pt")])


@pytest.mark.parametrize("mode", MODES)
def test_the_log_says_what_their_options_mean(mlm_data, tmp_path, caplog, mode):
    caplog.set_level("INFO")
    train(mlm_data, tmp_path, model=[*SIZES, *MODES[mode]], updates=1)
    k = 16 // int(MODES[mode][1])
    frozen = " --freeze-projections" if "--freeze-compress" in MODES[mode] else ""
    said = f"--projected-dim {k} --sharing {mode.split(',')[0]}{frozen};"
    theirs = "with --projection-init normal" + " --projection-lr-scale 1" * (not frozen)
    assert any(said in line and line.endswith(theirs) for line in (record.getMessage() for record in caplog.records))


def options(**given):
    defaults = {key: field.default for key, field in LinformerRobertaConfig.__dataclass_fields__.items()}
    return argparse.Namespace(**{**defaults, "arch": "linformer_roberta_tiny", "max_positions": 16, **given})


@pytest.mark.parametrize(
    "given",
    [
        dict(compressed=0),
        dict(compressed=17),
        dict(freeze_compress=2),
        dict(projected_dim="8", compressed=2),
        dict(sharing="layerwise", shared_kv_compressed=1),
    ],
    ids=str,
)
def test_refusals(given):
    name, value = next(iter(given.items()))
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        resolve(options(**given))


def test_their_defaults():
    args = resolve(options(shared_kv_compressed=1))
    assert (args.projected_dim, args.sharing, args.freeze_projections) == (4, "key-value", False)
