"""LinformerConfig refuses what cannot be built."""

import pytest

from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.projected_dim import parse, short_form


@pytest.mark.parametrize(
    "fields, sentence",
    [
        (dict(projected_dim=513), "projected_dim is 513; it must be between 1 and max_positions, which is 512"),
        (dict(projected_dim=0), "projected_dim is 0; it must be between 1 and max_positions, which is 512"),
        (dict(projected_dim="256x3"), "projected_dim is '256x3', which is for 3 layers; it must be one number or 12"),
        (dict(projected_dim="256x4,128y8"), "projected_dim is '256x4,128y8'; it must be a number, a list of numbers or"),
        (dict(projected_dim=[]), r"projected_dim is \[\]; it must be a number"),
        (dict(projected_dim=True), "projected_dim is True; it must be a number"),
        (dict(projected_dim="256x4,1000x8"), "projected_dim is 256x4,1000x8; it must be between 1 and max_positions, which is 512"),
        (dict(projected_dim="1/2", sharing="none"), "which has 2 heads in a layer; it must be one number or 12"),
        (dict(projected_dim="1/1/1/1/1/1/1/1/1/1/1/2"), "only with sharing none can heads differ, not with headwise"),
        (dict(projected_dim="256x4,128x8", sharing="layerwise"), "with layerwise sharing all layers have one E, and it must be one number"),
        (dict(projection="fourier"), "projection is 'fourier'; it must be one of linear, mean-pool, max-pool, conv, random"),
        (dict(projection_init="zeros"), "projection_init is 'zeros'; with projection linear and sharing headwise it must be one of average, staggered, normal, xavier, jl"),
        (dict(projection="conv", projection_init="jl"), "projection_init is 'jl'; with projection conv and sharing headwise it must be one of average, normal"),
        (dict(projection="max-pool", projection_init="jl"), "projection_init is 'jl'; with projection max-pool and sharing headwise it must be left out"),
        (dict(projection="random", projection_init="average"), "projection_init is 'average'; with projection random and sharing headwise it must be left out"),
        (dict(projection="random", projection_lr_scale=0.1), "projection_lr_scale is 0.1; projection random does not learn"),
        (dict(freeze_projections=True, projection_lr_scale=0.1), "projection_lr_scale is 0.1; freeze_projections is on, and it must be left"),
        (dict(max_positions=0), "max_positions is 0; it must be at least 1"),
        (dict(attention_heads=7), "attention_heads is 7; it must divide embed_dim, which is 768"),
        (dict(sharing="all"), "sharing is 'all'; it must be one of none, headwise, key-value, layerwise"),
        (dict(activation_fn="swish"), "activation_fn is 'swish'; it must be one of gelu"),
        (dict(layerdrop=1.0), r"layerdrop is 1.0; it must be in \[0, 1\)"),
        (dict(projection_lr_scale=2.0), "projection_lr_scale is 2.0; it must be above 0 and at most 1"),
        (dict(padding_idx=100), "padding_idx is 100; it must be an entry of the dictionary, 0 to 99"),
    ],
)
def test_refusals(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        LinformerConfig(vocab_size=100, **fields)


def test_offloading_implies_checkpointing():
    assert LinformerConfig(vocab_size=10, offload_activations=True).checkpoint_activations


@pytest.mark.parametrize(
    "written, dims, short",
    [
        (256, [256] * 4, 256),
        ("256", [256] * 4, 256),
        ("256x4", [256] * 4, 256),
        ("256x3,128", [256, 256, 256, 128], "256x3,128"),
        ("256, 128x3", [256, 128, 128, 128], "256,128x3"),
        ([256, 128, 128, 64], [256, 128, 128, 64], "256,128x2,64"),
        ("8/4x2,4/4,8", [(8, 4), (8, 4), 4, 8], "8/4x2,4,8"),
        ([[8, 4]], [(8, 4)] * 4, "8/4x4"),
    ],
)
def test_forms_of_k(written, dims, short):
    assert parse(written, layers=4, heads=2) == dims
    assert short_form(dims) == short and parse(short, 4, 2) == dims
