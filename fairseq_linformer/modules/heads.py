"""A projection for each head, of different k ("nonuniform projected dimension", section 4 of the paper).

    B sentences, n positions of this input, k' the most projected positions that it reaches in
    any head, H heads, d width, d_h = d / H
"""

from typing import Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .order import Order
from .projection import Projection


class HeadProjections(Projection):
    """A projection for each head, of different k.

    What is projected is filled up to the largest k, and what fills is masked out.

    Args:
        heads: the projection of each head; all for the same n.
    """

    orders = (Order.KEYS,)

    def __init__(self, heads: Sequence[Projection]):
        super().__init__(heads[0].n, max(head.k for head in heads))
        self.heads = nn.ModuleList(heads)

    def reached(self, n: int) -> int:
        return max(head.reached(n) for head in self.heads)

    def mask(self, n: int, padding_mask: Optional[Tensor]) -> Tensor:
        most = self.reached(n)
        masks = []
        for head in self.heads:
            mask = head.mask(n, padding_mask)  # (B, 1, 1, k') or None
            if mask is None:
                some = next(self.buffers())
                mask = torch.ones(1, 1, 1, head.reached(n), dtype=torch.bool, device=some.device)
            masks.append(F.pad(mask, (0, most - mask.size(-1))))
        return torch.cat(torch.broadcast_tensors(*masks), 1)  # (B or 1, H, 1, k')

    def reduce(self, x, value=None, padding_mask=None):
        most = self.reached(x.size(1))
        parts = x.chunk(len(self.heads), -1)  # (B, n, d_h) each
        reduced = [head.reduce(part, head(), padding_mask) for head, part in zip(self.heads, parts)]
        return torch.cat([F.pad(r, (0, 0, 0, most - r.size(1))) for r in reduced], -1)
