"""LinformerConfig rejects invalid models; notations of k."""

import re

import pytest

from fairseq_linformer.config import LinformerConfig, format_projected_dim, parse_projected_dim


@pytest.mark.parametrize(
    "fields",
    [
        dict(projected_dim=513),
        dict(projected_dim=0),
        dict(projected_dim="256x3"),
        dict(projected_dim="256x4,128y8"),
        dict(projected_dim=[]),
        dict(projected_dim=True),
        dict(projected_dim="256x4,1000x8"),
        dict(projected_dim="1/2", sharing="none"),
        dict(projected_dim="1/1/1/1/1/1/1/1/1/1/1/2"),
        dict(projected_dim="256x4,128x8", sharing="layerwise"),
        dict(projection="fourier"),
        dict(projection_init="zeros"),
        dict(projection_init="jl", projection="conv"),
        dict(projection_init="jl", projection="max-pool"),
        dict(projection_init="average", projection="random"),
        dict(projection_init="staggered", sharing="layerwise"),
        dict(projection_lr_scale=0.1, projection="random"),
        dict(projection_lr_scale=0.1, freeze_projections=True),
        dict(projection_lr_scale=2.0),
        *(dict([each], projection="none") for each in dict(projected_dim=4, sharing="key-value").items()),
        *(dict([each], projection="none") for each in dict(projection_init="normal", local_window=3).items()),
        *(dict([each], projection="none") for each in dict(projection_lr_scale=0.1, freeze_projections=True).items()),
        dict(max_positions=0),
        dict(attention_heads=7),
        dict(sharing="all"),
        dict(activation_fn="swish"),
        dict(layerdrop=1.0),
        dict(dropout=float("nan")),
        dict(padding_idx=100),
    ],
    ids=str,
)
def test_rejections(fields):
    """The message names the first field and its value."""
    name, value = next(iter(fields.items()))
    with pytest.raises(ValueError, match=f"^{re.escape(name)} must ") as refusal:
        LinformerConfig(vocab_size=100, **fields)
    assert str(value) in str(refusal.value)


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
def test_notations_of_k(written, dims, short):
    assert parse_projected_dim(written, layers=4, heads=2) == dims
    assert format_projected_dim(dims) == short and parse_projected_dim(short, 4, 2) == dims
