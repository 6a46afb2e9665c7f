"""The memory-saving dropout drops the same numbers as PyTorch's; results and gradients agree up to rounding."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks

from fairseq_linformer.modules.dropout import Dropout, dropout, dropped_product


def run_with_gradients(seed, run, *inputs):
    """The result, and the gradients of the inputs, with a seed."""
    inputs = [x.clone().requires_grad_() for x in inputs]
    torch.manual_seed(seed)
    y = run(*inputs)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y))
    return [y.detach(), *(x.grad for x in inputs)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.15, 0.5])
def test_same_numbers_are_dropped_as_in_pytorch(dtype, p):
    x = torch.randn(3, 4, 50, dtype=dtype)
    ours, theirs = (
        run_with_gradients(1, lambda x: dropout(x, p), x),
        run_with_gradients(1, lambda x: F.dropout(x, p, True), x),
    )
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b)
    assert torch.equal(ours[0] == 0, theirs[0] == 0) and (torch.equal(ours[0], theirs[0]) or p == 0.15)
    assert dropout(x, 0.0) is x and Dropout(p).eval()(x) is x
    assert torch.equal(*(run_with_gradients(2, f, x)[0] for f in (Dropout(p), lambda x: dropout(x, p))))


def test_product_and_gradients_equal_pytorchs():
    weights, values = (
        torch.softmax(torch.randn(2, 3, 20, 8, dtype=torch.float64), -1),
        torch.randn(2, 3, 8, 5, dtype=torch.float64),
    )
    ours = run_with_gradients(3, lambda w, v: dropped_product(w, v, 0.3), weights, values)
    theirs = run_with_gradients(3, lambda w, v: F.dropout(w, 0.3, True) @ v, weights, values)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b)
    assert torch.equal(dropped_product(weights, values, 0.0), weights @ values)


def test_product_stores_five_bytes_per_weight():
    weights, values = torch.rand(64, 64, requires_grad=True), torch.rand(64, 1, requires_grad=True)
    kept = {}
    with saved_tensors_hooks(lambda t: kept.setdefault(t.data_ptr(), t), lambda t: t):
        dropped_product(weights, values, 0.5)
    assert sum(t.nbytes for t in kept.values()) == 64 * 64 * 5 + 64 * 4
