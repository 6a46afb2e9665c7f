"""Bytes that one GPU holds: weights, gradients, optimizer and activations.

    B sentences, n positions of each, m that the head reads, H heads, d width, G GPUs; rows are B n, queries B m in the
    last layer of a Linformer and B n in the others

Activations follow what this package computes and what PyTorch's autograd keeps for it. Sources:

    [saved]  PyTorch, tools/autograd/derivatives.yaml: which tensors an operation keeps for its backward pass
    [korth]  Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4
    [flash]  Dao et al. 2022, "FlashAttention", section 3.1: output and log-sum-exp are kept, scores are not
    [zero]   Rajbhandari et al. 2020, "ZeRO", section 3.1 and 7: what mixed precision keeps, what sharding sends
    [fp16]   fairseq, optim/fp16_optimizer.py and optim/adam.py: which copies it really keeps
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Optional

from torch import nn

from ..modules.order import Order
from ..modules.windows import longest_window
from .formulas import Batch, Model, attention, embedding_parameters, learned_projections, parameters

INDEX, STATISTIC = 8, 4
"""Bytes of an integer (token, position, target), and of a mean, a deviation or a log-sum-exp."""
SINGLE = 4
"""Bytes of a number in single precision."""


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


class Activations(NamedTuple):
    """Bytes."""

    saved: int
    """Kept from the forward pass for the backward pass."""
    workspace: int
    """The most that the backward pass has beside it at once, less what it has freed by then."""


def activations(model: Model, kernels: Kernels, batch: Batch, checkpointed: bool = False) -> Activations:
    """Of one batch. With checkpointing a layer keeps its input and is computed again when its turn comes [korth]."""
    c, e = model.shape, kernels.element
    layers = [_Layer(model, kernels, batch, i) for i in range(c.layers)]
    saved_by_layers = [layer.saved() for layer in layers]
    rows = batch.sentences * batch.positions * c.embed_dim * e
    kept = [rows] * c.layers if checkpointed else saved_by_layers
    embeddings = _saved_by_embeddings(model, kernels, batch)
    logits = batch.sentences * batch.masked * c.vocab_size
    saved = embeddings + sum(kept) + _saved_by_head(model, kernels, batch) + SINGLE * logits
    # The loss: gradients of the log-probabilities and of the logits, while the log-probabilities are still there.
    moments = [saved + (SINGLE + e) * logits]
    # The output embeddings: a gradient of their size, before it is added to what there is.
    output_embeddings = e * c.vocab_size * c.embed_dim
    moments.append(saved - SINGLE * logits + e * logits + output_embeddings)
    # Tied, it waits until the input embeddings have theirs, and both are added.
    tied = 0 if model.untied else output_embeddings
    # fairseq's own checkpointing, in RoBERTa, has the output of the layer once more, and its gradient.
    output = 0 if model.linear else 2 * rows
    for i, layer in enumerate(layers):
        recomputed = saved_by_layers[i] + output if checkpointed else 0
        moments.append(embeddings + sum(kept[: i + 1]) + recomputed + tied + layer.gradients())
    moments.append(embeddings + tied + output_embeddings + rows)
    return Activations(saved, max(moments) - saved)


def _saved_by_embeddings(model: Model, kernels: Kernels, batch: Batch) -> int:
    """Position numbers; the input of the norm; a dropout mask; E, where one is computed for all layers."""
    c, rows = model.shape, batch.sentences * batch.positions
    # Of the positions, and their order with the masked ones first; in RoBERTa what padding is multiplied by.
    numbers = rows * (2 * INDEX if model.linear else INDEX + kernels.element)
    norm = rows * (c.embed_dim * kernels.element + 2 * STATISTIC) * c.layernorm_embedding
    mask = rows * c.embed_dim * kernels.mask * (c.dropout > 0)
    shared = model.encoder.E
    return numbers + norm + mask + (0 if shared is None else kernels.element * _computed_entries(shared))


def _saved_by_head(model: Model, kernels: Kernels, batch: Batch) -> int:
    """Inputs of two linear maps and of a norm, and of fairseq's GELU, which takes them in single precision; but
    not the log-probabilities. B m times d each. After a norm at the end of the encoder its input too."""
    c, read = model.shape, batch.sentences * batch.masked
    rows = batch.sentences * (batch.masked if model.linear else batch.positions)
    head = read * (c.embed_dim * (3 * kernels.element + SINGLE) + 2 * STATISTIC + (2 if model.linear else 3) * INDEX)
    return head + rows * (c.embed_dim * kernels.element + 2 * STATISTIC) * c.normalize_before


def _computed_entries(module: nn.Module) -> int:
    """Entries of each E and F that is computed from a parameter and its start, and so is a tensor of its own."""
    return sum(p.weight.numel() for p in learned_projections(module) if hasattr(p, "start"))


class _Layer:
    """One layer on one batch; all in bytes."""

    def __init__(self, model: Model, kernels: Kernels, batch: Batch, index: int):
        self.model, self.shape, self.kernels, self.batch, self.index = model, model.shape, kernels, batch, index
        self.attention = attention(model, batch, index)
        self.rows, self.queries = batch.sentences * batch.positions, batch.sentences * self.attention.m
        self.row = batch.sentences * self.shape.embed_dim * kernels.element  # one of every sentence
        gelu = self.shape.activation_fn.startswith("gelu")
        self.gelu = (kernels.element if model.linear else SINGLE) * gelu  # fairseq's RoBERTa has it in single precision

    def saved(self) -> int:
        """Its input, what each norm and fc1 take, the dropout masks, attention and feed-forward [saved]."""
        c, d, e = self.shape, self.shape.embed_dim, self.kernels.element
        # In pre-norm E takes the norm of all rows, and W^Q rows gathered from it.
        normed = c.normalize_before and self.attention.gathered
        size = ((1 + normed) * self.rows + (3 - normed) * self.queries) * d * e
        if not (self.model.linear or c.normalize_before) and self.index == 0:
            size += 2 * self.rows * d * e  # fairseq transposes; the first W^Q, W^K and W^V copy it, each for itself
        statistics = 2 * STATISTIC * (self.queries + (self.rows if c.normalize_before else self.queries))
        masks = 2 * self.queries * d * self.kernels.mask * (c.dropout > 0)
        return size + statistics + masks + self._saved_by_attention() + self._saved_by_ffn()

    def _saved_by_ffn(self) -> int:
        """Between fc1 and fc2: what the activation function and fc2 took. GELU keeps its input; the others keep their
        output, which is fc2's input unless dropout comes between."""
        dropped = self.shape.activation_dropout > 0
        size = self.kernels.element * (1 + (dropped and not self.gelu)) + self.kernels.mask * dropped + self.gelu
        return self.queries * self.shape.ffn_embed_dim * size

    def _saved_by_attention(self) -> int:
        """From the input of the layer to that of W^O, which is counted here."""
        c, a, e, n = self.shape, self.attention, self.kernels.element, self.batch.positions
        scores = self.queries * c.attention_heads  # how many for one projected position
        gathered = a.m * self.row * a.gathered
        dropped = c.attention_dropout > 0
        # Dropout is made again from mask and weights, in a Linformer (``modules/dropout.py``).
        again = self.model.linear and a.order is not Order.SCORES
        weights = scores * a.most * (e + dropped * (self.kernels.mask + e * (not again)))  # after softmax; mask; after dropout
        if a.order is Order.SCORES:
            # Queries once more for the bias of the keys; scores before E and weights after F; keys and values; output.
            return gathered + (3 * a.m + 2 * n) * self.row + 2 * scores * n * e + self._matrices() + weights
        attended = 2 * (a.m + a.most) * self.row  # queries, keys, values, output
        attended += scores * STATISTIC if self.kernels.fused else weights
        return gathered + attended + (self._saved_by_projections() if self.model.linear else 0)

    def _saved_by_projections(self) -> int:
        """E and F, what they take, and what they give where W^K and W^V still follow."""
        c, a, size = self.shape, self.attention, self._matrices()
        if a.order is Order.INPUT:
            return size + (2 if c.separate_values else 1) * a.most * self.row
        windows = sum(k * longest_window(head.k, head.n) for k, head in zip(a.reached, a.heads)) / len(a.heads)
        if c.projection == "max-pool":
            return size + round(2 * (windows + a.most) * self.row)  # filled windows, and their maxima
        if not a.learns:
            return size  # the gradient of what a fixed E takes needs E alone
        return size + round(2 * (windows if c.projection == "conv" else self.batch.positions) * self.row)

    def _matrices(self) -> int:
        """E and F where they are tensors of their own. If every head has one of the same size, PyTorch's product of a
        batch copies all of them for every sentence. One for all layers is counted with the embeddings."""
        a, B, n = self.attention, self.batch.sentences, self.batch.positions
        if a.by_head and B > 1:
            return 2 * B * self.shape.attention_heads * a.most * n * self.kernels.element
        return self.kernels.element * _computed_entries(self.model.encoder.layers[self.index])

    def gradients(self) -> int:
        """At most, beside what the layer has saved and less what it has freed: in the feed-forward the gradients on
        both sides of the activation function, of fc2's weight and of the residual, when what fc2 and the second norm
        took and a dropout mask are freed; in unfused attention the gradients of the weights; where heads have their
        own E, those of its copies."""
        c, a, e = self.shape, self.attention, self.kernels.element
        freed = self.queries * c.embed_dim * self.kernels.mask * (c.dropout > 0)
        ffn = (self.queries * (2 * (self.gelu or e) - e) + c.embed_dim * e) * c.ffn_embed_dim - freed
        through_scores = a.order is Order.SCORES
        weights = self.queries * c.attention_heads * (self.batch.positions if through_scores else a.most) * e
        unfused = through_scores or not self.kernels.fused
        return max(ffn, weights if unfused else 0, self._matrices() // 2 if a.by_head else 0)


# ---- all that a GPU holds


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU."""

    weights: int
    gradients: int
    optimizer: int
    buckets: int
    """Copies of gradients that are being reduced."""
    activations: int
    workspace: int
    """The most that comes on top: in the backward pass, or in the optimizer's step, when activations are gone."""

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.buckets + self.activations + self.workspace


def states(model: Model, precision: str, gpus: int = 1, gathered: Optional[int] = None) -> Memory:
    """Without activations. With Adam, whose two moments are in single precision.

    In fp16 and bf16 fairseq keeps a copy of weights and of gradients in single precision, flat [fp16]: 2 + 2 + 16 bytes
    a parameter. Memory-efficient: 2 + 2 + 8. In fp32: 4 + 4 + 8.

    Args:
        gathered: with fully sharded data parallelism, the parameters that are whole on each GPU while they are used;
            their gradients are too. The rest is 16 P / G [zero, stage 3]. None without it.
    """
    p, e = parameters(model), bytes_of(precision)
    if gathered is not None:
        shard = SINGLE * p.learnt // gpus
        return Memory(e * gathered + shard + SINGLE * p.fixed, shard, 2 * shard, e * gathered * (gpus > 1), 0, shard)
    copies = precision in ("fp16", "bf16")
    largest = model.shape.vocab_size * model.shape.embed_dim
    step = SINGLE * (p.learnt if copies else largest * (1 if e == SINGLE else 3))  # Adam's denominator, and what it casts
    optimizer = SINGLE * p.learnt * (4 if copies else 2)
    return Memory(e * (p.learnt + p.fixed), e * p.learnt, optimizer, e * p.learnt * (gpus > 1), 0, step)


def with_activations(held: Memory, kept: Activations) -> Memory:
    """Both: the optimizer's step and the backward pass come one after the other."""
    return replace(held, activations=kept.saved, workspace=max(kept.workspace, held.workspace - kept.saved))


def gathered_parameters(model: Model, wrap_from: int) -> int:
    """What fully sharded data parallelism has whole at once: the embeddings and one layer, with the E of all, if layers
    have at least ``wrap_from`` parameters (``min_params_to_wrap``; 0 with activation checkpointing); else all."""
    encoder = model.encoder
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in encoder.layers]
    if min(sizes) < wrap_from:
        return parameters(model).learnt
    shared = 0 if encoder.E is None else sum(p.numel() for p in encoder.E.parameters())
    return embedding_parameters(model) + shared + max(sizes)


def bytes_of(precision: str) -> int:
    """Of a weight, a gradient or an activation."""
    return SINGLE if precision == "fp32" else 2
