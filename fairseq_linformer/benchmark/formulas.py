"""Parameters and floating-point operations of a pretraining step.

    B sentences, n positions of each, m positions per sentence that the head reads (the masked ones),
    k' projected positions that the input reaches, w the local window, H heads, d width, f width of the feed-forward,
    V vocabulary size

Parameters and orders of multiplication come from the modules, built without memory on PyTorch's meta device; the
formulas follow from these. Sentences are full, without padding. ``tests/planning`` compares everything with PyTorch.
Sources:

    [flash]  Dao et al. 2022, "FlashAttention", section 3.1: the backward pass computes the scores again
    [kaplan] Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1: backward is twice forward
    [korth]  Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from ..modules.linear import HeadProjections, LinearProjection
from ..modules.local_window import CHUNK, gathers_outputs
from ..modules.order import Order, cheapest_order, count_multiplications
from ..modules.projection import Projection, learned_projections
from ..modules.windows import ceil_div


@dataclass(frozen=True)
class PlannedModel:
    """A language model to train."""

    shape: LinformerConfig
    linear: bool = True
    """Linear attention; False for fairseq's RoBERTa, where k, sharing and projection are ignored."""
    untied: bool = False
    """The output embeddings have their own matrix."""
    skips_unread: bool = False
    """The last layer of full attention computes only the positions that the head reads, as in a Linformer."""

    @cached_property
    def encoder(self) -> LinformerEncoder:
        """The encoder on the meta device. For RoBERTa, a Linformer with mean pooling, which has no E and F."""
        shape = self.shape
        if not self.linear:
            pooled: dict[str, Any] = dict(projection="mean-pool", projection_init=None, projection_lr_scale=None)
            shape = replace(shape, projected_dim=1, freeze_projections=False, **pooled)
        with torch.device("meta"):
            return LinformerEncoder(shape)


@dataclass(frozen=True)
class Batch:
    """A micro-batch on one GPU."""

    sentences: int
    positions: int
    num_masked: int
    """m, the same in every sentence."""


class ParameterCounts(NamedTuple):
    """Number of stored values of a model."""

    trainable: int
    projections: int
    """Those of ``trainable`` that are in E and F."""
    frozen: int
    """Frozen parameters, and buffers: the start of each slowly learning E and F (``modules/projection.py``)."""


def count_parameters(model: PlannedModel) -> ParameterCounts:
    """Count all parameters, with those of the language-model head: a d x d map, a norm, and the output bias."""
    c, encoder = model.shape, model.encoder
    head = c.embed_dim * (c.embed_dim + 3) + c.vocab_size + model.untied * c.vocab_size * c.embed_dim
    trainable = sum(p.numel() for p in encoder.parameters() if p.requires_grad)
    projections = sum(p.parameter.numel() for p in learned_projections(encoder) if p.parameter.requires_grad)
    frozen = [p for p in encoder.parameters() if not p.requires_grad]
    buffers = encoder.buffers() if model.linear else ()
    return ParameterCounts(trainable + head, projections, sum(t.numel() for t in [*frozen, *buffers]))


def num_embedding_parameters(model: PlannedModel) -> int:
    """Parameters of the token and position embeddings."""
    return model.encoder.embed_tokens.weight.numel() + model.encoder.embed_positions.weight.numel()


# ---- order and sizes of attention


@dataclass(frozen=True)
class AttentionShape:
    """Order and sizes of the attention of one layer, for one batch."""

    order: Order
    m: int
    """Positions whose output is computed: in the last layer those that the head reads, otherwise all."""
    queries: int
    """Positions that attend: m, or all n, of whose outputs m are gathered (``modules/local_window.py``)."""
    is_gathered: bool
    """Whether the queries are gathered from the input."""
    num_reached: tuple[int, ...]
    """k' of each head if heads differ, otherwise one number; n for full attention."""
    heads: tuple[Projection, ...] = ()
    """E of each head if heads differ, otherwise one E; empty for full attention."""
    separate_values: bool = True
    local_window: int = 0

    @property
    def num_scores(self) -> int:
        """Scores of a head and sentence. With a local window (``modules/local_window.py``) they include the neighbors
        of whole chunks."""
        if not self.local_window:
            return self.queries * self.max_reached
        if self.is_gathered:
            return self.queries * (self.max_reached + 2 * self.local_window + 1)
        filled = self.queries if self.queries <= CHUNK else self.num_chunks * CHUNK
        return self.queries * self.max_reached + filled * self.num_neighbors

    @property
    def num_chunks(self) -> int:
        return ceil_div(self.queries, CHUNK)

    @property
    def num_neighbors(self) -> int:
        """S"""
        return self.queries if self.queries <= CHUNK else CHUNK + 2 * self.local_window

    @property
    def max_reached(self) -> int:
        """The largest k', to which other heads are padded."""
        return max(self.num_reached)

    @property
    def uses_matrices(self) -> bool:
        """Whether E and F are matrices, not pooling or convolution."""
        return bool(self.heads) and isinstance(self.heads[0], LinearProjection)

    @property
    def is_per_head(self) -> bool:
        """Whether each head has its own matrix, all in one tensor."""
        return self.uses_matrices and getattr(self.heads[0], "heads", None) is not None

    @property
    def is_trainable(self) -> bool:
        """Whether E and F have gradients."""
        return any(p.requires_grad for head in self.heads for p in head.parameters())


def plan_attention(model: PlannedModel, batch: Batch, layer: int) -> AttentionShape:
    """Order and sizes of a batch in ``modules/attention.py``."""
    c, n = model.shape, batch.positions
    is_gathered = layer == c.layers - 1 and (model.linear or model.skips_unread)
    m = queries = batch.num_masked if is_gathered else n
    if not model.linear:
        return AttentionShape(Order.KEYS, m, queries, is_gathered, (n,))
    if is_gathered and c.local_window and gathers_outputs(m, n, c.local_window):
        queries, is_gathered = n, False
    attention: Any = model.encoder.layers[layer].self_attn
    E: Any = attention.E or model.encoder.E
    heads: Any = E.heads if isinstance(E, HeadProjections) else (E,)
    orders = (Order.KEYS,) if c.local_window else E.orders
    order = cheapest_order(queries, n, E.num_reached(n), c.embed_dim, c.attention_heads, c.has_separate_values, orders)
    reached = tuple(head.num_reached(n) for head in heads)
    return AttentionShape(order, m, queries, is_gathered, reached, tuple(heads), c.has_separate_values, c.local_window)


# ---- floating-point operations


@dataclass(frozen=True)
class Flops:
    """Operations of matrix products, two per multiplication and addition; all others are negligible."""

    forward: float
    backward: float

    def __add__(self, other: "Flops") -> "Flops":
        return Flops(self.forward + other.forward, self.backward + other.backward)


def step_flops(model: PlannedModel, batch: Batch, fused: bool = True, checkpoint_activations: bool = False) -> Flops:
    """Forward and backward pass of a micro-batch. Activation checkpointing runs the layers forward twice [korth]."""
    layers = [layer_flops(model, batch, i, fused) for i in range(model.shape.layers)]
    recomputed = sum(layer.forward for layer in layers) if checkpoint_activations else 0
    return sum(layers, head_flops(model, batch) + Flops(0, recomputed))


def head_flops(model: PlannedModel, batch: Batch) -> Flops:
    """The d x d layer and the V x d output embeddings, on B m masked tokens."""
    d, V = model.shape.embed_dim, model.shape.vocab_size
    forward = 2 * batch.sentences * batch.num_masked * d * (d + V)
    return Flops(forward, 2 * forward)


def layer_flops(model: PlannedModel, batch: Batch, layer: int, fused: bool = True) -> Flops:
    """One layer. The backward pass is twice the forward pass [kaplan], but a frozen E has no gradient, and fused
    attention recomputes the scores [flash]."""
    c, a, n, d = model.shape, plan_attention(model, batch, layer), batch.positions, model.shape.embed_dim
    maps = a.queries * d**2 + a.m * (d**2 + 2 * d * c.ffn_embed_dim)  # W^Q, W^O and feed-forward
    mapped = 2 * (a.max_reached if a.order is Order.INPUT else n) * d**2  # W^K, W^V
    # Scores, and weights times values.
    attended = 2 * d * (a.queries * n if a.order is Order.SCORES else a.num_scores)
    projected = 0.0
    if a.uses_matrices:
        total = count_multiplications(a.order, a.queries, n, a.max_reached, d, c.attention_heads, a.separate_values)
        others = mapped + 2 * a.queries * d * (n if a.order is Order.SCORES else a.max_reached)
        projected = (total - others) * sum(a.num_reached) / (len(a.num_reached) * a.max_reached)
    recomputed = 0.0
    if fused and a.order is not Order.SCORES and not (a.local_window and a.is_gathered):
        recomputed = attended * 0.5
    forward = 2 * batch.sentences * (maps + mapped + projected + attended)
    return Flops(forward, 2 * forward + 2 * batch.sentences * (recomputed - (0 if a.is_trainable else projected)))
