"""A Linformer from fairseq's RoBERTa."""

import argparse

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.roberta import from_roberta
from fairseq_linformer.config import PROJECTIONS, SHARING

from ..stock import PLUGIN, TINY, command, load, train

ROBERTA = ["--arch", "roberta", *TINY[2:-2], "--encoder-layers", "2"]


@pytest.fixture(scope="module", params=["post-norm", "pre-norm, untied"])
def roberta(request, mlm_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("roberta")
    options = ["--encoder-normalize-before", "--untie-weights-roberta"] if request.param != "post-norm" else []
    train(mlm_data, folder, *options, model=ROBERTA, updates=3)
    return folder / "checkpoint_last.pt"


def model_of(checkpoint, folder):
    torch.save(checkpoint, folder / "new.pt")
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(folder / "new.pt")])
    return model.eval()


def batch():
    tokens = torch.randint(4, 40, (3, 16), generator=torch.Generator().manual_seed(0))
    tokens[1, 9:] = 1
    return tokens


def test_with_as_many_projected_positions_it_is_roberta(roberta, tmp_path):
    (theirs,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(roberta)])
    ours = model_of(from_roberta(read_checkpoint(roberta), projected_dim=16), tmp_path)
    real = batch().ne(1)
    torch.testing.assert_close(ours(batch())[0][real], theirs.eval()(batch())[0][real], rtol=0, atol=1e-5)


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("sharing", SHARING)
def test_every_variant_keeps_all_weights(roberta, tmp_path, sharing, projection):
    k = {"none": "8/4,5", "layerwise": 8}.get(sharing, "8,5")
    old = read_checkpoint(roberta)
    new = from_roberta(old, projected_dim=k, sharing=sharing, projection=projection)
    weights = {key: value for key, value in old["model"].items() if not key.endswith(".version")}
    assert all(torch.equal(value, new["model"][key]) for key, value in weights.items())
    assert (new["cfg"]["model"]["projected_dim"], new["cfg"]["model"]["sharing"]) == (k, sharing)
    assert model_of(new, tmp_path).state_dict().keys() == new["model"].keys()


@pytest.mark.slow
@pytest.mark.parametrize("sharing, k, projection", [("none", "8/4,5", "linear"), ("layerwise", 8, "conv")])
def test_it_is_trained_on(roberta, mlm_data, tmp_path, sharing, k, projection):
    new = from_roberta(read_checkpoint(roberta), projected_dim=k, sharing=sharing, projection=projection)
    torch.save(new, tmp_path / "new.pt")
    flags = {
        "--encoder-normalize-before": "encoder_normalize_before",
        "--untie-weights-roberta": "untie_weights_roberta",
    }
    options = [flag for flag, option in flags.items() if new["cfg"]["model"][option]]
    train(mlm_data, tmp_path / "more", *options, "--sharing", sharing, "--projected-dim", k, "--projection", projection,
          "--finetune-from-model", tmp_path / "new.pt", updates=2)  # fmt: skip


def test_another_length(roberta, tmp_path):
    """Tiled position embeddings; what was n = 16 is the first half."""
    old = read_checkpoint(roberta)
    model = model_of(from_roberta(old, projected_dim=32, max_positions=32), tmp_path)
    (theirs,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(roberta)])
    real = batch().ne(1)
    torch.testing.assert_close(model(batch())[0][real], theirs.eval()(batch())[0][real], rtol=0, atol=1e-5)
    assert model(torch.randint(4, 40, (1, 32)))[0].shape[:2] == (1, 32)


def test_checkpoints_as_old_as_roberta_base(roberta, tmp_path):
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
    torch.save({"args": args, "model": state, "extra_state": {"epoch": 1}, "optimizer_history": [{"num_updates": 3, "optimizer_name": "x",
                "lr_scheduler_state": {}}]}, tmp_path / "old.pt")  # fmt: skip
    converted = from_roberta(read_checkpoint(tmp_path / "old.pt"), projected_dim=8)
    expected = from_roberta(read_checkpoint(roberta), projected_dim=8)
    assert converted["model"].keys() == expected["model"].keys()
    assert all(torch.equal(value, expected["model"][key]) for key, value in converted["model"].items())
    assert converted["cfg"]["model"] == expected["cfg"]["model"]


def test_refusals(roberta):
    old = read_checkpoint(roberta)
    with pytest.raises(ValueError, match="projected_dim is 17"):
        from_roberta(old, projected_dim=17)
    with pytest.raises(ValueError, match="Linformer"):
        from_roberta(from_roberta(old, projected_dim=8), projected_dim=8)


@pytest.mark.slow
def test_a_warm_start_beats_a_cold_one_at_equal_updates(mlm_data, tmp_path):
    """The same 60 updates of a Linformer, from a RoBERTa that has learnt the text and from nothing."""
    sizes = ["--dropout", "0", "--attention-dropout", "0", "--lr", "0.005", "--encoder-normalize-before"]
    train(mlm_data, tmp_path / "roberta", *sizes, model=ROBERTA, updates=400)
    torch.save(
        from_roberta(read_checkpoint(tmp_path / "roberta" / "checkpoint_last.pt"), projected_dim=8),
        tmp_path / "warm.pt",
    )
    warm = train(mlm_data, tmp_path / "warm", *sizes, "--finetune-from-model", tmp_path / "warm.pt", updates=60)
    cold = train(mlm_data, tmp_path / "cold", *sizes, updates=60)
    assert sum(warm[-20:]) / 20 < sum(cold[-20:]) / 20 - 0.5
    command("validate", mlm_data, "--user-dir", PLUGIN, "--task", "masked_lm", "--path", tmp_path / "warm" / "checkpoint_last.pt",
            "--batch-size", "8", "--cpu", "--num-workers", "0")  # fmt: skip
