"""Parameters and floating-point operations against what PyTorch builds and counts."""

import pytest
import torch

from fairseq_linformer.config import PROJECTIONS, SHARING, LinformerConfig
from fairseq_linformer.planning.formulas import Batch, Model, flops, parameters

from .pytorch import BASE, NO_WINDOWS, ROBERTA, SMALL, UNEQUAL, build, counted


@pytest.mark.parametrize("options", [
    *(dict(projected_dim=24, sharing=s) for s in SHARING),
    *(dict(projected_dim=24, projection=p) for p in PROJECTIONS[1:]),
    UNEQUAL, dict(UNEQUAL, projection="conv"), dict(projected_dim="32x2,16,8", sharing="key-value"),
    dict(freeze_projections=True), dict(projection_lr_scale=1.0),
    dict(untie_weights_roberta=True, encoder_normalize_before=True, layernorm_embedding=False),
    ROBERTA, dict(ROBERTA, encoder_normalize_before=True, untie_weights_roberta=True),
], ids=str)  # fmt: skip
def test_parameters_are_exactly_those_that_fairseq_builds(options):
    built, model = build(64, **{**SMALL, **options})
    ours = parameters(model)
    assert ours.learnt == sum(p.numel() for p in built.parameters() if p.requires_grad)
    tensors = [*built.named_parameters(), *built.named_buffers()]
    projections = [tensor for name, tensor in tensors if ".E." in name or ".F." in name]
    assert ours.projections == sum(t.numel() for t in projections if t.requires_grad)
    assert ours.fixed == sum(t.numel() for t in projections if not t.requires_grad)


def test_parameters_take_no_memory():
    model = Model(LinformerConfig(50_000, 65_536, 256, sharing="none", layers=2))
    assert all(p.device == torch.device("meta") for p in model.encoder.parameters())
    assert parameters(model).projections == 2 * 2 * 12 * 256 * 65_536


@pytest.mark.parametrize("batch, options", [
    *((Batch(2, 64, 9), dict(sharing=s)) for s in SHARING),
    *((Batch(2, 64, 9), dict(projection=p)) for p in PROJECTIONS[1:]),
    (Batch(2, 64, 9), UNEQUAL), (Batch(2, 40, 6), UNEQUAL), (Batch(2, 64, 9), ROBERTA),
    (Batch(2, 64, 9), dict(freeze_projections=True)), (Batch(2, 64, 9), dict(checkpoint_activations=True)),
    # Short inputs, for which other orders of multiplication are the cheapest.
    *((Batch(2, 12, 1), dict(NO_WINDOWS, sharing=s)) for s in ("none", "headwise", "layerwise")),
], ids=str)  # fmt: skip
def test_operations_are_those_that_pytorch_counts(batch, options):
    options = {**SMALL, **options, "attention_dropout": 0.1}  # unfused on a CPU, so that PyTorch counts it
    built, model = build(64, **options)
    ours = flops(model, batch, fused=False, checkpointed=bool(options.get("checkpoint_activations")))
    assert (ours.forward, ours.forward + ours.backward) == counted(built, batch)


def test_operations_at_the_width_of_the_base_model():
    built, model = build(256, **dict(BASE, encoder_layers=1, attention_dropout=0.1), projected_dim=64)
    ours = flops(model, Batch(1, 256, 39), fused=False)
    assert (ours.forward, ours.forward + ours.backward) == counted(built, Batch(1, 256, 39))


def test_fused_attention_computes_scores_twice():
    model, batch = Model(LinformerConfig(100, 512, 128, layers=1)), Batch(1, 512, 512)
    plain, fused = flops(model, batch, fused=False), flops(model, batch, fused=True)
    assert fused.forward == plain.forward and fused.backward - plain.backward == 2 * 512 * 128 * 768


def test_full_attention_that_computes_only_what_is_read():
    """As the benchmark's own Transformers do: in the last layer the queries shrink, the keys do not."""
    n, m, d, f = 64, 4, 8, 32
    shape = LinformerConfig(100, n, n, layers=1, embed_dim=d, ffn_embed_dim=f, attention_heads=1)
    models = [Model(shape, linear=False, read_only=read_only) for read_only in (False, True)]
    whole, read = (flops(model, Batch(1, n, m)).forward for model in models)
    assert whole - read == 2 * (n - m) * (2 * d**2 + 2 * d * f + 2 * n * d)
