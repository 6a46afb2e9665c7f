"""The attention module against equation (7) written out, in every order of multiplication."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_linformer.config import PROJECTION_INITS, PROJECTIONS, SHARING, LinformerConfig
from fairseq_linformer.modules import LinearMultiheadAttention
from fairseq_linformer.modules.encoder_layer import build_projection
from fairseq_linformer.modules.local_window import LocalWindowAttention
from fairseq_linformer.modules.order import Order
from fairseq_linformer.modules.projection import LearnedProjection, Projection
from fairseq_linformer.modules.reference import linear_attention

N, K, D, H = 12, 5, 12, 3


def make(
    sharing,
    n=N,
    k=K,
    d=D,
    heads=H,
    init="average",
    projection="linear",
    seed=0,
    local_window=0,
    loaded=(True, True, True),
):
    """An attention module with random weights, and its projections E and F.

    Args:
        init: with "random" E and F have random entries and windows, as a trained model has them.
        loaded: whether there are singletons, rows make up for missing tokens, and windows are counted.
    """
    torch.manual_seed(seed)
    learns = projection in PROJECTION_INITS
    config = LinformerConfig(
        10,
        n,
        k,
        sharing,
        projection,
        projection_init="average" if learns and init == "random" else init if learns else None,
        projection_lr_scale=0.25 if learns else None,
        layers=2,
        embed_dim=d,
        attention_heads=heads,
        local_window=local_window,
    )
    layer = 1 if init in ("staggered", "graded") else 0  # the one whose windows begin later
    E = build_projection(config, layer)
    F = build_projection(config, layer, "F") if config.has_separate_values else None
    kind = partial(LocalWindowAttention, local_window=local_window) if local_window else LinearMultiheadAttention
    attention = kind(d, heads, E, F, shared=config.has_single_projection)
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        torch.nn.init.normal_(linear.weight, std=0.4)
        torch.nn.init.normal_(linear.bias, std=0.4)
    attention.double(), E.double()
    if init == "random":
        for module in [*E.modules(), *(F.modules() if F else ())]:
            if isinstance(module, LearnedProjection):
                torch.nn.init.normal_(module.delta, std=0.5)
                torch.nn.init.normal_(module.start, std=0.5)
    for module in [*E.modules(), *(F.modules() if F else ())]:
        if isinstance(module, Projection):
            module.window_options *= torch.tensor(loaded)
            module.finish_loading()
    return attention, E, F or E


def expected_of(attention, x, lengths):
    return [linear_attention(attention, X[:length]) for X, length in zip(x, lengths)]


def orders_of(attention):
    return (Order.KEYS,) if isinstance(attention, LocalWindowAttention) else attention.projections[0].orders


def use(attention, order):
    """Let it multiply in this order; None for the cheapest."""
    choose = type(attention)._choose_order
    attention._choose_order = lambda m, n: order or choose(attention, m, n)
    return attention


def run(attention, E, x, lengths, order=None):
    """The module on padded sentences: list of (length, d)."""
    mask = torch.arange(x.size(1)) >= torch.tensor(lengths).unsqueeze(1)
    shared = E() if attention.E is None else None
    out, _ = use(attention, order)(x, mask if mask.any() else None, shared)
    return [out[b, :length] for b, length in enumerate(lengths)]


LENGTHS = {"n": [N, N], "shorter than k": [K - 2, K - 2], "between k and n": [K + 3, K + 3], "padded": [N, K + 1, 2, 1]}


@pytest.mark.parametrize(
    "init, local_window", [("random", 0), ("normal", 0), ("staggered", 0), ("graded", 0), ("normal", 2), ("graded", 2)]
)
@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize("sharing", SHARING)
def test_equals_equation_7(sharing, case, init, local_window):
    if init == "staggered" and sharing == "layerwise":
        pytest.skip("one E for all layers has one kind of windows")
    attention, E, F = make(sharing, init=init, local_window=local_window)
    lengths = LENGTHS[case]
    x = torch.randn(len(lengths), max(lengths), D, dtype=torch.float64)
    expected = expected_of(attention, x, lengths)
    for order in [None, *orders_of(attention)]:
        for ours, theirs in zip(run(attention, E, x, lengths, order=order), expected):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)

    attention.float(), E.float()
    for order in orders_of(attention):
        for ours, theirs in zip(run(attention, E, x.float(), lengths, order=order), expected):
            torch.testing.assert_close(ours, theirs.float(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("sharing", SHARING)
def test_gradients_equal_those_of_equation_7(sharing):
    attention, E, _ = make(sharing, init="random")
    lengths = LENGTHS["padded"]
    x = torch.randn(len(lengths), max(lengths), D, dtype=torch.float64, requires_grad=True)
    parameters = [x, *dict.fromkeys([*attention.parameters(), *E.parameters()])]
    coefficients = [torch.randn(length, D, dtype=torch.float64) for length in lengths]

    def gradients(outputs):
        return torch.autograd.grad(sum((c * out).sum() for c, out in zip(coefficients, outputs)), parameters)

    expected = gradients(expected_of(attention, x, lengths))
    for order in orders_of(attention):
        for ours, theirs in zip(gradients(run(attention, E, x, lengths, order=order)), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_shape_length_mask_and_positions(data):
    n = data.draw(st.integers(1, 10), "n")
    k = data.draw(st.integers(1, n), "k")
    heads = data.draw(st.integers(1, 3), "heads")
    d = heads * data.draw(st.integers(1, 3), "head_dim")
    sharing = data.draw(st.sampled_from(SHARING), "sharing")
    lengths = data.draw(st.lists(st.integers(1, n), min_size=1, max_size=4), "lengths")
    projection = data.draw(st.sampled_from(PROJECTIONS), "projection")
    inits = ["average"] if projection == "random" else ["random", "average"] + ["graded"] * (projection == "linear")
    init = data.draw(st.sampled_from(inits), "start")
    if sharing == "none" and data.draw(st.booleans(), "nonuniform"):
        k = "/".join(str(data.draw(st.integers(1, n))) for _ in range(heads))
    local_window = data.draw(st.integers(0, n - 1), "local window")
    loaded = data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans()), "separate first, fills, counted")
    seed = data.draw(st.integers(0, 99))
    attention, E, F = make(sharing, n, k, d, heads, init, projection, seed, local_window, loaded)
    order = data.draw(st.sampled_from([None, *orders_of(attention)]), "order")
    padded_to = data.draw(st.integers(max(lengths), n), "padded to")
    x = torch.randn(len(lengths), padded_to, d, dtype=torch.float64)
    expected = expected_of(attention, x, lengths)
    for ours, theirs in zip(run(attention, E, x, lengths, order=order), expected):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)

    asked = torch.tensor([[data.draw(st.integers(0, length - 1))] for length in lengths])
    mask = torch.arange(padded_to) >= torch.tensor(lengths).unsqueeze(1)
    out, weights = use(attention, order)(x, mask, None if attention.E else E(), asked, need_weights=True)
    for b, position in enumerate(asked[:, 0]):
        torch.testing.assert_close(out[b, 0], expected[b][position], rtol=0, atol=1e-10)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


class Opaque(torch.nn.Module):
    """A linear layer that has no ``weight`` and no ``bias``, as a quantized or offloaded one."""

    def __init__(self, linear):
        super().__init__()
        self.layers, self.calls = [linear], 0

    def forward(self, x):
        self.calls += 1
        return self.layers[0](x)


@pytest.mark.parametrize("order, local_window", [*((order, 0) for order in Order), (None, 3)])
@pytest.mark.parametrize("asked", [None, [[0], [2]]])
def test_linear_layers_are_called_once_and_never_read(order, local_window, asked):
    attention, E, _ = make("headwise", init="random", local_window=local_window)
    x, mask = torch.randn(2, 9, D, dtype=torch.float64), torch.arange(9) >= torch.tensor([[9], [6]])
    positions = None if asked is None else torch.tensor(asked)
    expected, _ = use(attention, order)(x, mask, positions=positions)
    opaque = [Opaque(linear) for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj)]
    attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj = opaque
    assert torch.equal(attention(x, mask, positions=positions)[0], expected)
    assert [linear.calls for linear in opaque] == [1, 1, 1, 1]


@pytest.mark.parametrize("order, local_window", [(None, 0), *((order, 0) for order in Order), (None, 3)])
@pytest.mark.parametrize("sharing", ["headwise", "key-value", "layerwise"])
def test_with_identity_projections_it_is_multihead_attention(sharing, order, local_window):
    """k = n and E = F = identity: PyTorch's own module, masks included, outputs and gradients. A local window changes
    nothing, because no token counts twice."""
    attention, E, _ = make(sharing, k=N, local_window=local_window)
    theirs = torch.nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    linears = (attention.q_proj, attention.k_proj, attention.v_proj)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([linear.weight for linear in linears]))
        theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in linears]))
        theirs.out_proj.load_state_dict(attention.out_proj.state_dict())
    torch.testing.assert_close(E(), torch.eye(N, dtype=torch.float64))

    x = torch.randn(3, N, D, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(N) >= torch.tensor([[N], [7], [1]])
    for padding_mask in (None, mask):
        real = torch.ones(3, N, 1) if padding_mask is None else ~padding_mask.unsqueeze(-1)
        ours, _ = use(attention, order)(x, padding_mask, None if attention.E else E())
        expected, _ = theirs(x, x, x, key_padding_mask=padding_mask)
        torch.testing.assert_close(ours * real, expected * real, rtol=0, atol=1e-10)

        coefficients = torch.randn_like(x) * real
        W = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
        *grad_W, grad_x = torch.autograd.grad((coefficients * ours).sum(), [*W, x])
        their_W, their_x = torch.autograd.grad((coefficients * expected).sum(), [theirs.in_proj_weight, x])
        torch.testing.assert_close(torch.cat(grad_W), their_W, rtol=0, atol=1e-10)
        torch.testing.assert_close(grad_x, their_x, rtol=0, atol=1e-10)


def test_every_order_drops_the_same_weights():
    attention, E, _ = make("headwise", init="random")
    attention.train().dropout = 0.3
    x, drawn = torch.randn(2, N, D, dtype=torch.float64), []
    for order in Order:
        torch.manual_seed(1)
        drawn.append(use(attention, order)(x)[0])
    for other in drawn[1:]:
        torch.testing.assert_close(drawn[0], other, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("local_window, n", [(0, N), (2, N), (40, 170)])
def test_attention_dropout_keeps_the_expectation(local_window, n):
    """Dropped weights are scaled up: the mean over many draws is the output without dropout. A long input with a local
    window is computed in chunks."""
    attention, E, _ = make("headwise", n=max(n, 2 * K), init="random", local_window=local_window)
    x, draws = torch.randn(1, n, D, dtype=torch.float64), 5_000 if n == N else 200
    expected, _ = attention.eval()(x)
    attention.train().dropout = 0.3
    drawn, _ = attention(x.expand(draws, -1, -1))
    errors = (drawn.mean(0) - expected[0]) / drawn.std(0) * draws**0.5  # in standard errors of the mean
    assert drawn.std(0).min() > 0 and errors.abs().max() < 6 and errors.square().mean() < 1.5


def test_a_sentence_of_padding_only_gives_no_nan():
    for sharing, projection in [(sharing, projection) for sharing in SHARING for projection in PROJECTIONS]:
        attention, E, _ = make(sharing, projection=projection)
        x = torch.randn(2, N, D, dtype=torch.float64, requires_grad=True)
        mask = torch.zeros(2, N, dtype=torch.bool)
        mask[1] = True
        out, _ = attention(x, mask, None if attention.E else E())
        out[0].sum().backward()
        assert out.isfinite().all() and x.grad.isfinite().all()
