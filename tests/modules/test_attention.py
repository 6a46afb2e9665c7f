"""The attention module against equation (7) written out, in every order of multiplication."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_linformer.config import SHARING
from fairseq_linformer.modules import LinearMultiheadAttention, Projection
from fairseq_linformer.modules.order import Order

from .reference import linear_attention

N, K, D, H = 12, 5, 12, 3


def make(sharing, n=N, k=K, d=D, heads=H, start="normal", seed=0, lr_scale=0.0625):
    """An attention module with random weights, and E and F as (H, k, n)."""
    torch.manual_seed(seed)
    per_head = heads if sharing == "none" else None
    E = Projection(n, k, per_head, lr_scale)
    F = Projection(n, k, per_head, lr_scale) if sharing in ("none", "headwise") else None
    attention = LinearMultiheadAttention(d, heads, None if sharing == "layerwise" else E, F)
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        torch.nn.init.normal_(linear.weight, std=0.4)
        torch.nn.init.normal_(linear.bias, std=0.4)
    if start == "normal":
        for projection in filter(None, (E, F)):
            torch.nn.init.normal_(projection.weight, std=0.5 / lr_scale)
    attention.double(), E.double()

    def full(projection):
        return projection().expand(heads, k, n)

    return attention, E, (lambda: full(E)), (lambda: full(F or E))


def run(attention, E, x, lengths, **kwargs):
    """The module on padded sentences: list of (length, d)."""
    mask = torch.arange(x.size(1)) >= torch.tensor(lengths).unsqueeze(1)
    shared = E() if attention.E is None else None
    out, _ = attention(x, mask if mask.any() else None, shared, **kwargs)
    return [out[b, :length] for b, length in enumerate(lengths)]


def orders(sharing):
    return [order for order in Order if not (sharing == "none" and order is Order.INPUT)]


LENGTHS = {
    "n": [N, N],
    "shorter than k": [K - 2, K - 2],
    "between k and n": [K + 3, K + 3],
    "padded": [N, K + 1, 2, 1],
}


@pytest.mark.parametrize("start", ["normal", "average"])
@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize("sharing", SHARING)
def test_equals_equation_7(sharing, case, start):
    attention, E, full_E, full_F = make(sharing, start=start)
    lengths = LENGTHS[case]
    x = torch.randn(len(lengths), max(lengths), D, dtype=torch.float64)
    expected = linear_attention(attention, x, lengths, full_E(), full_F())
    for order in [None, *orders(sharing)]:
        for ours, theirs in zip(run(attention, E, x, lengths, order=order), expected):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)

    attention.float(), E.float()
    for order in orders(sharing):
        for ours, theirs in zip(run(attention, E, x.float(), lengths, order=order), expected):
            torch.testing.assert_close(ours, theirs.float(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize("sharing", SHARING)
def test_gradients_equal_those_of_equation_7(sharing, case):
    attention, E, full_E, full_F = make(sharing)
    lengths = LENGTHS[case]
    x = torch.randn(len(lengths), max(lengths), D, dtype=torch.float64, requires_grad=True)
    parameters = dict(attention.named_parameters(), x=x, E=E.weight)
    coefficients = [torch.randn(length, D, dtype=torch.float64) for length in lengths]

    def gradients(outputs):
        loss = sum((c * out).sum() for c, out in zip(coefficients, outputs))
        return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()))))

    expected = gradients(linear_attention(attention, x, lengths, full_E(), full_F()))
    for order in orders(sharing):
        for name, gradient in gradients(run(attention, E, x, lengths, order=order)).items():
            torch.testing.assert_close(gradient, expected[name], rtol=0, atol=1e-10, msg=lambda m: f"{order} {name}: {m}")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_shape_length_mask_and_positions(data):
    n = data.draw(st.integers(1, 10), "n")
    k = data.draw(st.integers(1, n), "k")
    heads = data.draw(st.integers(1, 3), "heads")
    d = heads * data.draw(st.integers(1, 3), "head_dim")
    sharing = data.draw(st.sampled_from(SHARING), "sharing")
    lengths = data.draw(st.lists(st.integers(1, n), min_size=1, max_size=4), "lengths")
    start = data.draw(st.sampled_from(["normal", "average"]), "start")
    order = data.draw(st.sampled_from([None, *orders(sharing)]), "order")
    attention, E, full_E, full_F = make(sharing, n, k, d, heads, start, seed=data.draw(st.integers(0, 99)))
    padded_to = data.draw(st.integers(max(lengths), n), "padded to")
    x = torch.randn(len(lengths), padded_to, d, dtype=torch.float64)
    expected = linear_attention(attention, x, lengths, full_E(), full_F())
    for ours, theirs in zip(run(attention, E, x, lengths, order=order), expected):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)

    asked = torch.tensor([[data.draw(st.integers(0, length - 1))] for length in lengths])
    mask = torch.arange(padded_to) >= torch.tensor(lengths).unsqueeze(1)
    out, weights = attention(x, mask, None if attention.E else E(), asked, need_weights=True, order=order)
    for b, position in enumerate(asked[:, 0]):
        torch.testing.assert_close(out[b, 0], expected[b][position], rtol=0, atol=1e-10)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@pytest.mark.parametrize("order", [None, *Order])
@pytest.mark.parametrize("sharing", ["headwise", "key-value", "layerwise"])
def test_with_identity_projections_it_is_multihead_attention(sharing, order):
    """k = n and E = F = identity: PyTorch's own module, masks included, outputs and gradients."""
    attention, E, _, _ = make(sharing, n=N, k=N, start="average")
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
        ours, _ = attention(x, padding_mask, None if attention.E else E(), order=order)
        expected, _ = theirs(x, x, x, key_padding_mask=padding_mask)
        torch.testing.assert_close(ours * real, expected * real, rtol=0, atol=1e-10)

        coefficients = torch.randn_like(x) * real
        W = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
        *grad_W, grad_x = torch.autograd.grad((coefficients * ours).sum(), [*W, x])
        their_W, their_x = torch.autograd.grad((coefficients * expected).sum(), [theirs.in_proj_weight, x])
        torch.testing.assert_close(torch.cat(grad_W), their_W, rtol=0, atol=1e-10)
        torch.testing.assert_close(grad_x, their_x, rtol=0, atol=1e-10)


def test_attention_dropout_keeps_the_expectation_in_every_order():
    """Dropped weights are scaled up: the mean over many draws is the output without dropout."""
    for order in Order:
        attention, E, _, _ = make("headwise")
        x = torch.randn(1, 6, D, dtype=torch.float64)
        expected, _ = attention.eval()(x, order=order)
        attention.train().dropout = 0.3
        mean = attention(x.expand(20_000, -1, -1), order=order)[0].mean(0)
        assert not torch.equal(attention(x, order=order)[0], expected)
        torch.testing.assert_close(mean, expected[0], rtol=0, atol=0.1)


def test_a_matrix_for_each_head_refuses_the_order_it_has_not():
    attention, E, _, _ = make("none")
    with pytest.raises(ValueError, match="one E for all heads"):
        attention(torch.randn(1, 4, D, dtype=torch.float64), order=Order.INPUT)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="num_heads is 5; it must divide embed_dim, which is 12"):
        LinearMultiheadAttention(12, 5)


def test_a_row_of_zeros_means_the_same_alone_and_in_a_padded_batch():
    attention, E, _, _ = make("key-value")
    with torch.no_grad():
        attention.E.weight[2] = 0
    x = torch.randn(2, N, D, dtype=torch.float64)
    alone = run(attention, E, x[:1], [N])[0]
    together = run(attention, E, x, [N, 4])[0]
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-12)


def test_a_sentence_of_padding_only_gives_no_nan():
    for sharing, order in [(sharing, order) for sharing in SHARING for order in [None, *orders(sharing)]]:
        attention, E, _, _ = make(sharing, start="average")
        x = torch.randn(2, N, D, dtype=torch.float64, requires_grad=True)
        mask = torch.zeros(2, N, dtype=torch.bool)
        mask[1] = True
        out, _ = attention(x, mask, None if attention.E else E(), order=order)
        out[0].sum().backward()
        assert out.isfinite().all() and x.grad.isfinite().all()
