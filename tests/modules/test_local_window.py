"""The two paths of attention to neighbors: fused, and with all weights in memory, which has its own backward pass."""

import pytest
import torch

from fairseq_linformer.modules.local_window import attend_locally

B, H, D = 2, 2, 3
UNLIKELY = 1e-12
"""A dropout probability that chooses the unfused path, and drops nothing."""


def inputs(n, num_projected, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    q, keys, values = (random(B, H, n, D) for _ in range(3))
    projected = random(B, H, num_projected, D), random(B, H, num_projected, D)
    bias = torch.randn(B, 1, n, num_projected, generator=generator, dtype=torch.float64)
    padding_mask = torch.arange(n) >= torch.tensor([[n], [n - n // 3]])
    return [q, *projected, keys, values, random(H, 1, D)], bias, padding_mask


def attend(tensors, bias, padding_mask, reach, dropout):
    q, projected_keys, projected_values, keys, values, value_bias = tensors
    exact, projected = (keys, values), (projected_keys, projected_values)
    return attend_locally(q, projected, exact, value_bias, bias, padding_mask, reach, dropout)


@pytest.mark.parametrize("n, num_projected, reach", [(5, 2, 1), (32, 3, 4), (70, 200, 33), (40, 4, 39)])
@pytest.mark.parametrize("has_bias, has_padding", [(True, True), (False, False)])
def test_both_paths_agree(n, num_projected, reach, has_bias, has_padding):
    tensors, bias, padding_mask = inputs(n, num_projected)
    bias, padding_mask = bias if has_bias else None, padding_mask if has_padding else None
    results = []
    for dropout in (0.0, UNLIKELY):
        y = attend(tensors, bias, padding_mask, reach, dropout)
        results.append([y, *torch.autograd.grad(y.square().sum(), tensors)])
    for fused, unfused in zip(*results):
        torch.testing.assert_close(unfused, fused)
    with torch.no_grad():
        torch.testing.assert_close(attend(tensors, bias, padding_mask, reach, 0.0), results[0][0])


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_empty_batch(dropout):
    tensors, bias, padding_mask = inputs(7, 2)
    tensors = [*(x[:0].detach().requires_grad_() for x in tensors[:-1]), tensors[-1]]
    y = attend(tensors, bias[:0], padding_mask[:0], 2, dropout)
    assert y.shape == (0, H, 7, D)
    assert torch.autograd.grad(y.sum(), tensors)[-1].eq(0).all()


@pytest.mark.slow
def test_gradients_with_dropout_are_those_of_the_same_dropped_weights():
    tensors, bias, padding_mask = inputs(7, 2)

    def run(*tensors):
        torch.manual_seed(0)
        return attend(tensors, bias, padding_mask, 2, 0.4)

    assert not torch.equal(run(*tensors), attend(tensors, bias, padding_mask, 2, 0.0))
    assert torch.autograd.gradcheck(run, tensors)


@pytest.mark.parametrize("dropout, per_position", [(0.0, 4 * D), (UNLIKELY, 4 * D)])
def test_keys_and_values_are_stored_once(dropout, per_position):
    """Bytes for the backward pass: queries, keys, values and output, and for the unfused path the weights."""
    n, num_projected, reach = 256, 4, 8
    tensors, _, _ = inputs(n, num_projected)
    stored = {}

    def pack(x):
        stored[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        attend(tensors, None, None, reach, dropout)
    weights = 0 if dropout == 0 else B * H * n * (num_projected + 32 + 2 * reach) * (8 + 1)
    assert sum(stored.values()) <= 8 * B * H * n * per_position + weights + 4096
