"""What a pretraining step costs: parameters, bytes, floating-point operations, seconds.

    B sentences, n positions of each, m positions of a sentence that the head reads (the masked ones),
    k' projected positions that the input reaches, H heads, d width, d_h = d / H, f width of the
    feed-forward, V entries of the dictionary, W positions of the longest window, P parameters, G GPUs

They follow what this package computes (the order of multiplication, the last layer's masked positions,
sharing, k of each layer and head) and what PyTorch's autograd keeps for it. Sentences are full: no
padding. tests/planning compares them with PyTorch. Sources:

    [saved]  PyTorch, tools/autograd/derivatives.yaml: which tensors an operation keeps for its backward pass
    [korth]  Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4
    [flash]  Dao et al. 2022, "FlashAttention", section 3.1: output and log-sum-exp are kept, scores are not
    [zero]   Rajbhandari et al. 2020, "ZeRO", section 3.1 and 7: what mixed precision keeps, what sharding sends
    [fp16]   fairseq, optim/fp16_optimizer.py and optim/adam.py: which copies it really keeps
    [ring]   Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
    [ddp]    Li et al. 2020, "PyTorch Distributed", section 3.2: buckets, reduced during the backward pass
    [kaplan] Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1: backward is twice forward
"""

import math
from dataclasses import dataclass
from typing import List, Optional, Tuple

from ..config import POOLS, STARTS, LinformerConfig
from ..modules.order import Order, cheapest_order
from ..modules.rate import default_lr_scale
from ..modules.windows import longest_window, windows_reached

INDEX, STATISTIC = 8, 4
"""Bytes of an integer (token, position, target), and of a mean, a deviation or a log-sum-exp."""
SINGLE = 4
"""Bytes of a number in single precision."""


@dataclass(frozen=True)
class Model:
    """What is trained."""

    shape: LinformerConfig
    linear: bool = True
    """Attention is the Linformer's; if not, the model is fairseq's RoBERTa, and k and sharing mean nothing."""
    untied: bool = False
    """The output embeddings are a matrix of their own."""
    read_only: bool = False
    """Of full attention: the last layer computes the positions that the head reads, as a Linformer's does and RoBERTa's does not."""


@dataclass(frozen=True)
class Kernels:
    """How the device computes, as far as memory depends on it; the default is a GPU in half precision.

    On a CPU PyTorch keeps a dropout mask in the type of what it masks (the Linformer's modules do not), and with
    attention dropout computes attention unfused.
    """

    element: int = 2
    """Bytes of a number."""
    mask: int = 1
    """Bytes of an entry of a dropout mask."""
    fused: bool = True
    """Attention keeps no weights [flash]."""


@dataclass(frozen=True)
class Batch:
    """What a GPU computes at once."""

    sentences: int
    positions: int
    masked: int
    """m. The task masks the same share of every full sentence, so M = B m."""


# ---- parameters


@dataclass(frozen=True)
class Parameters:
    """Numbers that a model holds."""

    learnt: int
    fixed: int
    """Parameters that do not learn, and buffers: the start of each slow E and F (``modules/projection.py``)."""


def parameters(model: Model) -> Parameters:
    """All of a model, with the head of the language model."""
    c, d = model.shape, model.shape.embed_dim
    norm = 2 * d
    head = (d * d + d) + norm + c.vocab_size + model.untied * c.vocab_size * d
    norms = norm * c.layernorm_embedding + norm * c.normalize_before
    body = embedding_parameters(model) + norms + c.layers * parameters_of_layer(model) + head
    projections = projections_of(model)
    learnt = sum(p.entries for p in projections if p.learns)
    fixed = sum(p.entries for p in projections if not p.learns or p.slow)
    return Parameters(body + learnt, fixed)


def embedding_parameters(model: Model) -> int:
    """Token and position embeddings; fairseq counts positions from ``padding_idx + 1``."""
    c = model.shape
    return (c.vocab_size + c.max_positions + c.padding_idx + 1) * c.embed_dim


@dataclass(frozen=True)
class ProjectionSize:
    """One E or F: a matrix of k n entries or a kernel of d_h W, of both H where each head has its own."""

    entries: int
    learns: bool
    slow: bool
    """It is computed from a parameter and its start (``modules/rate.py``), and so is a tensor of its own."""


def projections_of(model: Model, layer: Optional[int] = None) -> List[ProjectionSize]:
    """Each E and F that is stored, of one layer or of all: 288, 24, 12 or 1 at 12 layers of 12 heads, none for pools and
    RoBERTa. With layerwise sharing the one E is that of layer 0."""
    c = model.shape
    if not model.linear or c.projection in POOLS:
        return []
    if layer is None:
        return [size for i in range(c.layers) for size in projections_of(model, i)]
    if c.one_for_all_layers and layer > 0:
        return []
    dim = c.projected_dims[layer]
    heads = dim if isinstance(dim, tuple) else [dim] * (c.attention_heads if c.sharing == "none" else 1)
    return [_projection_size(c, k) for _ in range(2 if c.separate_values else 1) for k in heads]


def _projection_size(c: LinformerConfig, k: int) -> ProjectionSize:
    fan_in = longest_window(k, c.max_positions) if c.projection == "conv" else c.max_positions
    entries = fan_in * (c.embed_dim // c.attention_heads if c.projection == "conv" else k)
    learns = projections_learn(c)
    scale = default_lr_scale(fan_in) if c.projection_lr_scale is None else c.projection_lr_scale
    return ProjectionSize(entries, learns, learns and scale != 1)


# ---- attention: which order, which sizes


@dataclass(frozen=True)
class Attention:
    """The attention of one layer, for one batch."""

    order: Order
    n: int
    m: int
    """Positions whose output is computed: all, or in the last layer those that the head reads."""
    gathered: bool
    """They are gathered from the others."""
    dims: Tuple[int, ...]
    """k of each head where heads differ; else one number."""
    reached: Tuple[int, ...]
    """k' of each of them."""
    by_head: bool
    """Each head has an E of its own, all in one tensor."""

    @property
    def most(self) -> int:
        """The largest k'. What other heads project is filled up to it."""
        return max(self.reached)


def attention(model: Model, batch: Batch, layer: int) -> Attention:
    """What ``modules/attention.py`` does with this batch."""
    c, n = model.shape, batch.positions
    last = layer == c.layers - 1 and (model.linear or model.read_only)
    m = batch.masked if last else n
    if not model.linear:
        return Attention(Order.KEYS, n, m, last, (n,), (n,), False)
    dim = c.projected_dims[layer]
    heads = dim if isinstance(dim, tuple) else (dim,)
    reached = tuple(_reached(c, k, n, layer) for k in heads)
    by_head = c.sharing == "none" and len(heads) == 1
    order = cheapest_order(m, n, max(reached), c.embed_dim, c.attention_heads, c.separate_values, _orders(c, heads))
    return Attention(order, n, m, last, heads, reached, by_head)


def _reached(c: LinformerConfig, k: int, n: int, layer: int) -> int:
    if c.projection == "random" or (c.projection == "linear" and c.start not in ("average", "staggered")):
        return k  # no windows
    delay = 0.5 if c.projection == "linear" and c.start == "staggered" and layer % 2 else 0
    return windows_reached(k, c.max_positions, n, int(delay * (c.max_positions // k)))


def _orders(c: LinformerConfig, heads: Tuple[int, ...]) -> Tuple[Order, ...]:
    """As ``Projection.orders``."""
    if len(heads) > 1 or c.projection in ("max-pool", "conv"):
        return (Order.KEYS,)
    if c.projection == "mean-pool":
        return (Order.INPUT, Order.KEYS)
    return (Order.KEYS, Order.SCORES) if c.sharing == "none" else tuple(Order)


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
    """M masked tokens through the d x d map and the V x d embeddings."""
    forward = 2 * batch.sentences * batch.masked * model.shape.embed_dim * (model.shape.embed_dim + model.shape.vocab_size)
    return Flops(forward, 2 * forward)


def flops_of_layer(model: Model, batch: Batch, layer: int, fused: bool = True) -> Flops:
    """One layer. Its backward pass is twice its forward pass [kaplan], but that a fixed E has no gradient, and
    that fused attention computes the scores again [flash]."""
    c, a = model.shape, attention(model, batch, layer)
    maps = a.m * (2 * c.embed_dim**2 + 2 * c.embed_dim * c.ffn_embed_dim)  # W^Q, W^O, feed-forward
    mapped, projected, attended = multiplications_of_attention(model, a)
    fixed = model.linear and not projections_learn(c)
    again = attended / 2 if fused and a.order is not Order.SCORES else 0
    twice = 2 * batch.sentences
    forward = twice * (maps + mapped + projected + attended)
    return Flops(forward, 2 * forward - twice * projected * fixed + twice * again)


def projections_learn(c: LinformerConfig) -> bool:
    """E and F get gradients."""
    return c.projection in STARTS and not c.freeze_projections


def multiplications_of_attention(model: Model, a: Attention) -> Tuple[float, float, float]:
    """For one sentence: in W^K and W^V, in E and F, and between queries, keys and values. Of the Linformer their sum
    is ``modules.order.multiplications``, where heads are alike; pools and convolutions do not multiply matrices."""
    c, d, H = model.shape, model.shape.embed_dim, model.shape.attention_heads
    if not model.linear:
        return 2 * a.n * d * d, 0, 2 * a.m * a.n * d
    if a.order is Order.INPUT:
        mapped, projected = 2 * a.most * d * d, (2 if c.separate_values else 1) * a.most * a.n * d
    elif a.order is Order.KEYS:
        mapped, projected = 2 * a.n * d * d, 2 * sum(a.reached) * a.n * d / len(a.reached)
    else:
        mapped, projected = 2 * a.n * d * d, 2 * H * a.m * a.n * a.most
    if c.projection not in ("linear", "random"):
        projected = 0
    return mapped, projected, 2 * a.m * d * (a.n if a.order is Order.SCORES else a.most)


# ---- activations: what autograd keeps [saved], and what the backward pass needs beside it


@dataclass(frozen=True)
class Activations:
    """Bytes."""

    saved: int
    """Kept from the forward pass for the backward pass."""
    workspace: int
    """Most that the backward pass has beside it at once, less what it has freed by then."""


def activations(model: Model, kernels: Kernels, batch: Batch, checkpointed: bool = False) -> Activations:
    """Of one batch. With checkpointing a layer keeps its input and is computed again when its turn comes [korth]."""
    c, rows = model.shape, batch.sentences * batch.positions
    layers = [saved_by_layer(model, kernels, batch, i) for i in range(c.layers)]
    kept = [rows * c.embed_dim * kernels.element] * c.layers if checkpointed else layers
    embeddings, head = saved_by_embeddings(model, kernels, batch), saved_by_head(model, kernels, batch)
    logits = batch.sentences * batch.masked * c.vocab_size
    saved = embeddings + sum(kept) + head + SINGLE * logits
    # The loss: gradients of the log-probabilities and of the logits, while the log-probabilities are still there.
    moments = [saved + (SINGLE + kernels.element) * logits]
    # The output embeddings: a gradient of their size, before it is added to what there is.
    moments.append(saved - SINGLE * logits + kernels.element * (logits + c.vocab_size * c.embed_dim))
    # Tied, it waits until the input embeddings have theirs, and both are added.
    tied = kernels.element * c.vocab_size * c.embed_dim * (not model.untied)
    # fairseq's own checkpointing, in RoBERTa, has the output of the layer once more, and its gradient.
    again = 2 * rows * c.embed_dim * kernels.element * (not model.linear)
    for i in reversed(range(c.layers)):
        before = embeddings + sum(kept[: i + 1]) + (layers[i] + again if checkpointed else 0)
        moments.append(before + tied + gradients_in_layer(model, kernels, batch, i))
    moments.append(embeddings + tied + kernels.element * (c.vocab_size + rows) * c.embed_dim)
    return Activations(saved, max(moments) - saved)


def saved_by_embeddings(model: Model, kernels: Kernels, batch: Batch) -> int:
    """Position numbers; the input of the norm; a dropout mask; E, where one is computed for all layers."""
    c, rows = model.shape, batch.sentences * batch.positions
    numbers = INDEX * rows * 2  # of the positions, and their order with the masked ones first
    norm = rows * (c.embed_dim * kernels.element + 2 * STATISTIC) * c.layernorm_embedding
    mask = rows * c.embed_dim * kernels.mask * (c.dropout > 0)
    shared = projections_of(model) if model.linear and c.one_for_all_layers else []
    if not model.linear:
        numbers = INDEX * rows + kernels.element * rows  # and by what padding is multiplied
    return numbers + norm + mask + sum(kernels.element * p.entries for p in shared if p.slow)


def saved_by_head(model: Model, kernels: Kernels, batch: Batch) -> int:
    """Inputs of two linear maps and of a norm, and of fairseq's GELU, which takes them in single precision; but
    not the log-probabilities. M times d each. After a norm at the end of the encoder its input too."""
    c, read = model.shape, batch.sentences * batch.masked
    head = read * (c.embed_dim * (3 * kernels.element + SINGLE) + 2 * STATISTIC + (2 if model.linear else 3) * INDEX)
    rows = batch.sentences * (batch.masked if model.linear else batch.positions)
    return head + rows * (c.embed_dim * kernels.element + 2 * STATISTIC) * c.normalize_before


def saved_by_layer(model: Model, kernels: Kernels, batch: Batch, layer: int) -> int:
    """Its input, what each norm and fc1 take, the dropout masks, attention and feed-forward."""
    c, d = model.shape, model.shape.embed_dim
    a = attention(model, batch, layer)
    rows, queries = batch.sentences * a.n, batch.sentences * a.m
    normed = c.normalize_before and a.gathered  # then E takes the norm of all rows, and W^Q rows gathered from it
    size = ((1 + normed) * rows + (3 - normed) * queries) * d * kernels.element
    if not (model.linear or c.normalize_before) and layer == 0:
        size += 2 * rows * d * kernels.element  # fairseq transposes; the first W^Q, W^K and W^V copy it, each for itself
    statistics = 2 * STATISTIC * (queries + (rows if c.normalize_before else queries))
    masks = 2 * queries * d * kernels.mask * (c.dropout > 0)
    return size + statistics + masks + saved_by_attention(model, kernels, batch, layer) + saved_by_ffn(model, kernels, queries)


def saved_by_ffn(model: Model, kernels: Kernels, queries: int) -> int:
    """Between fc1 and fc2: what the activation function and fc2 took. GELU keeps its input, which fairseq's RoBERTa
    has in single precision; the others keep their output, which is fc2's input unless dropout comes between."""
    c = model.shape
    gelu = c.activation_fn.startswith("gelu")
    size = kernels.element * (1 + (c.activation_dropout > 0 and not gelu)) + kernels.mask * (c.activation_dropout > 0)
    if gelu:
        size += kernels.element if model.linear else SINGLE
    return queries * c.ffn_embed_dim * size


def saved_by_attention(model: Model, kernels: Kernels, batch: Batch, layer: int) -> int:
    """From the input of the layer to that of W^O, which is counted here."""
    c, a, e = model.shape, attention(model, batch, layer), kernels.element
    width = batch.sentences * c.embed_dim * e  # bytes of one row of every sentence
    scores = batch.sentences * c.attention_heads * a.m  # how many for one projected position
    gathered = a.m * width * a.gathered
    dropped = c.attention_dropout > 0
    again = model.linear and a.order is not Order.SCORES  # dropout is made again from mask and weights (``modules/dropout.py``)
    weights = scores * a.most * (e + dropped * (kernels.mask + e * (not again)))  # after softmax; mask; after dropout
    if a.order is Order.SCORES:
        # Queries once more for the bias of the keys; scores before E and weights after F; keys and values; output.
        projected = 2 * scores * a.n * e + _saved_matrices(model, kernels, batch, layer)
        return gathered + (3 * a.m + 2 * a.n) * width + projected + weights
    attended = 2 * (a.m + a.most) * width + (scores * STATISTIC if kernels.fused else weights)  # q, keys, values, output
    return gathered + attended + (saved_by_projections(model, kernels, batch, layer) if model.linear else 0)


def saved_by_projections(model: Model, kernels: Kernels, batch: Batch, layer: int) -> int:
    """E and F, what they take, and what they give where W^K and W^V still follow."""
    c, a = model.shape, attention(model, batch, layer)
    width = batch.sentences * c.embed_dim * kernels.element
    size = _saved_matrices(model, kernels, batch, layer)
    if a.order is Order.INPUT:
        return size + (2 if c.separate_values else 1) * a.most * width
    windows = sum(k_ * longest_window(k, c.max_positions) for k, k_ in zip(a.dims, a.reached)) / len(a.dims)
    if c.projection == "max-pool":
        return size + round(2 * (windows + a.most) * width)  # filled windows, and their maxima
    if not projections_learn(c):
        return size  # the gradient of what a fixed E takes needs E alone
    return size + round(2 * (windows if c.projection == "conv" else a.n) * width)


def _saved_matrices(model: Model, kernels: Kernels, batch: Batch, layer: int) -> int:
    """E and F of a layer where they are tensors of their own. If every head has one of the same size, PyTorch's product of
    a batch copies all of them for every sentence."""
    a = attention(model, batch, layer)
    if a.by_head and model.shape.projection in ("linear", "random") and batch.sentences > 1:
        return 2 * batch.sentences * model.shape.attention_heads * a.most * a.n * kernels.element
    shared = model.shape.one_for_all_layers  # counted with the embeddings
    return 0 if shared else sum(p.entries for p in projections_of(model, layer) if p.slow) * kernels.element


def gradients_in_layer(model: Model, kernels: Kernels, batch: Batch, layer: int) -> int:
    """At most, beside what the layer has saved and less what it has freed: in the feed-forward the gradients on both sides of
    the activation function, of fc2's weight and of the residual, when what fc2 and the second norm took and a dropout mask
    are freed; in unfused attention the gradients of the weights; where heads have their own E, those of its copies."""
    c, a, e = model.shape, attention(model, batch, layer), kernels.element
    queries = batch.sentences * a.m
    freed = queries * c.embed_dim * kernels.mask * (c.dropout > 0)
    widened = e if model.linear or not c.activation_fn.startswith("gelu") else SINGLE  # as in ``saved_by_ffn``
    ffn = (queries * (2 * widened - e) + c.embed_dim * e) * c.ffn_embed_dim - freed
    unfused = not kernels.fused or a.order is Order.SCORES
    weights = unfused * queries * c.attention_heads * (a.n if a.order is Order.SCORES else a.most) * e
    copies = _saved_matrices(model, kernels, batch, layer) // 2 if model.linear and a.by_head else 0
    return max(ffn, weights, copies)


# ---- what a GPU holds beside activations


@dataclass(frozen=True)
class States:
    """Bytes on one GPU."""

    weights: int
    gradients: int
    optimizer: int
    buckets: int
    """Copies of gradients that are being reduced."""
    step: int
    """Temporary, in the optimizer's step, when there are no activations."""


def states(model: Model, precision: str, gpus: int = 1, gathered: Optional[int] = None) -> States:
    """With Adam, whose two moments are in single precision.

    In fp16 and bf16 fairseq keeps a copy of weights and of gradients in single precision, flat [fp16]: 2 + 2 + 16 bytes
    a parameter. Memory-efficient: 2 + 2 + 8. In fp32: 4 + 4 + 8.

    Args:
        gathered: with fully sharded data parallelism, the parameters that are whole on each GPU while they are used; their
            gradients are too. The rest is 16 P / G [zero, stage 3]. None without it.
    """
    p, e = parameters(model), bytes_of(precision)
    if gathered is not None:
        shard = SINGLE * p.learnt // gpus
        return States(e * gathered + shard + SINGLE * p.fixed, shard, 2 * shard, e * gathered * (gpus > 1), shard)
    copies = precision in ("fp16", "bf16")
    largest = model.shape.vocab_size * model.shape.embed_dim
    step = SINGLE * (p.learnt if copies else largest * (1 if e == SINGLE else 3))  # Adam's denominator, and what it casts
    return States(e * (p.learnt + p.fixed), e * p.learnt, SINGLE * p.learnt * (4 if copies else 2), e * p.learnt * (gpus > 1), step)


def gathered_parameters(model: Model, wrap_from: int) -> int:
    """What fully sharded data parallelism has whole at once: the embeddings and one layer, if layers have at least ``wrap_from``
    parameters (``min_params_to_wrap``; 0 with activation checkpointing); else all."""
    sizes = [parameters_of_layer(model) + sum(p.entries for p in projections_of(model, i)) for i in range(model.shape.layers)]
    return embedding_parameters(model) + max(sizes) if min(sizes) >= wrap_from else parameters(model).learnt


def bytes_of(precision: str) -> int:
    """Of a weight, a gradient or an activation."""
    return SINGLE if precision == "fp32" else 2


def parameters_of_layer(model: Model) -> int:
    """Of one layer without E and F."""
    d, f = model.shape.embed_dim, model.shape.ffn_embed_dim
    return 4 * (d * d + d) + (d * f + f) + (f * d + d) + 4 * d


# ---- seconds


def all_reduce_seconds(size: float, gpus: int, bandwidth: float, pieces: int = 1, latency: float = 0.0) -> float:
    """Sum ``size`` bytes over all GPUs [ring]: every GPU sends 2 (G - 1) / G of them, over the slowest link.

    Args:
        bandwidth: of that link, in bytes a second and direction.
        pieces: buckets that are reduced one after the other.
        latency: seconds of one message; a tree has 2 log2 G of them, one after the other.
    """
    if gpus == 1:
        return 0.0
    return 2 * (gpus - 1) / gpus * size / bandwidth + pieces * 2 * math.ceil(math.log2(gpus)) * latency


def exposed_seconds(reduce: float, last: float, backward: float) -> float:
    """Of the all-reduce, what the backward pass does not hide [ddp]. The tied embeddings cannot be hidden: their gradient
    is complete when the backward pass is over.

    Args:
        reduce: seconds of all buckets.
        last: seconds of those with the embeddings, part of it.
        backward: seconds of the backward pass of the last micro-batch, the only one that reduces.
    """
    return max(reduce - backward, last)
