"""The compared models: the same encoder with another attention, and other models behind one interface."""

import math

import pytest
import torch
from fairseq.models import MODEL_REGISTRY

from fairseq_linformer.benchmark.encoders import build_transformer
from fairseq_linformer.benchmark.models import BUILDERS, CLASSIFY, FEATURES, MASKED_LM
from fairseq_linformer.benchmark.rows import TRAINABLE
from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.models import LinformerRobertaModel
from fairseq_linformer.modules import LinformerEncoder

from .. import authors_plugin

SHAPE = dict(
    vocab_size=50,
    max_positions=16,
    layers=2,
    embed_dim=32,
    ffn_embed_dim=64,
    attention_heads=4,
    dropout=0,
    attention_dropout=0,
)


@pytest.mark.parametrize("kind", ["eager", "sdpa"])
def test_baseline_equals_a_linformer_with_identity_projections(kind):
    """With k = n and E = identity it is full attention, with padding and with query positions too."""
    torch.manual_seed(0)
    ours = LinformerEncoder(LinformerConfig(projected_dim=16, sharing="layerwise", **SHAPE)).double().eval()
    for p in ours.parameters():
        torch.nn.init.normal_(p, std=0.5)
    ours.E.set_(torch.eye(16))
    baseline = build_transformer(LinformerConfig(projected_dim=4, **SHAPE), kind).double().eval()
    missing, more = baseline.load_state_dict(ours.state_dict(), strict=False)
    assert not missing and all(name.startswith("E.") for name in more)
    tokens = torch.randint(2, 50, (3, 16))
    tokens[1, 9:] = 1
    for positions in (None, torch.tensor([[0, 5], [8, 1], [2, 2]])):
        a, b = ours(tokens, positions)[0], baseline(tokens, positions)[0]
        real = tokens.ne(1) if positions is None else torch.ones(3, 2, dtype=torch.bool)
        torch.testing.assert_close(a[real], b[real])


def test_authors_model_does_not_replace_ours_in_the_registry():
    authors_plugin.skip_without_plugin()
    config = LinformerConfig(projected_dim=4, sharing="layerwise", **SHAPE)
    theirs = BUILDERS["authors"](config, MASKED_LM).model
    assert type(theirs).__name__ == "LinformerModel" and MODEL_REGISTRY["linformer_roberta"] is LinformerRobertaModel
    assert theirs.encoder.sentence_encoder.layers[0].self_attn.compress_k.weight.shape == (4, 16)
    with pytest.raises(ValueError, match="projected_dim .* 5"):
        BUILDERS["authors"](LinformerConfig(projected_dim=5, sharing="layerwise", **SHAPE), MASKED_LM)


@pytest.mark.parametrize("task", [MASKED_LM, CLASSIFY])
@pytest.mark.parametrize("name", sorted(TRAINABLE))
def test_each_model_has_a_loss_and_gradients(name, task):
    """Before training every loss is about the log of the number of choices."""
    torch.manual_seed(0)
    model = BUILDERS[name](LinformerConfig(projected_dim=4, sharing="layerwise", **SHAPE), task)
    tokens = torch.randint(5, 50, (4, 12))
    positions = torch.tensor([[0, 3, 7]]).expand(4, -1)
    targets = [torch.tensor([0, 1, 0, 1])] if task == CLASSIFY else [positions, tokens.gather(1, positions)]
    loss = model(tokens, *targets)
    loss.backward()
    choices, tolerance = (2.0, 1.0) if task == CLASSIFY else (50.0, 0.4)
    assert loss.item() == pytest.approx(math.log(choices), rel=tolerance)
    assert sum(p.grad.abs().sum() > 0 for p in model.parameters() if p.grad is not None) > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_each_model_computes_features(name):
    config = LinformerConfig(100, 1024, 64, "layerwise", layers=2, embed_dim=64, ffn_embed_dim=128, attention_heads=4)
    with torch.inference_mode():
        features = BUILDERS[name](config, FEATURES).eval()(torch.randint(5, 100, (2, 1024)))
    assert features.shape == (2, 1024, 128 if name == "reformer" else 64) and features.isfinite().all()
