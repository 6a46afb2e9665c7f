"""LinformerConfig refuses what cannot be built."""

import pytest

from fairseq_linformer.config import LinformerConfig


@pytest.mark.parametrize(
    "fields, sentence",
    [
        (dict(projected_dim=513), "projected_dim is 513; it must be between 1 and max_positions, which is 512"),
        (dict(projected_dim=0), "projected_dim is 0; it must be at least 1"),
        (dict(max_positions=0), "max_positions is 0; it must be at least 1"),
        (dict(attention_heads=7), "attention_heads is 7; it must divide embed_dim, which is 768"),
        (dict(sharing="all"), "sharing is 'all'; it must be one of none, headwise, key-value, layerwise"),
        (dict(activation_fn="swish"), "activation_fn is 'swish'; it must be one of gelu"),
        (dict(layerdrop=1.0), r"layerdrop is 1.0; it must be in \[0, 1\)"),
        (dict(projection_lr_scale=2.0), r"projection_lr_scale is 2.0; it must be in \[0.0001, 1\]"),
        (dict(padding_idx=100), "padding_idx is 100; it must be an entry of the dictionary, 0 to 99"),
    ],
)
def test_refusals(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        LinformerConfig(vocab_size=100, **fields)


def test_offloading_implies_checkpointing():
    assert LinformerConfig(vocab_size=10, offload_activations=True).checkpoint_activations
