"""The encoder without fairseq."""

import pickle
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_linformer.config import PROJECTION_INITS, PROJECTIONS, SHARING, LinformerConfig
from fairseq_linformer.modules import LinformerEncoder, length_groups
from fairseq_linformer.modules.encoder_layer import ACTIVATION_FUNCTIONS
from fairseq_linformer.modules.reference import encode


def build(seed=0, **options):
    torch.manual_seed(seed)
    defaults = dict(
        vocab_size=20, max_positions=12, projected_dim=4, layers=2, embed_dim=8, ffn_embed_dim=16, attention_heads=2
    )
    encoder = LinformerEncoder(LinformerConfig(**{**defaults, **options})).double()
    for p in encoder.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return encoder


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_padded_batches_equal_the_reference(data):
    """Any shape, lengths, options: a sentence in a padded batch has the features that it has by itself in the
    reference, and reading some positions equals picking them from all."""
    n = data.draw(st.integers(1, 12), "n")
    layers = data.draw(st.integers(1, 3), "layers")
    sharing = data.draw(st.sampled_from(SHARING), "sharing")
    projection = data.draw(st.sampled_from(PROJECTIONS), "projection")
    k = data.draw(st.integers(1, n), "k")
    if sharing != "layerwise" and data.draw(st.booleans(), "nonuniform"):
        k = data.draw(st.lists(st.integers(1, n), min_size=layers, max_size=layers), "k of each layer")
        if sharing == "none":
            k[0] = [k[0], data.draw(st.integers(1, n), "k of the other head")]
    starts = [
        init for init in PROJECTION_INITS.get(projection, (None,)) if (init, sharing) != ("staggered", "layerwise")
    ]
    encoder = build(
        data.draw(st.integers(0, 99), "seed"),
        max_positions=n,
        projected_dim=k,
        sharing=sharing,
        projection=projection,
        projection_init=data.draw(st.sampled_from(starts), "init"),
        local_window=data.draw(st.integers(0, n - 1), "local window"),
        layers=layers,
        normalize_before=data.draw(st.booleans(), "prenorm"),
        layernorm_embedding=data.draw(st.booleans(), "embedding norm"),
        activation_fn=data.draw(st.sampled_from(["gelu", "relu", "tanh", "gelu_accurate"]), "activation"),
    ).eval()
    lengths = data.draw(st.lists(st.integers(1, n), min_size=1, max_size=4), "lengths")
    padded_to = data.draw(st.integers(max(lengths), n), "padded to")
    batch = torch.ones(len(lengths), padded_to, dtype=torch.long)
    for row, length in zip(batch, lengths):
        row[:length] = torch.randint(2, 20, (length,))
    features, hiddens = encoder(batch, return_all_hiddens=True)
    assert len(hiddens) == layers + 1
    for b, length in enumerate(lengths):
        torch.testing.assert_close(features[b, :length], encode(encoder, batch[b, :length]), rtol=0, atol=1e-9)
    m = data.draw(st.integers(1, min(lengths)), "m")
    positions = torch.stack([torch.randperm(length)[:m] for length in lengths])
    with mock.patch.object(length_groups, "GROUP_POSITIONS", data.draw(st.integers(1, 64), "constant of a group")):
        read, _ = encoder(batch, positions)
    torch.testing.assert_close(read, torch.stack([f[p] for f, p in zip(features, positions)]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("sharing", ["layerwise", "headwise", "none"])
@pytest.mark.parametrize("local_window", [0, 2])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_reading_no_position(sharing, local_window, mode):
    """As for a batch without masked tokens; every parameter still has a gradient, for workers that reduce them."""
    encoder = getattr(build(sharing=sharing, local_window=local_window, dropout=0.1), mode)()
    tokens = torch.randint(2, 20, (3, 12))
    tokens[1, 7:] = encoder.config.padding_idx
    read, _ = encoder(tokens, torch.empty(3, 0, dtype=torch.long))
    assert read.shape == (3, 0, 8)
    read.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in encoder.parameters())


def test_left_padding():
    """Left padding, as from some tokenizers: positions are counted over real tokens."""
    encoder = build(sharing="layerwise", projected_dim=12).eval()
    encoder.E.set_(torch.eye(12))  # the identity: a token is a token wherever it stands
    sentence = torch.randint(2, 20, (1, 5))
    left = torch.nn.functional.pad(sentence, (4, 0), value=1)
    torch.testing.assert_close(encoder(left)[0][:, 4:], encoder(sentence)[0])


def test_initialization_is_berts_and_window_averages():
    encoder = LinformerEncoder(
        LinformerConfig(
            vocab_size=500,
            max_positions=64,
            projected_dim=32,
            layers=1,
            embed_dim=64,
            ffn_embed_dim=64,
            attention_heads=2,
            projection_init="average",
        )
    )
    attention = encoder.layers[0].self_attn
    assert attention.q_proj.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert encoder.embed_tokens.weight[1].abs().sum() == 0 and attention.q_proj.bias.abs().sum() == 0
    assert attention.E()[:2, :3].tolist() == [[1, 0, 0], [0, 0.5, 0.5]]


@pytest.mark.parametrize("name", ACTIVATION_FUNCTIONS)
def test_pickling(name):
    encoder = build(activation_fn=name).eval()
    tokens = torch.randint(2, 20, (3, 12))
    assert torch.equal(pickle.loads(pickle.dumps(encoder))(tokens)[0], encoder(tokens)[0])


def test_feed_forward_in_chunks(monkeypatch):
    """CPU inference runs in chunks with the same features; with gradients there is one chunk."""
    encoder, tokens, rows = build().eval(), torch.randint(2, 20, (3, 12)), []
    whole = encoder(tokens)[0]
    monkeypatch.setattr("fairseq_linformer.modules.encoder_layer.CHUNK_ROWS", 7)
    encoder.layers[0].fc1.register_forward_hook(lambda _, x, y: rows.append(y.shape[:-1].numel()))
    with torch.no_grad():
        torch.testing.assert_close(encoder(tokens)[0], whole.detach())
    assert rows == 6 * [6]  # two positions of each of three sentences
    torch.testing.assert_close(encoder(tokens)[0], whole)
    assert rows[6:] == [36]


@pytest.mark.parametrize(
    "projection, sharing, k",
    [("linear", "headwise", 4), ("linear", "none", [[4, 3], 4]), ("conv", "headwise", 4), ("max-pool", "headwise", 4)],
)
def test_training_under_autocast(projection, sharing, k):
    """In all orders of multiplication, values may be in single precision where weights are in half."""
    encoder = build(projected_dim=k, sharing=sharing, projection=projection).float()
    assert encoder.training and encoder.config.attention_dropout > 0
    with torch.autocast("cpu", torch.bfloat16):
        features, _ = encoder(torch.randint(4, 20, (3, 12)))
    features.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters() if p.requires_grad)


@pytest.mark.parametrize("shape", [(0, 12), (2, 0)])
@pytest.mark.parametrize("options", [{}, dict(local_window=2), dict(projection="conv")], ids=str)
def test_empty_batches_and_inputs(options, shape):
    assert build(**options).eval()(torch.randint(5, 20, shape))[0].shape == (*shape, 8)
