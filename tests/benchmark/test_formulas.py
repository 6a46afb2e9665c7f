"""Parameters and floating-point operations against fairseq's models and PyTorch's counter."""

import pytest
import torch

from fairseq_linformer.benchmark.formulas import Batch, PlannedModel, count_parameters, step_flops
from fairseq_linformer.config import PROJECTIONS, SHARING, LinformerConfig

from ..training.pytorch_reference import BASE, NO_WINDOWS, ROBERTA, SMALL, UNEQUAL, build, pytorch_flops


@pytest.mark.parametrize(
    "options",
    [
        *(dict(projected_dim=24, sharing=s) for s in SHARING),
        *(dict(projected_dim=24, projection=p) for p in PROJECTIONS[1:]),
        UNEQUAL,
        dict(UNEQUAL, projection="conv"),
        dict(projected_dim="32x2,16,8", sharing="key-value"),
        dict(freeze_projections=True),
        dict(projection_lr_scale=1.0),
        dict(untie_weights_roberta=True, encoder_normalize_before=True, layernorm_embedding=False),
        ROBERTA,
        dict(ROBERTA, encoder_normalize_before=True, untie_weights_roberta=True),
    ],
    ids=str,
)
def test_parameters_equal_those_that_fairseq_builds(options):
    built, model = build(64, **{**SMALL, **options})
    flops = count_parameters(model)
    assert flops.trainable == sum(p.numel() for p in built.parameters() if p.requires_grad)
    tensors = [*built.named_parameters(), *built.named_buffers()]
    projections = [tensor for name, tensor in tensors if ".E." in name or ".F." in name]
    assert flops.projections == sum(t.numel() for t in projections if t.requires_grad)
    assert flops.frozen == sum(t.numel() for t in projections if not t.requires_grad)


def test_parameters_are_counted_without_memory():
    model = PlannedModel(LinformerConfig(50_000, 65_536, 256, sharing="none", layers=2))
    assert all(p.device == torch.device("meta") for p in model.encoder.parameters())
    assert count_parameters(model).projections == 2 * 2 * 12 * 256 * 65_536


@pytest.mark.parametrize(
    "batch, options",
    [
        *((Batch(2, 64, 9), dict(sharing=s)) for s in SHARING),
        *((Batch(2, 64, 9), dict(projection=p)) for p in PROJECTIONS[1:]),
        (Batch(2, 64, 9), UNEQUAL),
        (Batch(2, 40, 6), UNEQUAL),
        (Batch(2, 64, 9), ROBERTA),
        (Batch(2, 64, 9), dict(freeze_projections=True)),
        (Batch(2, 64, 9), dict(checkpoint_activations=True)),
        (Batch(2, 64, 9), dict(local_window=5)),
        (Batch(2, 20, 3), dict(local_window=5)),  # a single chunk
        (Batch(2, 50, 7), dict(local_window=20, sharing="none")),
        # Short inputs, for which other orders of multiplication are the cheapest.
        *((Batch(2, 12, 1), dict(NO_WINDOWS, sharing=s)) for s in ("none", "headwise", "layerwise")),
    ],
    ids=str,
)
def test_operations_are_those_that_pytorch_counts(batch, options):
    options = {**SMALL, **options, "attention_dropout": 0.1}  # unfused on a CPU, so that PyTorch counts it
    built, model = build(64, **options)
    flops = step_flops(model, batch, fused=False, checkpoint_activations=bool(options.get("checkpoint_activations")))
    assert (flops.forward, flops.forward + flops.backward) == pytorch_flops(built, batch)


def test_operations_at_base_width():
    built, model = build(256, **dict(BASE, encoder_layers=1, attention_dropout=0.1), projected_dim=64)
    flops = step_flops(model, Batch(1, 256, 39), fused=False)
    assert (flops.forward, flops.forward + flops.backward) == pytorch_flops(built, Batch(1, 256, 39))


def test_fused_attention_computes_scores_twice():
    model, batch = PlannedModel(LinformerConfig(100, 512, 128, layers=1)), Batch(1, 512, 512)
    plain, fused = step_flops(model, batch, fused=False), step_flops(model, batch, fused=True)
    assert fused.forward == plain.forward and fused.backward - plain.backward == 2 * 512 * 128 * 768


def test_full_attention_may_skip_unread_positions():
    """As in the benchmark's own Transformers: the last layer has fewer queries, but all keys."""
    n, m, d, f = 64, 4, 8, 32
    shape = LinformerConfig(100, n, n, layers=1, embed_dim=d, ffn_embed_dim=f, attention_heads=1)
    models = [PlannedModel(shape, linear=False, skips_unread=skips_unread) for skips_unread in (False, True)]
    whole, read = (step_flops(model, Batch(1, n, m)).forward for model in models)
    assert whole - read == 2 * (n - m) * (2 * d**2 + 2 * d * f + 2 * n * d)
