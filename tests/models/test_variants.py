"""Kinds of projection, starts and forms of k through both front doors, and what is said if they do not fit."""

import pytest
import torch

from fairseq_linformer.models.shapes import shape_of

from ..stock import TINY, finetune, hydra_train, load, train

# Flags, the same as overrides of a YAML, and what a checkpoint then shows.
VARIANTS = {
    "k per layer": ("--projected-dim 8x1,4x1", "+model.projected_dim='8x1,4x1'", ("linear", "headwise", [8, 4])),
    "a list of k": ("--projected-dim 8,4", "+model.projected_dim=[8,4]", ("linear", "headwise", [8, 4])),
    "k per head": (
        "--sharing none --projected-dim 8/4,4", "model.sharing=none +model.projected_dim=[[8,4],4]", ("linear", "none", [(8, 4), 4])),
    "mean-pool": ("--projection mean-pool", "+model.projection=mean-pool", ("mean-pool", "none", [8, 8])),
    "max-pool": ("--projection max-pool --projected-dim 5", "+model.projection=max-pool +model.projected_dim=5", ("max-pool", "none", [5, 5])),
    "conv": ("--projection conv --projection-init normal", "+model.projection=conv +model.projection_init=normal", ("conv", "headwise", [8, 8])),
    "random": ("--projection random", "+model.projection=random", ("random", "headwise", [8, 8])),
    "normal": (
        "--projection-init normal --projection-lr-scale 1.0", "+model.projection_init=normal +model.projection_lr_scale=1.0",
        ("linear", "headwise", [8, 8])),
    "jl, frozen": (
        "--projection-init jl --freeze-projections", "+model.projection_init=jl +model.freeze_projections=true",
        ("linear", "headwise", [8, 8])),
}  # fmt: skip
YAML = [
    "+run=tiny", "task.tokens_per_sample=16", "dataset.batch_size=8", "optimization.max_update=2", "optimization.lr=[0.01]",
    "+model.encoder_embed_dim=16", "+model.encoder_ffn_embed_dim=32", "+model.encoder_attention_heads=2", "common.seed=7",
    "model.encoder_normalize_before=false", "optimization.clip_norm=0.0", "lr_scheduler.warmup_updates=0", "optimizer.weight_decay=0.0",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_both_front_doors_build_and_train_the_same(mlm_data, class_data, tmp_path, variant):
    flags, overrides, shape = VARIANTS[variant]
    by_flags = train(mlm_data, tmp_path / "flags", "--dropout", "0", "--attention-dropout", "0", "--adam-betas", "(0.9, 0.98)",
                     "--adam-eps", "1e-6", *flags.split(), updates=2)  # fmt: skip
    own_k = [] if "projected_dim" in overrides else ["model.projected_dim=8"]
    by_yaml = hydra_train(mlm_data, tmp_path / "yaml", *YAML, *own_k, *overrides.replace("+model.projected_dim", "model.projected_dim").split())
    assert by_flags == by_yaml and len(by_flags) == 2
    ours, theirs = load(tmp_path / "flags"), load(tmp_path / "yaml")
    assert all(torch.equal(value, theirs["model"][key]) for key, value in ours["model"].items())
    assert ours["cfg"]["model"] == theirs["cfg"]["model"]
    built = shape_of(ours["model"])
    assert (built.projection, built.sharing, built.projected_dims) == shape

    # It resumes, and it is finetuned.
    assert len(train(mlm_data, tmp_path / "flags", "--dropout", "0", *flags.split(), updates=3)) == 1
    finetune(class_data, tmp_path / "task", *TINY, *flags.split(), "--finetune-from-model",
             tmp_path / "flags" / "checkpoint_last.pt", updates=1)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "made_with, loaded_with, sentence",
    [
        ("--projection mean-pool", "--projection max-pool", "made with projection mean-pool, this model has max-pool"),
        ("--projection conv", "", "made with projection conv, this model has linear"),
        ("--projection mean-pool", "--projection mean-pool --projected-dim 4", "made with projected_dim 8, this model has 4"),
        ("--projection conv", "--projection conv --projected-dim 7", "made with projected_dim 8, this model has 7"),
        ("--projected-dim 8,4", "--projected-dim 4,8", "made with projected_dim 8,4, this model has 4,8"),
        ("--sharing none --projected-dim 8/4", "--sharing none", "made with projected_dim 8/4x2, this model has 8"),
    ],
)
def test_what_differs_is_named(mlm_data, tmp_path, caplog, made_with, loaded_with, sentence):
    train(mlm_data, tmp_path / "made", *made_with.split(), updates=1)
    with pytest.raises(Exception):
        train(mlm_data, tmp_path / "loaded", *loaded_with.split(), "--finetune-from-model", tmp_path / "made" / "checkpoint_last.pt", updates=1)
    assert any(sentence in record.getMessage() for record in caplog.records)


def test_layers_to_keep_keep_their_k(mlm_data, tmp_path):
    deep = ["--encoder-layers", "3", "--projected-dim", "8,4,2"]
    train(mlm_data, tmp_path / "deep", *deep, updates=1)
    train(mlm_data, tmp_path / "kept", *deep, "--encoder-layers-to-keep", "0,2", "--finetune-from-model",
          tmp_path / "deep" / "checkpoint_last.pt", updates=1)  # fmt: skip
    kept = load(tmp_path / "kept")
    assert shape_of(kept["model"]).projected_dims == [8, 2] and kept["cfg"]["model"]["projected_dim"] == "8,2"


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["", "--projection conv", "--sharing none --projected-dim 8/4,4", "--projection max-pool", "--projection random"])
def test_moving_averages_and_averaged_checkpoints(mlm_data, tmp_path, variant):
    """fairseq's --store-ema, and its script that averages checkpoints, take every buffer for a number."""
    train(mlm_data, tmp_path, *variant.split(), "--store-ema", "--ema-decay", "0.5", updates=2)
    checkpoint = load(tmp_path)
    averaged = {}
    for key, value in checkpoint["model"].items():
        assert value.is_floating_point(), key
        averaged[key] = (value + checkpoint["extra_state"]["ema"][key]) / 2
    torch.save({**checkpoint, "model": averaged}, tmp_path / "averaged.pt")
    train(mlm_data, tmp_path / "more", *variant.split(), "--finetune-from-model", tmp_path / "averaged.pt", updates=1)
