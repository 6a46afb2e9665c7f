"""Windows: n positions cut into k adjoining stretches of nearly equal length.

    B sentences, n positions of this input, N the most positions (max_positions), k windows, k' windows that this input
    reaches, W positions of the longest window, d width

Window i covers the positions ``i * N // k`` up to, not including, ``(i + 1) * N // k``, for any k <= N: lengths differ
by one at most, and with k = N each window is one position. It is cut by the longest input, so a position lies in the
same window in every sentence, and an input of n < N positions reaches the first k' windows, the last of them perhaps in
part.

With an ``offset`` all edges but the first and the last lie so many positions later: the first window is longer and the
last one shorter. It must be less than the shortest window, N // k.
"""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor


def window_edges(k: int, N: int, offset: int = 0, device=None) -> Tensor:
    """(k + 1,): where each window starts, and where the last one ends.

    Raises:
        ValueError: k is not between 1 and N, or the offset is not less than N // k.
    """
    if not 1 <= k <= N:
        raise ValueError(f"k is {k}; it must be between 1 and n, which is {N}")
    if not 0 <= offset < N // k:
        raise ValueError(f"offset is {offset}; it must be at least 0 and less than a window, which is {N // k}")
    edges = torch.arange(k + 1, device=device) * N // k
    edges[1:-1] += offset
    return edges


def window_average(k: int, N: int, offset: int = 0) -> Tensor:
    """The (k, N) matrix whose row i averages window i; with k = N it is the identity, and the Linformer is the
    Transformer.

    Raises:
        ValueError: as ``window_edges``.
    """
    edges = window_edges(k, N, offset).unsqueeze(1)
    positions = torch.arange(N)
    window = (edges[:-1] <= positions) & (positions < edges[1:])  # (k, N)
    return window / window.sum(1, keepdim=True)


def window_triangle(k: int, N: int, offset: int = 0, reach: float = 1.0) -> Tensor:
    """The (k, N) matrix of windows that overlap: the weights of row i fall in a straight line from the middle of window
    i to ``reach`` windows' length from it. With k = N and a reach of 1 it is the identity.

    Raises:
        ValueError: as ``window_edges``.
    """
    edges = window_edges(k, N, offset).double()
    middles = (edges[:-1] + edges[1:] - 1).unsqueeze(1) / 2
    weights = (1 - (torch.arange(N) - middles).abs() * k / (reach * N)).clamp(min=0)
    return (weights / weights.sum(1, keepdim=True)).float()


def longest_window(k: int, N: int) -> int:
    """W."""
    return -(-N // k)


def windows_reached(k: int, N: int, n: int, offset: int = 0) -> int:
    """k': how many windows start before position n."""
    return max(1, min(k, -(-(n - offset) * k // N)))


def window_mask(k: int, N: int, n: int, padding_mask: Optional[Tensor], offset: int = 0) -> Optional[Tensor]:
    """Which of the k' windows hold a real token, (B, 1, 1, k'); None if all do.

    A sentence without any real token is given all windows, so that no softmax is empty.

    Args:
        padding_mask: (B, n), True at padding, or None.
    """
    if padding_mask is None:
        return None
    edges = window_edges(k, N, offset, padding_mask.device)[: windows_reached(k, N, n, offset) + 1].clamp(max=n)
    before = F.pad((~padding_mask).cumsum(1), (1, 0))[:, edges]  # real tokens before each edge
    held = before[:, 1:] > before[:, :-1]
    held = held | ~held.any(-1, keepdim=True)
    return held[:, None, None]


def split_windows(x: Tensor, k: int, N: int) -> Tensor:
    """(B, n, d) to (B, k', W, d), zeros after the end of a shorter window and of the input."""
    n, W = x.size(1), longest_window(k, N)
    reached = windows_reached(k, N, n)
    if N % k == 0:
        return F.pad(x, (0, 0, 0, reached * W - n)).unflatten(1, (reached, W))
    positions, inside = _table(k, N, n, x.device)
    return x[:, positions] * inside.unsqueeze(-1)


def inside_windows(k: int, N: int, n: int, padding_mask: Optional[Tensor], device=None) -> Tensor:
    """Where ``split_windows`` put a real token: (B or 1, k', W) boolean."""
    positions, inside = _table(k, N, n, device)
    return inside.unsqueeze(0) if padding_mask is None else inside & ~padding_mask[:, positions]


def _table(k: int, N: int, n: int, device) -> Tuple[Tensor, Tensor]:
    """The position at each place of each window, (k', W), and whether it is one of the window."""
    edges = window_edges(k, N, device=device)[: windows_reached(k, N, n) + 1].clamp(max=n).unsqueeze(1)
    positions = edges[:-1] + torch.arange(longest_window(k, N), device=device)
    return positions.clamp(max=n - 1), positions < edges[1:]
