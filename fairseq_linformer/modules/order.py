"""Order of multiplication in the chains Q W^Q (E K W^K)^T and P (F V W^V).

    n positions of this input, m query positions, k projected positions, H heads, d width

Matrix products are associative: the order changes the cost, not the result. Projecting the input first suits inputs of
at least k positions; for a shorter one it multiplies k rows by the d x d weights instead of n. At base size, with k =
256, E and F per layer and all positions read, the cheapest order without windows is SCORES up to n = 102, KEYS up to
255 and INPUT from 256. With windows, k is the number of windows that the input reaches, at most n, and INPUT is the
cheapest from n = 3, with graded ones from 64.
"""

import enum
from collections.abc import Iterable


class Order(enum.Enum):
    INPUT = "input"
    """(E x) W: project the input, then compute k keys and values. The authors' order."""
    KEYS = "keys"
    """E (x W): compute n keys and values, then project them."""
    SCORES = "scores"
    """((q (x W)^T) E^T): the Transformer's n x n scores, projected."""


def count_multiplications(order: Order, m: int, n: int, k: int, d: int, H: int, separate_values: bool) -> float:
    """Multiplications per sentence and layer with a matrix E.

    Excludes those that are the same in every order (queries, output), softmax and copies.

    Args:
        separate_values: F is not E.
    """
    if order is Order.INPUT:
        projection = (2 if separate_values else 1) * k * n * d  # E x, F x
        linear = 2 * k * d * d  # (E x) W^K, (F x) W^V
        attention = 2 * m * k * d  # q keys^T, weights values
    elif order is Order.KEYS:
        linear = 2 * n * d * d  # x W^K, x W^V
        projection = 2 * k * n * d  # E keys, F values
        attention = 2 * m * k * d
    else:
        linear = 2 * n * d * d
        projection = 2 * H * m * n * k  # scores E^T, weights F
        attention = 2 * m * n * d  # q keys^T, (weights F) values
    return projection + linear + attention


def cheapest_order(
    m: int, n: int, k: int, d: int, H: int, separate_values: bool = True, among: Iterable[Order] = tuple(Order)
) -> Order:
    """The order with the fewest multiplications; on a tie the first."""
    best, *others = among
    fewest = count_multiplications(best, m, n, k, d, H, separate_values)
    for order in others:  # not min(..., key=...), which PyTorch's compiler does not support
        count = count_multiplications(order, m, n, k, d, H, separate_values)
        if count < fewest:
            best, fewest = order, count
    return best
