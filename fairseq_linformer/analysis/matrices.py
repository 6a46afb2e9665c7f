"""E and F of a trained Linformer, as matrices.

    k projected positions, n positions, H heads
"""

from typing import Dict

import torch
from torch import Tensor

from ..modules import LinformerEncoder, MeanPool
from ..modules.projection import HeadProjections, LinearProjection, Projection
from ..modules.windows import window_average
from .opening import attentions


def projection_matrices(encoder: LinformerEncoder) -> Dict[str, Tensor]:
    """The matrices that an encoder multiplies keys and values with, by their names in it.

    Returns:
        ``E`` (one for all layers) or ``layers.I.E`` and ``layers.I.F``: (k, n), or (H, k, n) where heads have their own; those
        of heads with different k are ``layers.I.E.heads.J``. Max-pooling and convolution are no such matrices and left out.
    """
    named: Dict[str, Projection] = {}
    if encoder.E is not None:
        named["E"] = encoder.E
    for i, attention in enumerate(attentions(encoder)):
        for which in "EF":
            if getattr(attention, which) is not None:
                named[f"layers.{i}.{which}"] = getattr(attention, which)
    found: Dict[str, Tensor] = {}
    with torch.no_grad():
        for name, projection in named.items():
            parts = enumerate(projection.heads) if isinstance(projection, HeadProjections) else [(None, projection)]
            for j, part in parts:
                matrix = matrix_of(part)
                if matrix is not None:
                    found[name if j is None else f"{name}.heads.{j}"] = matrix
    return found


def matrix_of(projection: Projection):
    """(k, n) or (H, k, n), detached; None if it is not a matrix."""
    if isinstance(projection, LinearProjection):
        return projection().detach()
    return window_average(projection.k, projection.n) if isinstance(projection, MeanPool) else None
