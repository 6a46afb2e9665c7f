"""Q, K, V, E and F of single heads: random, or those of a model on real text.

    n positions, d width of a head (the theorems' d), k projected positions, H heads
"""

import math
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Dict, Iterable, List, Optional

import torch
from torch import Tensor

from ..modules import LinformerEncoder, MeanPool
from ..modules.attention import product
from ..modules.projection import HeadProjections
from ..modules.projection import LinearProjection, Projection
from ..modules.windows import window_average
from .attention_model import AttentionModel, attention_layers


@dataclass
class Head:
    """One head on one sentence, in double precision; the weights W^Q, W^K, W^V are multiplied in, as the proofs do.

    Q includes its bias; the biases b of K and c of V are left out, as the paper has none. What that leaves as it is in
    the model: P (b adds one number to a whole row of A), a Linformer's own map, and its error S V - P V where c is
    added after F, as this Linformer does (rows of both softmaxes sum to 1, so c cancels). What it changes: exp(A), and
    with it the proof of theorem 2 before its softmax; lengths of w, V and P V, by which errors are divided; and P R^T R
    V - P V, as rows of P R^T R do not sum to 1.

    Attributes:
        Q, K, V: (n, d).
        E, F: (k, n), of a trained Linformer with such matrices; None for others.
        layer, head: indices in the model; None for random heads.
    """

    Q: Tensor
    K: Tensor
    V: Tensor
    E: Optional[Tensor] = None
    F: Optional[Tensor] = None
    layer: Optional[int] = None
    head: Optional[int] = None

    @cached_property
    def A(self) -> Tensor:
        """(n, n): Q K^T / sqrt(d)."""
        return self.Q @ self.K.T / math.sqrt(self.Q.size(-1))

    @cached_property
    def P(self) -> Tensor:
        """(n, n): the context mapping matrix softmax(A), by rows."""
        return torch.softmax(self.A, -1)

    @cached_property
    def PV(self) -> Tensor:
        """(n, d): the output."""
        return self.P @ self.V

    @cached_property
    def row_norms(self) -> Tensor:
        """(n,): ||P_i||."""
        return self.P.norm(dim=1)

    @cached_property
    def spectral_norm(self) -> float:
        """||V||_2."""
        return float(torch.linalg.matrix_norm(self.V, 2))


def random_head(n: int, d: int, generator: torch.Generator) -> Head:
    """Q, K and V of independent N(0, 1)."""
    return Head(*(torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(3)))


def model_heads(model: AttentionModel, sentences: Iterable[List[int]]) -> List[Head]:
    """All heads of all layers on these sentences, which must have no padding.

    Raises:
        ValueError: the model is one of ``transformers``, whose Q, K and V have no common place.
    """
    if model.encoder is None:
        raise ValueError(f"{model.name} is of transformers; heads are those of a fairseq checkpoint or a Linformer")
    found: List[Head] = []

    def add_heads(layer, module, arguments, output):
        x = arguments[0]  # (1, n, H d)
        projected = (module.q_proj(x), product(module.k_proj, x), product(module.v_proj, x))
        # (H, n, d)
        Q, K, V = (t.unflatten(-1, (module.num_heads, -1)).transpose(1, 2)[0].double().cpu() for t in projected)
        E, F = _matrices(module, x.size(1)) if model.kind == "linformer" else ([None] * len(Q), [None] * len(Q))
        found.extend(Head(*parts, layer, h) for h, parts in enumerate(zip(Q, K, V, E, F)))

    with ExitStack() as hooks, torch.inference_mode():
        for layer, module in enumerate(attention_layers(model.encoder)):
            hooks.enter_context(module.register_forward_hook(partial(add_heads, layer)))
        for sentence in sentences:
            model.encoder(torch.tensor([sentence], device=model.device))
    return found


def _matrices(module, n: int):
    """E and F of each head, (H, k', n) each; lists of None where they are no matrices, or have another k in each
    head."""
    H, projections = module.num_heads, module.projections
    matrices = [matrix_of(projection) for projection in projections]
    if any(matrix is None for matrix in matrices):
        return [None] * H, [None] * H
    reached = (matrix[..., : projection.reached(n), :n] for projection, matrix in zip(projections, matrices))
    return [matrix.double().cpu().expand(H, -1, -1) for matrix in reached]


def projection_matrices(encoder: LinformerEncoder) -> Dict[str, Tensor]:
    """The matrices that an encoder multiplies keys and values with, by their names in it.

    Returns:
        ``E`` (one for all layers) or ``layers.I.E`` and ``layers.I.F``: (k, n), or (H, k, n) where heads have their
        own; those of heads with different k are ``layers.I.E.heads.J``. Max-pooling and convolution are no such
        matrices and left out.
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
