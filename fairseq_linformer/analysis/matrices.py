"""E and F of a trained Linformer, as matrices.

    k projected positions, n positions, H heads
"""

from typing import Dict, Optional

import torch
from torch import Tensor

from ..modules import LinformerEncoder, MeanPool
from ..modules.heads import HeadProjections
from ..modules.projection import LinearProjection, Projection
from ..modules.windows import window_average
from .attention_model import attention_layers


def projection_matrices(encoder: LinformerEncoder) -> Dict[str, Tensor]:
    """The matrices that an encoder multiplies keys and values with, by their names in it.

    Returns:
        ``E`` (one for all layers) or ``layers.I.E`` and ``layers.I.F``: (k, n), or (H, k, n) where heads have their own; those
        of heads with different k are ``layers.I.E.heads.J``. Max-pooling and convolution are no such matrices and left out.
    """
    named: Dict[str, Optional[Projection]] = {"E": encoder.E}
    for i, attention in enumerate(attention_layers(encoder)):
        named |= {f"layers.{i}.E": attention.E, f"layers.{i}.F": attention.F}
    found: Dict[str, Optional[Tensor]] = {}
    with torch.no_grad():
        for name, projection in named.items():
            if isinstance(projection, HeadProjections):
                found |= {f"{name}.heads.{j}": matrix_of(head) for j, head in enumerate(projection.heads)}
            else:
                found[name] = matrix_of(projection)
    return {name: matrix for name, matrix in found.items() if matrix is not None}


def matrix_of(projection: Optional[Projection]) -> Optional[Tensor]:
    """(k, n) or (H, k, n), detached; None if it is not a matrix."""
    if isinstance(projection, LinearProjection):
        return projection().detach()
    return window_average(projection.k, projection.n) if isinstance(projection, MeanPool) else None
