"""``fairseq-hydra-train`` trains a run of configs with overrides; tests/bad_input has rejected configurations."""

import pytest

from .. import fairseq_commands

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


@pytest.mark.slow
def test_fairseq_trains_a_roberta(mlm_data, tmp_path):
    """It has no dataclass. ``tests/models`` trains the run ``tiny``."""
    losses = fairseq_commands.hydra_train(mlm_data, tmp_path, "+run=n512-roberta", *SMALL)
    assert len(losses) == 2 and all(5 < loss < 6.5 for loss in losses)
    assert not any("self_attn.E" in key for key in fairseq_commands.load(tmp_path)["model"])
