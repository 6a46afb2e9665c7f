"""Full attention: the Transformer's, in the place of linear attention."""

import pytest
import torch

from fairseq_linformer.modules import FullAttention
from fairseq_linformer.modules.reference import linear_attention

LENGTHS = (6, 2, 5)
PADDING = torch.arange(6) >= torch.tensor(LENGTHS).unsqueeze(1)


def build(dropout=0.0):
    torch.manual_seed(0)
    attention = FullAttention(8, 2, dropout).double()
    for p in attention.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return attention, torch.randn(3, 6, 8, dtype=torch.float64)


@pytest.mark.parametrize("need_weights", [False, True])
def test_it_equals_the_reference(need_weights):
    attention, x = build()
    for mask, lengths in ((None, (6, 6, 6)), (PADDING, LENGTHS)):
        out, weights = attention(x, mask, need_weights=need_weights)
        for row, X, length in zip(out, x, lengths):
            torch.testing.assert_close(row[:length], linear_attention(attention, X[:length]))
        read, _ = attention(x, mask, positions=torch.tensor([[0, 1], [1, 1], [4, 0]]), need_weights=need_weights)
        torch.testing.assert_close(read, torch.stack([out[0, [0, 1]], out[1, [1, 1]], out[2, [4, 0]]]))
        if weights is not None:
            assert weights.shape == (3, 2, 6, 6)
            torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 6, dtype=torch.float64))
            assert mask is None or not weights.transpose(1, 3)[mask].any()


def test_it_equals_multihead_attention():
    attention, x = build()
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).double()
    parts = [attention.get_submodule(f"{name}_proj") for name in "qkv"]
    state = {f"in_proj_{name}": torch.cat([getattr(part, name) for part in parts]) for name in ("weight", "bias")}
    state |= {f"out_proj.{name}": value for name, value in attention.out_proj.state_dict().items()}
    theirs.load_state_dict(state)
    out, weights = theirs(x, x, x, PADDING, average_attn_weights=False)
    ours, our_weights = attention(x, PADDING, need_weights=True)
    torch.testing.assert_close(ours[~PADDING], out[~PADDING])
    torch.testing.assert_close(our_weights.transpose(1, 2)[~PADDING], weights.transpose(1, 2)[~PADDING])


def test_a_sentence_of_padding_alone_stays_finite():
    attention, x = build()
    empty = PADDING | torch.tensor([[False], [True], [False]])
    for need_weights in (False, True):
        assert attention(x, empty, need_weights=need_weights)[0].isfinite().all()


def test_dropout_drops_attention_weights():
    """Of constant weights 1 / 6, each is dropped or doubled; in eval mode none is."""
    attention, x = build(dropout=0.5)
    with torch.no_grad():
        for linear in (attention.q_proj, attention.k_proj):
            linear.weight.zero_()
        attention.v_proj.weight.zero_()
        attention.v_proj.bias.fill_(1)
        attention.out_proj.weight.copy_(torch.eye(8))
        attention.out_proj.bias.zero_()
    counts = attention(x)[0] * 3  # of weights that are kept, 1 / 6 * 2 each
    torch.testing.assert_close(counts, counts.round())
    assert len(counts.round().unique()) > 3
    torch.testing.assert_close(attention.eval()(x)[0], torch.ones_like(x))
