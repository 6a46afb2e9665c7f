"""Conversion of fairseq's RoBERTa to a Linformer."""

import argparse
from functools import cache

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.roberta import from_roberta
from fairseq_linformer.config import PROJECTIONS, SHARING

from ..fairseq_commands import PLUGIN, TINY, command, load, train

ROBERTA = ["--arch", "roberta", *TINY[2:-2], "--encoder-layers", "2"]


KINDS = {"post-norm": [], "pre-norm, untied": ["--encoder-normalize-before", "--untie-weights-roberta"]}


@pytest.fixture(scope="module")
def train_roberta(mlm_data, tmp_path_factory):
    """A function from the kind to the checkpoint of a RoBERTa."""

    @cache
    def make(kind):
        folder = tmp_path_factory.mktemp("roberta")
        train(mlm_data, folder, *KINDS[kind], model=ROBERTA, updates=3)
        return folder / "checkpoint_last.pt"

    return make


@pytest.fixture(params=KINDS)
def roberta(request, train_roberta):
    return train_roberta(request.param)


@pytest.fixture
def post_norm(train_roberta):
    return train_roberta("post-norm")


def model_of(checkpoint, folder):
    torch.save(checkpoint, folder / "new.pt")
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(folder / "new.pt")])
    return model.eval()


def batch():
    tokens = torch.randint(4, 40, (3, 16), generator=torch.Generator().manual_seed(0))
    tokens[1, 9:] = 1
    return tokens


@pytest.mark.parametrize("local_window", [0, 5])
def test_k_equal_to_n_is_roberta(roberta, tmp_path, local_window):
    (theirs,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(roberta)])
    ours = model_of(from_roberta(read_checkpoint(roberta), projected_dim=16, local_window=local_window), tmp_path)
    real = batch().ne(1)
    torch.testing.assert_close(ours(batch())[0][real], theirs.eval()(batch())[0][real], rtol=0, atol=1e-5)


@pytest.mark.parametrize("sharing, k, exact", [("headwise", 8, 4), ("layerwise", 11, 5), ("none", "8/12,6", 3)])
def test_short_inputs_keep_their_features(roberta, tmp_path, sharing, k, exact):
    """Up to k / 2 tokens, of the smallest k; a longer input does not."""
    (theirs,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(roberta)])
    theirs = theirs.double().eval()
    ours = model_of(from_roberta(read_checkpoint(roberta), projected_dim=k, sharing=sharing), tmp_path).double()
    for n, at_least, at_most in ((exact, 0, 1e-7), (exact - 1, 0, 1e-7), (13, 1e-6, 1)):
        tokens = batch()[:, :n]
        real = tokens.ne(1)
        difference = (ours(tokens)[0] - theirs(tokens)[0])[real].abs().max()
        assert at_least <= difference < at_most


@pytest.mark.parametrize(
    "options, expected",
    [({}, "graded"), ({"projection_init": "average"}, "average"), ({"projection": "max-pool"}, None)],
)
def test_linear_projections_are_graded_by_default(roberta, options, expected):
    new = from_roberta(read_checkpoint(roberta), projected_dim=8, **options)
    assert new["cfg"]["model"]["projection_init"] == expected


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("sharing", SHARING)
def test_every_variant_keeps_all_weights(post_norm, tmp_path, sharing, projection):
    k = {"none": "8/4,5", "layerwise": 8}.get(sharing, "8,5")
    old = read_checkpoint(post_norm)
    new = from_roberta(old, projected_dim=k, sharing=sharing, projection=projection)
    weights = {key: value for key, value in old["model"].items() if not key.endswith(".version")}
    assert all(torch.equal(value, new["model"][key]) for key, value in weights.items())
    assert (new["cfg"]["model"]["projected_dim"], new["cfg"]["model"]["sharing"]) == (k, sharing)
    assert model_of(new, tmp_path).state_dict().keys() == new["model"].keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, sharing, k, projection",
    [("post-norm", "none", "8/4,5", "linear"), ("pre-norm, untied", "layerwise", 8, "conv")],
)
def test_training_continues(train_roberta, mlm_data, tmp_path, kind, sharing, k, projection):
    new = from_roberta(read_checkpoint(train_roberta(kind)), projected_dim=k, sharing=sharing, projection=projection)
    torch.save(new, tmp_path / "new.pt")
    flags = {
        "--encoder-normalize-before": "encoder_normalize_before",
        "--untie-weights-roberta": "untie_weights_roberta",
    }
    options = [flag for flag, option in flags.items() if new["cfg"]["model"][option]]
    train(
        mlm_data,
        tmp_path / "more",
        *options,
        "--sharing",
        sharing,
        "--projected-dim",
        k,
        "--projection",
        projection,
        "--finetune-from-model",
        tmp_path / "new.pt",
        updates=2,
    )


def test_conversion_to_another_n(roberta, tmp_path):
    """Position embeddings are tiled; the first half is the original."""
    old = read_checkpoint(roberta)
    model = model_of(from_roberta(old, projected_dim=32, max_positions=32), tmp_path)
    (theirs,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(roberta)])
    real = batch().ne(1)
    torch.testing.assert_close(model(batch())[0][real], theirs.eval()(batch())[0][real], rtol=0, atol=1e-5)
    assert model(torch.randint(4, 40, (1, 32)))[0].shape[:2] == (1, 32)


@pytest.mark.slow
def test_old_checkpoints_such_as_roberta_base(roberta, tmp_path):
    """roberta.base has ``args``, calls its encoder ``decoder`` and keeps queries, keys and values in one matrix."""
    new = load(roberta.parent)
    state = {}
    for key, value in new["model"].items():
        old = key.replace("encoder.", "decoder.", 1).replace("layernorm_embedding", "emb_layer_norm")
        if ".q_proj." in key:
            parts = [new["model"][key.replace("q_proj", f"{name}_proj")] for name in "qkv"]
            state[old.replace("q_proj.", "in_proj_")] = torch.cat(parts)
        elif ".k_proj." not in key and ".v_proj." not in key:
            state[old] = value
    args = argparse.Namespace(**{**vars(new["cfg"]["model"]), "task": "masked_lm", "data": str(tmp_path)})
    torch.save(
        {
            "args": args,
            "model": state,
            "extra_state": {"epoch": 1},
            "optimizer_history": [{"num_updates": 3, "optimizer_name": "x", "lr_scheduler_state": {}}],
        },
        tmp_path / "old.pt",
    )
    converted = from_roberta(read_checkpoint(tmp_path / "old.pt"), projected_dim=8)
    expected = from_roberta(read_checkpoint(roberta), projected_dim=8)
    assert converted["model"].keys() == expected["model"].keys()
    assert all(torch.equal(value, expected["model"][key]) for key, value in converted["model"].items())
    assert converted["cfg"]["model"] == expected["cfg"]["model"]


def test_rejections(post_norm):
    old = read_checkpoint(post_norm)
    with pytest.raises(ValueError, match="projected_dim .* got 17"):
        from_roberta(old, projected_dim=17)
    for local_window in (-1, 16):
        with pytest.raises(ValueError, match=f"local_window .* got {local_window}"):
            from_roberta(old, projected_dim=8, local_window=local_window)
    with pytest.raises(ValueError, match="Linformer"):
        from_roberta(from_roberta(old, projected_dim=8), projected_dim=8)


@pytest.mark.slow
def test_conversion_beats_training_from_scratch_at_equal_updates(mlm_data, tmp_path):
    """60 updates of a Linformer, from a RoBERTa that was trained on the text and from scratch."""
    sizes = ["--dropout", "0", "--attention-dropout", "0", "--lr", "0.005", "--encoder-normalize-before"]
    train(mlm_data, tmp_path / "roberta", *sizes, model=ROBERTA, updates=300)
    torch.save(
        from_roberta(read_checkpoint(tmp_path / "roberta" / "checkpoint_last.pt"), projected_dim=8),
        tmp_path / "warm.pt",
    )
    warm = train(mlm_data, tmp_path / "warm", *sizes, "--finetune-from-model", tmp_path / "warm.pt", updates=60)
    cold = train(mlm_data, tmp_path / "cold", *sizes, updates=60)
    assert sum(warm[-20:]) / 20 < sum(cold[-20:]) / 20 - 0.5
    command(
        "validate",
        mlm_data,
        "--user-dir",
        PLUGIN,
        "--task",
        "masked_lm",
        "--path",
        tmp_path / "warm" / "checkpoint_last.pt",
        "--batch-size",
        "8",
        "--cpu",
        "--num-workers",
        "0",
    )
