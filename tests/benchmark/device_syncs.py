"""Finds where a computation synchronizes with the device: where Python needs the size or the value of a result.

On a GPU Python runs ahead of the kernels; a synchronization stops it until the queue is empty, and then the GPU idles.
They are recognized by the kind of operation, so a CPU finds them too.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_SYNCHRONIZING = {
    torch.ops.aten._local_scalar_dense,
    torch.ops.aten.nonzero,
    torch.ops.aten.masked_select,
    torch.ops.aten.equal,
}
_PRODUCTS = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm}


class DeviceSyncs(TorchDispatchMode):
    """Collects the synchronizations inside its context.

    Attributes:
        syncs: the name of each operation, and how many matrix products were queued before it.
    """

    def __init__(self):
        super().__init__()
        self.syncs: list[tuple[str, int]] = []
        self._products = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        packet = operation.overloadpacket
        self._products += packet in _PRODUCTS
        indices = args[1] if packet in (torch.ops.aten.index, torch.ops.aten.index_put) else ()
        by_mask = any(index is not None and index.dtype == torch.bool for index in indices)  # needs its nonzeros
        if packet in _SYNCHRONIZING or by_mask:
            self.syncs.append((packet.__name__, self._products))
        return operation(*args, **(kwargs or {}))
