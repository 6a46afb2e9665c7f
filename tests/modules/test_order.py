"""Orders of multiplication: counts equal PyTorch's, and the cheapest is chosen."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fairseq_linformer.modules import LinearProjection
from fairseq_linformer.modules.order import Order, cheapest_order, count_multiplications

from .test_attention import make, use


@pytest.mark.parametrize("sharing", ["none", "headwise", "key-value"])
@pytest.mark.parametrize("order", Order)
def test_counts_equal_pytorchs(order, sharing):
    if sharing == "none" and order is Order.INPUT:
        pytest.skip("not offered")
    B, n, m, k, d, H = 3, 20, 7, 12, 24, 4
    attention, _, _ = make(sharing, n=n, k=k, d=d, heads=H, init="normal")
    x, positions = torch.randn(B, n, d, dtype=torch.float64), torch.zeros(B, m, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        use(attention, order)(x, positions=positions, need_weights=True)
    counted = counter.get_total_flops() / 2 / B  # a multiplication and an addition each
    queries_and_output = 2 * m * d * d
    expected = count_multiplications(order, m, n, k, d, H, sharing != "key-value")
    row_of_zeros = 0 if order is Order.INPUT else 2 * d * d  # for the biases of keys and values
    assert counted == expected + queries_and_output + row_of_zeros


def test_cheapest_order_at_base_size():
    """As documented in order.py: SCORES up to 102, KEYS up to 255, INPUT from 256; with windows INPUT."""
    chosen = [cheapest_order(n, n, 256, 768, 12) for n in (16, 102, 103, 255, 256, 4096)]
    assert chosen == [Order.SCORES, Order.SCORES, Order.KEYS, Order.KEYS, Order.INPUT, Order.INPUT]
    for N in (512, 4096):
        E = LinearProjection(N, 256)
        assert {cheapest_order(n, n, E.num_reached(n), 768, 12) for n in range(3, N + 1)} == {Order.INPUT}
