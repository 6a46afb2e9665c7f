"""Parameters and floating-point operations of a pretraining step.

    B sentences, n positions of each, m positions of a sentence that the head reads (the masked ones),
    k' projected positions that the input reaches, H heads, d width, f width of the feed-forward,
    V entries of the dictionary

The modules say what they are (built on PyTorch's meta device, so without memory) and in which order they multiply;
here is what follows from it. Sentences are full: no padding. ``tests/planning`` compares all with PyTorch. Sources:

    [flash]  Dao et al. 2022, "FlashAttention", section 3.1: the backward pass computes the scores again
    [kaplan] Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1: backward is twice forward
    [korth]  Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import List, NamedTuple, Tuple

import torch
from torch import nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from ..modules.order import Order, cheapest_order, multiplications
from ..modules.projection import HeadProjections, LearnedProjection, LinearProjection, Projection


@dataclass(frozen=True)
class Model:
    """What is trained."""

    shape: LinformerConfig
    linear: bool = True
    """Attention is the Linformer's. If not, this is fairseq's RoBERTa, and k, sharing and projection mean nothing."""
    untied: bool = False
    """The output embeddings are a matrix of their own."""
    read_only: bool = False
    """Of full attention: the last layer computes only the positions that the head reads. A Linformer always does."""

    @cached_property
    def encoder(self) -> LinformerEncoder:
        """Shapes without memory. RoBERTa's has the parameters of a Linformer that pools: no E and F."""
        pooled = dict(projected_dim=1, projection="mean-pool", projection_init=None, projection_lr_scale=None,
                      freeze_projections=False)  # fmt: skip
        with torch.device("meta"):
            return LinformerEncoder(self.shape if self.linear else replace(self.shape, **pooled))


@dataclass(frozen=True)
class Batch:
    """What a GPU computes at once."""

    sentences: int
    positions: int
    masked: int
    """m. The task masks the same share of every full sentence."""


class Parameters(NamedTuple):
    """How many numbers a model holds."""

    learnt: int
    projections: int
    """Those of ``learnt`` that are in E and F."""
    fixed: int
    """Parameters that do not learn, and buffers: the start of each slow E and F (``modules/projection.py``)."""


def parameters(model: Model) -> Parameters:
    """All of a model, with the head of the language model: a d x d map, a norm, and the bias of the output."""
    c, encoder = model.shape, model.encoder
    head = c.embed_dim * (c.embed_dim + 3) + c.vocab_size + model.untied * c.vocab_size * c.embed_dim
    learnt = sum(p.numel() for p in encoder.parameters() if p.requires_grad)
    projections = sum(p.weight.numel() for p in learned_projections(encoder) if p.weight.requires_grad)
    fixed = [p for p in encoder.parameters() if not p.requires_grad]
    return Parameters(learnt + head, projections, sum(t.numel() for t in [*fixed, *encoder.buffers()]))


def learned_projections(module: nn.Module) -> List[LearnedProjection]:
    """Each E and F of a module that is stored; those of all heads are one tensor where they have the same size."""
    return [m for m in module.modules() if isinstance(m, LearnedProjection)]


def embedding_parameters(model: Model) -> int:
    """Token and position embeddings."""
    return model.encoder.embed_tokens.weight.numel() + model.encoder.embed_positions.weight.numel()


# ---- attention: which order, which sizes


@dataclass(frozen=True)
class Attention:
    """The attention of one layer, for one batch."""

    order: Order
    m: int
    """Positions whose output is computed: all, or in the last layer those that the head reads."""
    gathered: bool
    """They are gathered from the others."""
    reached: Tuple[int, ...]
    """k' of each head where heads differ, else one number; n of full attention."""
    heads: Tuple[Projection, ...] = ()
    """E of each of them; none of full attention."""
    separate_values: bool = True

    @property
    def most(self) -> int:
        """The largest k'. What other heads project is filled up to it."""
        return max(self.reached)

    @property
    def multiplies(self) -> bool:
        """E and F are matrices; pools and convolutions do not multiply matrices."""
        return bool(self.heads) and isinstance(self.heads[0], LinearProjection)

    @property
    def by_head(self) -> bool:
        """Each head has a matrix of its own, all in one tensor."""
        return self.multiplies and self.heads[0].heads is not None

    @property
    def learns(self) -> bool:
        """E and F get gradients."""
        return any(p.requires_grad for head in self.heads for p in head.parameters())


def attention(model: Model, batch: Batch, layer: int) -> Attention:
    """What ``modules/attention.py`` does with this batch."""
    c, n = model.shape, batch.positions
    last = layer == c.layers - 1 and (model.linear or model.read_only)
    m = batch.masked if last else n
    if not model.linear:
        return Attention(Order.KEYS, m, last, (n,))
    module = model.encoder.layers[layer].self_attn
    E = module.E or model.encoder.E
    heads = tuple(E.heads) if isinstance(E, HeadProjections) else (E,)
    order = cheapest_order(m, n, E.reached(n), c.embed_dim, c.attention_heads, c.separate_values, E.orders)
    return Attention(order, m, last, tuple(head.reached(n) for head in heads), heads, c.separate_values)


# ---- floating-point operations


@dataclass(frozen=True)
class Flops:
    """Of matrix products: two for a multiplication and its addition. All else is little beside them."""

    forward: float
    backward: float

    def __add__(self, other: "Flops") -> "Flops":
        return Flops(self.forward + other.forward, self.backward + other.backward)


def flops(model: Model, batch: Batch, fused: bool = True, checkpointed: bool = False) -> Flops:
    """A batch forward and backward; with checkpointing the layers are computed a second time [korth]."""
    layers = [flops_of_layer(model, batch, i, fused) for i in range(model.shape.layers)]
    again = sum(layer.forward for layer in layers) if checkpointed else 0
    return sum(layers, flops_of_head(model, batch) + Flops(0, again))


def flops_of_head(model: Model, batch: Batch) -> Flops:
    """B m masked tokens through the d x d map and the V x d embeddings."""
    d, V = model.shape.embed_dim, model.shape.vocab_size
    forward = 2 * batch.sentences * batch.masked * d * (d + V)
    return Flops(forward, 2 * forward)


def flops_of_layer(model: Model, batch: Batch, layer: int, fused: bool = True) -> Flops:
    """One layer. Its backward pass is twice its forward pass [kaplan], except that a fixed E has no gradient, and
    that fused attention computes the scores again [flash]."""
    c, a, n, d = model.shape, attention(model, batch, layer), batch.positions, model.shape.embed_dim
    maps = a.m * (2 * d**2 + 2 * d * c.ffn_embed_dim)  # W^Q, W^O, feed-forward
    mapped = 2 * (a.most if a.order is Order.INPUT else n) * d**2  # W^K, W^V
    attended = 2 * a.m * d * (n if a.order is Order.SCORES else a.most)  # scores, and weights times values
    projected = 0.0
    if a.multiplies:
        all_ = multiplications(a.order, a.m, n, a.most, d, c.attention_heads, a.separate_values)
        projected = (all_ - mapped - attended) * sum(a.reached) / (len(a.reached) * a.most)
    again = attended / 2 if fused and a.order is not Order.SCORES else 0
    forward = 2 * batch.sentences * (maps + mapped + projected + attended)
    return Flops(forward, 2 * forward + 2 * batch.sentences * (again - (0 if a.learns else projected)))
