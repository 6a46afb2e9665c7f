"""Q, K and V of single heads: drawn at random, or those of a model on real text.

    n positions, d width of a head (the theorems' d), k projected positions
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Iterable, List, Optional

import torch
from torch import Tensor

from ..modules.attention import product
from .matrices import matrix_of
from .opening import Opened, attentions


@dataclass
class Head:
    """One head on one sentence, in double precision; weights W^Q, W^K, W^V are multiplied in already, as the proofs do.

    Biases: Q has its own, those b of K and c of V are left out, as the paper has none. What stays as it is in the model: P (b adds
    one number to a whole row of A), a Linformer's own map and its error S V - P V where c is added behind F, as this Linformer
    does (rows of both softmaxes sum to 1, so c is in both). What does not: exp(A), and with it the proof of theorem 2 before its
    softmax; lengths of w, V and P V, which errors are divided by; and P R^T R V - P V, as rows of P R^T R do not sum to 1.

    Attributes:
        Q, K, V: (n, d).
        E, F: (k, n), of a trained Linformer with such matrices; None of others.
        layer, head: where it is from; None if it is drawn.
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


def model_heads(model: Opened, sentences: Iterable[List[int]]) -> List[Head]:
    """All heads of all layers on these sentences, which must have no padding.

    Raises:
        ValueError: the model is one of ``transformers``, whose Q, K and V have no common place.
    """
    if model.encoder is None:
        raise ValueError(f"{model.name} is a model of transformers; Q, K and V are read of checkpoints of fairseq and of Linformers only")
    found: List[Head] = []

    def look(layer: int):
        def hook(module, arguments, output):
            x = arguments[0]
            n, H = x.size(1), module.num_heads
            q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2)[0].double().cpu()
                       for t in (module.q_proj(x), product(module.k_proj, x), product(module.v_proj, x)))  # fmt: skip
            E = F = None
            if model.kind == "linformer":
                E, F = _matrices(module, n, H)
            for h in range(H):
                found.append(Head(q[h], k[h], v[h], None if E is None else E[h], None if F is None else F[h], layer, h))

        return hook

    handles = [module.register_forward_hook(look(layer)) for layer, module in enumerate(attentions(model.encoder))]
    try:
        with torch.inference_mode():
            for sentence in sentences:
                model.encoder(torch.tensor([sentence], device=model.device))
    finally:
        for handle in handles:
            handle.remove()
    return found


def _matrices(module, n: int, H: int):
    """E and F of each head, (H, k', n) each; None where they are no matrices, or of another k in each head."""
    E = module.E or module._shared[0]
    parts = (E, module.F or E)
    matrices = [matrix_of(part) for part in parts]
    if any(matrix is None for matrix in matrices):
        return None, None
    return [matrix[..., : part.reached(n), :n].double().cpu().expand(H, -1, -1) for part, matrix in zip(parts, matrices)]
