"""Kinds of projection, initializations and forms of k, with flags and YAML."""

import pytest
import torch

from fairseq_linformer.config import PROJECTIONS

from ..fairseq_commands import TINY, finetune, hydra_train, load, train
from .test_model import build

# Flags, the same as overrides of a YAML, and the kind of projection, sharing and k.
VARIANTS = {
    "architecture": (
        "--arch linformer_roberta --encoder-layers 2 --sharing key-value --encoder-normalize-before",
        "model._name=linformer_roberta +model.encoder_layers=2 model.sharing=key-value model.projected_dim=8 "
        "model.encoder_normalize_before=true",
        ("linear", "key-value", 8),
    ),
    "k per layer": ("--projected-dim 8x1,4x1", "model.projected_dim=[8,4]", ("linear", "headwise", "8,4")),
    "k per head": (
        "--sharing none --projected-dim 8/4,4",
        "model.sharing=none model.projected_dim=[[8,4],4]",
        ("linear", "none", "8/4,4"),
    ),
    "max-pool": (
        "--projection max-pool --projected-dim 5",
        "+model.projection=max-pool model.projected_dim=5",
        ("max-pool", "headwise", 5),
    ),
    "conv": (
        "--projection conv --projection-init normal --projection-lr-scale 1.0",
        "+model.projection=conv +model.projection_init=normal +model.projection_lr_scale=1.0 model.projected_dim=8",
        ("conv", "headwise", 8),
    ),
    "random": (
        "--projection random",
        "+model.projection=random model.projected_dim='8x1,8x1'",
        ("random", "headwise", 8),
    ),
    "local window": (
        "--local-window 3 --sharing key-value",
        "+model.local_window=3 model.sharing=key-value model.projected_dim=8",
        ("linear", "key-value", 8),
    ),
    "jl, frozen": (
        "--projection-init jl --freeze-projections",
        "+model.projection_init=jl +model.freeze_projections=true model.projected_dim=8",
        ("linear", "headwise", 8),
    ),
}
YAML = """
    +run=tiny task.tokens_per_sample=16 dataset.batch_size=8 optimization.max_update=2 optimization.lr=[0.01]
    +model.encoder_embed_dim=16 +model.encoder_ffn_embed_dim=32 +model.encoder_attention_heads=2 common.seed=7
    model.encoder_normalize_before=false optimization.clip_norm=0.0 lr_scheduler.warmup_updates=0
    optimizer.weight_decay=0.0
""".split()
ADAM = ["--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6"]
NO_DROPOUT = ["--dropout", "0", "--attention-dropout", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_flags_and_yaml_train_the_same_model(mlm_data, class_data, tmp_path, variant):
    flags, overrides, shape = VARIANTS[variant]
    by_flags = train(mlm_data, tmp_path / "flags", *NO_DROPOUT, *ADAM, *flags.split(), updates=2)
    by_yaml = hydra_train(mlm_data, tmp_path / "yaml", *YAML, *overrides.split())
    assert by_flags == by_yaml and len(by_flags) == 2
    ours, theirs = load(tmp_path / "flags"), load(tmp_path / "yaml")
    assert all(torch.equal(value, theirs["model"][key]) for key, value in ours["model"].items())
    assert ours["cfg"]["model"] == theirs["cfg"]["model"]
    saved = ours["cfg"]["model"]
    assert (saved["projection"], saved["sharing"], saved["projected_dim"]) == shape

    # It resumes, and can be finetuned.
    assert len(train(mlm_data, tmp_path / "flags", "--dropout", "0", *flags.split(), updates=3)) == 1
    start = ["--finetune-from-model", tmp_path / "flags" / "checkpoint_last.pt"]
    finetune(class_data, tmp_path / "task", *TINY, *flags.split(), *start, updates=1)


@pytest.mark.slow
def test_full_attention_by_flags_and_yaml(mlm_data, class_data, tmp_path):
    shape = ["--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "32", "--encoder-attention-heads", "2"]
    model = ["--arch", "linformer_roberta_tiny", *shape, "--projection", "none"]
    by_flags = train(mlm_data, tmp_path / "flags", *NO_DROPOUT, *ADAM, model=model, updates=2)
    overrides = ["+model.projection=none", "model.projected_dim=null", "model.sharing=null"]
    assert by_flags == hydra_train(mlm_data, tmp_path / "yaml", *YAML, *overrides) and len(by_flags) == 2
    saved = load(tmp_path / "flags")["cfg"]["model"]
    assert saved == load(tmp_path / "yaml")["cfg"]["model"]
    assert (saved["projection"], saved["sharing"], saved["projected_dim"]) == ("none", None, None)
    assert len(train(mlm_data, tmp_path / "flags", "--dropout", "0", model=model, updates=3)) == 1
    start = ["--finetune-from-model", tmp_path / "flags" / "checkpoint_last.pt"]
    finetune(class_data, tmp_path / "task", *model, *start, updates=1)
    with pytest.raises(ValueError, match="local_window must be unset with projection 'none'"):
        train(mlm_data, tmp_path / "no", "--local-window", "4", model=model)


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("k", [6, "6/4"])
def test_all_state_dict_entries_can_be_averaged(projection, k):
    """fairseq's moving averages, and its script that averages checkpoints, average all buffers."""
    state = build(sharing="none", projection=projection, projected_dim=k).state_dict()
    assert [key for key, value in state.items() if not value.is_floating_point()] == []


@pytest.mark.slow
def test_moving_averages_and_averaged_checkpoints(mlm_data, tmp_path):
    options = ["--sharing", "none", "--projected-dim", "8/4,4"]
    train(mlm_data, tmp_path, *options, "--store-ema", "--ema-decay", "0.5", updates=2)
    checkpoint = load(tmp_path)
    averages = checkpoint["extra_state"]["ema"]
    averaged = {key: (value + averages[key]) / 2 for key, value in checkpoint["model"].items()}
    torch.save({**checkpoint, "model": averaged}, tmp_path / "averaged.pt")
    train(mlm_data, tmp_path / "more", *options, "--finetune-from-model", tmp_path / "averaged.pt", updates=1)
