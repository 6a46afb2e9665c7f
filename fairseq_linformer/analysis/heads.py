"""Q, K, V, E and F of single heads: random, or those of a model on real text.

n positions, d head dimension (the theorems' d), k projected positions, H heads
"""

import math
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from ..modules import LinformerEncoder, MeanPool
from ..modules.attention import linear_without_bias
from ..modules.linear import HeadProjections, LinearProjection
from ..modules.projection import Projection
from .attention_model import AttentionModel, attention_layers


@dataclass
class Head:
    """One head on one sentence, in double precision. Q, K and V are after W^Q, W^K and W^V, as in the proofs.

    Q includes its bias. The biases b of K and c of V are omitted, as the paper has none. This does not change P (b adds
    the same number to all scores of a row of A), nor a Linformer's own map, nor its error S V - P V if c is added after
    F, as in this Linformer (the rows of both softmaxes sum to 1, so c cancels). It does change exp(A), and so the proof
    of theorem 2 before its softmax; the norms of w, V and P V, which errors are relative to; and P R^T R V - P V, since
    the rows of P R^T R do not sum to 1.

    Attributes:
        Q, K, V: (n, d).
        E, F: (k, n), of a trained Linformer with such matrices; None for others.
        bias: (k,), which attention adds to the scores; None for no bias.
        layer, head: indices in the model; None for random heads.
    """

    Q: Tensor
    K: Tensor
    V: Tensor
    E: Tensor | None = None
    F: Tensor | None = None
    bias: Tensor | None = None
    layer: int | None = None
    head: int | None = None

    @cached_property
    def A(self) -> Tensor:
        """(n, n): Q K^T / sqrt(d)."""
        return self.Q @ self.K.T / math.sqrt(self.Q.size(-1))

    @cached_property
    def P(self) -> Tensor:
        """(n, n): the context mapping matrix softmax(A), row by row."""
        return torch.softmax(self.A, -1)

    @cached_property
    def svd(self) -> tuple[Tensor, Tensor, Tensor]:
        """U (n, n), singular values (n,), the largest first, and V^T (n, n), of P."""
        return torch.linalg.svd(self.P)

    @cached_property
    def PV(self) -> Tensor:
        """(n, d): the output P V."""
        return self.P @ self.V

    @cached_property
    def row_norms(self) -> Tensor:
        """(n,): ||P_i|| of each row."""
        return self.P.norm(dim=1)

    @cached_property
    def spectral_norm(self) -> float:
        """||V||_2."""
        return float(torch.linalg.matrix_norm(self.V, 2))


def random_head(n: int, d: int, generator: torch.Generator) -> Head:
    """Q, K and V with independent N(0, 1) entries."""
    Q, K, V = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(3))
    return Head(Q, K, V)


def neighbor_head(n: int, d: int, generator: torch.Generator) -> Head:
    """Each position attends to the next, as in some heads of trained models: P is nearly a permutation, of full rank.

    The key of a position is the query of the one before it; queries are N(0, 4), V is N(0, 1).
    """
    Q, V = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(2))
    return Head(2 * Q, 2 * Q.roll(1, 0), V)


def model_heads(model: AttentionModel, sentences: Iterable[list[int]]) -> list[Head]:
    """All heads of all layers on each of the unpadded sentences.

    Raises:
        ValueError: the model is a ``transformers`` model, which has no uniform interface to Q, K and V.
    """
    if model.encoder is None:
        raise ValueError(f"{model.name} must be a fairseq checkpoint or a Linformer, got a transformers model")
    heads: list[Head] = []

    def add_heads(layer, module, arguments, output):
        x = arguments[0]  # (1, n, H d)
        projected = (module.q_proj(x), linear_without_bias(module.k_proj, x), linear_without_bias(module.v_proj, x))
        # (H, n, d)
        Q, K, V = (t.unflatten(-1, (module.num_heads, -1)).transpose(1, 2)[0].double().cpu() for t in projected)
        learned = _matrices(module, x) if model.kind == "linformer" else [[None] * len(Q)] * 3
        heads.extend(Head(*parts, layer, h) for h, parts in enumerate(zip(Q, K, V, *learned)))

    with ExitStack() as hooks, torch.inference_mode():
        for layer, module in enumerate(attention_layers(model.encoder)):
            hooks.enter_context(module.register_forward_hook(partial(add_heads, layer)))
        for sentence in sentences:
            model.encoder(torch.tensor([sentence], device=model.device))
    return heads


def _matrices(module, x: Tensor) -> list:
    """E and F of each head, (H, k', n) each, and the bias, (H, k').

    Lists of None if E and F are not matrices, if k differs between heads, or if there is a local window.
    """
    H, projections = module.num_heads, module.projections
    if module.local_window or not all(isinstance(p, LinearProjection | MeanPool) for p in projections):
        return [[None] * H] * 3
    reached = [_used_matrix(projection, x).double().cpu().expand(H, -1, -1) for projection in projections]
    bias = projections[0].bias(x, None)
    return [*reached, [None] * H if bias is None else bias[0, :, 0].double().cpu().expand(H, -1)]


def _used_matrix(projection: LinearProjection | MeanPool, x: Tensor) -> Tensor:
    """The matrix of an input (1, n, d), with the factors for missing tokens: (k', n), (1, k', n) or (H, k', n)."""
    n = x.size(1)
    if isinstance(projection, MeanPool):
        return projection.reduce(torch.eye(n, dtype=x.dtype, device=x.device)[None])[0]
    matrix, scale = projection().detach()[..., : projection.num_reached(n), :n], projection.row_scale(x, None)
    return matrix if scale is None else matrix * scale


def projection_matrices(encoder: LinformerEncoder) -> dict[str, Tensor]:
    """The projection matrices of an encoder, by name.

    Returns:
        ``E`` (layerwise sharing) or ``layers.I.E`` and ``layers.I.F``: (k, n), or (H, k, n) if each head has its own;
        ``layers.I.E.heads.J`` if k differs between heads. Max pooling and convolution are not matrices and are omitted.
    """
    named: dict[str, Projection | None] = {"E": encoder.E}
    for i, attention in enumerate(attention_layers(encoder)):
        named |= {f"layers.{i}.E": attention.E, f"layers.{i}.F": attention.F}
    matrices: dict[str, Tensor | None] = {}
    with torch.no_grad():
        for name, projection in named.items():
            if isinstance(projection, HeadProjections):
                matrices |= {f"{name}.heads.{j}": projection_matrix(head) for j, head in enumerate(projection.heads)}
            else:
                matrices[name] = projection_matrix(projection)
    return {name: matrix for name, matrix in matrices.items() if matrix is not None}


def projection_matrix(projection: Projection | None) -> Tensor | None:
    """(k, n) or (H, k, n), detached; None if the projection is not a matrix."""
    if isinstance(projection, LinearProjection):
        return projection().detach()
    return projection.layout.average() if isinstance(projection, MeanPool) else None
