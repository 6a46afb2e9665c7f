"""Kinds of projection, initializations and forms of k, with flags and YAML."""

import pytest
import torch

from fairseq_linformer.config import PROJECTIONS
from fairseq_linformer.models import authors_plugin

from ..fairseq_commands import TINY, finetune, hydra_train, load, train
from .test_model import build

# Flags, the same as overrides of a YAML, and the kind of projection, sharing and k.
VARIANTS = {
    "architecture": (
        "--arch linformer_roberta --encoder-layers 2 --sharing key-value --projected-dim 8 --encoder-normalize-before",
        "model._name=linformer_roberta +model.encoder_layers=2 model.sharing=key-value model.projected_dim=8 "
        "model.encoder_normalize_before=true",
        ("linear", "key-value", 8),
    ),
    "k per layer, local window": (
        "--projected-dim 8x1,4x1 --local-window 3",
        "model.projected_dim=[8,4] +model.local_window=3",
        ("linear", "headwise", "8,4"),
    ),
    "k per head": (
        "--sharing none --projected-dim 8/4,4",
        "model.sharing=none model.projected_dim=[[8,4],4]",
        ("linear", "none", "8/4,4"),
    ),
    "conv": (
        "--projected-dim 8 --projection conv --projection-init normal --projection-lr-scale 1.0",
        "+model.projection=conv +model.projection_init=normal +model.projection_lr_scale=1.0 model.projected_dim=8",
        ("conv", "headwise", 8),
    ),
    "jl, frozen": (
        "--projected-dim 8 --projection-init jl --freeze-projections",
        "+model.projection_init=jl +model.freeze_projections=true model.projected_dim='8x1,8x1'",
        ("linear", "headwise", 8),
    ),
    "full attention": (
        "--projection none",
        "+model.projection=none model.projected_dim=null model.sharing=null",
        ("none", None, None),
    ),
}
SHAPE = TINY[:-2]
UNSET = {"projection_init", "projection_lr_scale", "encoder_layers_to_keep", *authors_plugin.OPTIONS}
"""Options for which None is stored: their default depends on others or on the loaded weights, or they have gone."""
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
    model = [*SHAPE, *flags.split()]
    by_flags = train(mlm_data, tmp_path / "flags", *NO_DROPOUT, *ADAM, model=model, updates=2)
    by_yaml = hydra_train(mlm_data, tmp_path / "yaml", *YAML, *overrides.split())
    assert by_flags == by_yaml and len(by_flags) == 2
    ours, theirs = load(tmp_path / "flags"), load(tmp_path / "yaml")
    assert all(torch.equal(value, theirs["model"][key]) for key, value in ours["model"].items())
    assert ours["cfg"]["model"] == theirs["cfg"]["model"]
    saved = ours["cfg"]["model"]
    assert (saved["projection"], saved["sharing"], saved["projected_dim"]) == shape
    # The sizes of the architecture and the task are stored.
    unset = {key for key, value in saved.items() if value is None}
    assert saved["max_positions"] == 16 and unset <= UNSET | {"sharing", "projected_dim"}

    # It resumes, and can be finetuned.
    assert len(train(mlm_data, tmp_path / "flags", "--dropout", "0", model=model, updates=3)) == 1
    start = ["--finetune-from-model", tmp_path / "flags" / "checkpoint_last.pt"]
    finetune(class_data, tmp_path / "task", *model, *start, updates=1)


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("k", [6, "6/4"])
def test_all_state_dict_entries_can_be_averaged(projection, k):
    """fairseq's moving averages, and its script that averages checkpoints, average all buffers."""
    state = build(sharing="none", projection=projection, projected_dim=k).state_dict()
    assert [key for key, value in state.items() if not value.is_floating_point()] == []
