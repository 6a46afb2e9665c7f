"""The aligned masked LM head has the logits, gradients and parameters of fairseq's."""

import pytest
import torch
from fairseq.models.roberta.model import RobertaLMHead

from fairseq_linformer.models import linformer_roberta as lm_head
from fairseq_linformer.models.linformer_roberta import AlignedLMHead, aligned_linear

WIDTH, ENTRIES = 16, 77


@pytest.mark.parametrize("masked", [False, True])
def test_aligned_head_is_fairseqs(masked, monkeypatch):
    """Aligned as on a GPU: the product has 128 columns."""
    widths, linear = [], torch.nn.functional.linear

    def remember(x, weight, bias=None):
        widths.append(weight.size(0))
        return linear(x, weight, bias)

    monkeypatch.setattr(lm_head, "is_half_on_gpu", lambda x, weight: True)
    torch.manual_seed(0)
    theirs, ours = (cls(WIDTH, ENTRIES, "gelu").double() for cls in (RobertaLMHead, AlignedLMHead))
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 5, WIDTH, dtype=torch.double)
    mask = torch.rand(2, 5) < 0.5 if masked else None
    expected = theirs(x, mask)
    monkeypatch.setattr(torch.nn.functional, "linear", remember)
    logits = ours(x, mask)
    assert widths[-1] == 128 and logits.shape == expected.shape
    torch.testing.assert_close(logits, expected)
    seed = torch.randn_like(expected)
    logits.backward(seed)
    expected.backward(seed)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters()):
        torch.testing.assert_close(a.grad, b.grad, msg=name)


def test_only_half_precision_on_a_gpu_is_aligned():
    x, weight = torch.randn(3, WIDTH), torch.randn(ENTRIES, WIDTH)
    assert not lm_head.is_half_on_gpu(x, weight.half())
    assert torch.equal(aligned_linear(x, weight, 1), x @ weight.T)
    assert aligned_linear(x, weight[:64], 64).shape == (3, 64)
