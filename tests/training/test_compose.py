"""Configurations of ``fairseq-hydra-train``: those that are rejected, and a training run with overrides."""

import pytest

from fairseq_linformer.training.compose import compose_config

from .. import fairseq_commands

PRETRAIN = fairseq_commands.CONFIGS / "pretrain"

# Overrides that make a base-size run small enough for a test.
SMALL = [
    "+model.encoder_layers=2",
    "+model.encoder_embed_dim=16",
    "+model.encoder_ffn_embed_dim=32",
    "+model.encoder_attention_heads=2",
    "common.cpu=true",
    "common.fp16=false",
    "dataset.num_workers=0",
    "dataset.batch_size=8",
    "optimization.update_freq=[1]",
    "optimization.max_update=2",
    "task.tokens_per_sample=16",
]


@pytest.mark.parametrize(
    "config, overrides, named",
    [
        ("nowhere.yaml", [], "nowhere.yaml does not exist"),
        (PRETRAIN / "run/n512.yaml", [], "n512-roberta.yaml"),  # an existing file
        (PRETRAIN / "base.yaml", ["+run=n512"], "run/n512"),
        (PRETRAIN / "base.yaml", ["model.projected_dims=4"], "model.projected_dims"),
    ],
)
def test_errors_are_one_line_with_the_name(config, overrides, named):
    with pytest.raises(ValueError) as error:
        compose_config(config, overrides)
    assert named in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content", [b"model: [", b"model: \xff", b"model: " + b"9" * 5000], ids=["syntax", "UTF-8", "digits"]
)
def test_files_that_hydra_cannot_read_are_named(content, tmp_path):
    (tmp_path / "run.yaml").write_bytes(content)
    with pytest.raises(ValueError, match="run.yaml") as error:
        compose_config(tmp_path / "run.yaml")
    assert len(str(error.value)) < 700


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n512-roberta", "n1024-k128-headwise"])
def test_fairseq_trains_a_run(mlm_data, tmp_path, name):
    """Two updates with the same overrides; RoBERTa too, which has no dataclass."""
    small = [*SMALL, *([] if "roberta" in name else ["model.projected_dim=8"])]
    losses = fairseq_commands.hydra_train(mlm_data, tmp_path, f"+run={name}", *small)
    assert len(losses) == 2 and all(5 < loss < 6.5 for loss in losses)
    weights = fairseq_commands.load(tmp_path)["model"]
    assert any("self_attn.E" in key for key in weights) == ("roberta" not in name)
