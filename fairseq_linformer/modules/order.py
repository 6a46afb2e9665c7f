"""In which order to multiply the chain Q W^Q (E K W^K)^T and P (F V W^V).

    n positions of this input, m query positions, k projected positions, H heads, d width

Matrix products are associative: the result is the same, the work is not. Projecting the input first is right for an
input of at least k positions; for a shorter one it multiplies k rows by the d x d weights where n would do. At base
size with k = 256, E, F for each layer and all positions read, the cheapest is SCORES up to n = 102, KEYS up to 255 and
INPUT from 256 on if E has no windows. If it has, k is the number of windows that the input reaches, never more than n,
and INPUT is the cheapest from n = 2 on.
"""

import enum
from typing import Iterable


class Order(enum.Enum):
    INPUT = "input"
    """(E x) W: project the input, then map k rows to keys and values. The authors' order."""
    KEYS = "keys"
    """E (x W): map n rows to keys and values, then project those."""
    SCORES = "scores"
    """((q (x W)^T) E^T): as for the Transformer, with the n x n scores projected."""


def multiplications(order: Order, m: int, n: int, k: int, d: int, H: int, separate_values: bool) -> float:
    """Multiplications for one sentence and one layer with a matrix E, without those that no order changes (queries,
    output). Softmax and copies are not counted.

    Args:
        separate_values: F is not E.
    """
    if order is Order.INPUT:
        projected = (2 if separate_values else 1) * k * n * d  # E x, F x
        mapped = 2 * k * d * d  # (E x) W^K, (F x) W^V
        attended = 2 * m * k * d  # q keys^T, weights values
    elif order is Order.KEYS:
        mapped = 2 * n * d * d  # x W^K, x W^V
        projected = 2 * k * n * d  # E keys, F values
        attended = 2 * m * k * d
    else:
        mapped = 2 * n * d * d
        projected = 2 * H * m * n * k  # scores E^T, weights F
        attended = 2 * m * n * d  # q keys^T, (weights F) values
    return projected + mapped + attended


def cheapest_order(
    m: int, n: int, k: int, d: int, H: int, separate_values: bool = True, among: Iterable[Order] = tuple(Order)
) -> Order:
    """The order with the fewest multiplications, the first of equals."""
    best, fewest = None, None
    for order in among:  # and not min(..., key=...), which PyTorch's compiler does not take
        count = multiplications(order, m, n, k, d, H, separate_values)
        if best is None or count < fewest:
            best, fewest = order, count
    return best
