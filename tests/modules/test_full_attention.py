"""Full attention: the Transformer's, in the place of linear attention."""

import pytest
import torch

from fairseq_linformer.modules import FullAttention
from fairseq_linformer.modules.reference import linear_attention

LENGTHS = (6, 2, 5)
PADDING = torch.arange(6) >= torch.tensor(LENGTHS).unsqueeze(1)


def build():
    torch.manual_seed(0)
    attention = FullAttention(8, 2).double()
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


def test_a_sentence_of_padding_alone_stays_finite():
    attention, x = build()
    empty = PADDING | torch.tensor([[False], [True], [False]])
    for need_weights in (False, True):
        assert attention(x, empty, need_weights=need_weights)[0].isfinite().all()
