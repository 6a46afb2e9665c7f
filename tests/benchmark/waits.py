"""Where a computation waits for the device: operations whose result has a size or a value that Python must see.

On a GPU Python runs ahead of the kernels; each of these stops it until all that is queued is done, and the GPU then
idles until new work is there. They are told by their kind, so a CPU finds them too.
"""

from typing import List, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_VALUES = {
    torch.ops.aten._local_scalar_dense,
    torch.ops.aten.nonzero,
    torch.ops.aten.masked_select,
    torch.ops.aten.equal,
}
_PRODUCTS = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm}


class Waits(TorchDispatchMode):
    """Collects them while it is entered.

    Attributes:
        found: the name of each, and how many matrix products were queued before it.
    """

    def __init__(self):
        super().__init__()
        self.found: List[Tuple[str, int]] = []
        self._products = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        packet = operation.overloadpacket
        self._products += packet in _PRODUCTS
        if packet in _VALUES or self._by_mask(packet, args):
            self.found.append((packet.__name__, self._products))
        return operation(*args, **(kwargs or {}))

    @staticmethod
    def _by_mask(packet, args) -> bool:
        """Indexing by a mask looks for its nonzero places."""
        masks = args[1] if packet in (torch.ops.aten.index, torch.ops.aten.index_put) else ()
        return any(mask is not None and mask.dtype == torch.bool for mask in masks)
