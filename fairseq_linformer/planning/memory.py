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

from dataclasses import dataclass
from typing import NamedTuple, Optional

from torch import nn

from ..modules.order import Order
from ..modules.pooling import MaxPool
from ..modules.windows import longest_window
from .formulas import Batch, Model, attention, embedding_parameters, learned_projections, parameters

INDEX, STATISTIC = 8, 4
"""Bytes of an integer (token, position, target), and of a mean, a deviation or a log-sum-exp."""
SINGLE = 4
"""Bytes of a number in single precision."""


class Activations(NamedTuple):
    """Bytes."""

    saved: int
    """Kept from the forward pass for the backward pass."""
    workspace: int
    """The most that the backward pass has beside it at once, less what it has freed by then."""


def activations(model: Model, element: int, batch: Batch, checkpointed: bool = False) -> Activations:
    """Of one batch, with numbers of ``element`` bytes. With checkpointing a layer keeps its input and is computed again
    when its turn comes [korth]."""
    c = model.shape
    layers = [_Layer(model, element, batch, i) for i in range(c.layers)]
    saved_by_layers = [layer.saved() for layer in layers]
    rows = batch.sentences * batch.positions * c.embed_dim * element
    kept = [rows] * c.layers if checkpointed else saved_by_layers
    embeddings = _saved_by_embeddings(model, element, batch)
    logits = batch.sentences * batch.masked * c.vocab_size
    saved = embeddings + sum(kept) + _saved_by_head(model, element, batch) + SINGLE * logits
    # The loss: gradients of the log-probabilities and of the logits, while the log-probabilities are still there.
    moments = [saved + (SINGLE + element) * logits]
    # The output embeddings: a gradient of their size, before it is added to what there is.
    output_embeddings = element * c.vocab_size * c.embed_dim
    moments.append(saved - SINGLE * logits + element * logits + output_embeddings)
    # Tied, it waits until the input embeddings have theirs, and both are added.
    tied = 0 if model.untied else output_embeddings
    # fairseq's own checkpointing, in RoBERTa, has the output of the layer once more, and its gradient.
    output = 0 if model.linear else 2 * rows
    for i, layer in enumerate(layers):
        recomputed = saved_by_layers[i] + output if checkpointed else 0
        moments.append(embeddings + sum(kept[: i + 1]) + recomputed + tied + layer.gradients())
    moments.append(embeddings + tied + output_embeddings + rows)
    return Activations(saved, max(moments) - saved)


def _saved_by_embeddings(model: Model, element: int, batch: Batch) -> int:
    """Position numbers; the input of the norm; a dropout mask; E, where one is computed for all layers."""
    c, rows = model.shape, batch.sentences * batch.positions
    # Of the positions, and their order with the masked ones first; in RoBERTa what padding is multiplied by.
    numbers = 2 * INDEX if model.linear else INDEX + element
    norm = (c.embed_dim * element + 2 * STATISTIC) * c.layernorm_embedding
    shared = model.encoder.E
    size = rows * (numbers + norm + c.embed_dim * (c.dropout > 0))
    return size + (0 if shared is None else element * _computed_entries(shared))


def _saved_by_head(model: Model, element: int, batch: Batch) -> int:
    """Inputs of two linear maps and of a norm, and of fairseq's GELU, which takes them in single precision; but
    not the log-probabilities. B m times d each. After a norm at the end of the encoder its input too."""
    c, read = model.shape, batch.sentences * batch.masked
    rows = batch.sentences * (batch.masked if model.linear else batch.positions)
    head = read * (c.embed_dim * (3 * element + SINGLE) + 2 * STATISTIC + (2 if model.linear else 3) * INDEX)
    return head + rows * (c.embed_dim * element + 2 * STATISTIC) * c.normalize_before


def _computed_entries(module: nn.Module) -> int:
    """Entries of each E and F that is computed from a parameter and its start, and so is a tensor of its own."""
    return sum(p.weight.numel() for p in learned_projections(module) if hasattr(p, "start"))


class _Layer:
    """What one layer needs for one batch, in bytes. A dropout mask has one for each number."""

    def __init__(self, model: Model, element: int, batch: Batch, index: int):
        self.model, self.shape, self.element, self.batch, self.index = model, model.shape, element, batch, index
        self.attention = attention(model, batch, index)
        self.rows, self.queries = batch.sentences * batch.positions, batch.sentences * self.attention.m
        self.row = batch.sentences * self.shape.embed_dim * element  # one of every sentence
        gelu = self.shape.activation_fn.startswith("gelu")
        self.gelu = (element if model.linear else SINGLE) * gelu  # fairseq's RoBERTa has it in single precision

    def saved(self) -> int:
        """Its input, what each norm and fc1 take, the dropout masks, attention and feed-forward [saved]."""
        c, d = self.shape, self.shape.embed_dim
        # In pre-norm E takes the norm of all rows, and W^Q rows gathered from it.
        normed = c.normalize_before and self.attention.gathered
        size = ((1 + normed) * self.rows + (3 - normed) * self.queries) * d * self.element
        if not (self.model.linear or c.normalize_before) and self.index == 0:
            size += 2 * self.rows * d * self.element  # fairseq transposes; the first W^Q, W^K and W^V copy it each
        statistics = 2 * STATISTIC * (self.queries + (self.rows if c.normalize_before else self.queries))
        masks = 2 * self.queries * d * (c.dropout > 0)
        return size + statistics + masks + self._saved_by_attention() + self._saved_by_ffn()

    def _saved_by_ffn(self) -> int:
        """Between fc1 and fc2: what the activation function and fc2 took. GELU keeps its input; the others keep their
        output, which is fc2's input unless dropout comes between."""
        dropped = self.shape.activation_dropout > 0
        size = self.element * (1 + (dropped and not self.gelu)) + dropped + self.gelu
        return self.queries * self.shape.ffn_embed_dim * size

    def _saved_by_attention(self) -> int:
        """From the input of the layer to that of W^O, which is counted here."""
        c, a, n = self.shape, self.attention, self.batch.positions
        scores = self.queries * c.attention_heads  # how many for one projected position
        gathered = a.m * self.row * a.gathered
        if a.order is not Order.SCORES:  # fused: queries, keys, values and output, and no weights [flash]
            return gathered + 2 * (a.m + a.most) * self.row + scores * STATISTIC + self._saved_by_projections()
        # After softmax; the mask; after dropout.
        weights = scores * a.most * (self.element + (c.attention_dropout > 0) * (1 + self.element))
        # Queries once more for the bias of the keys; scores before E and weights after F; keys and values; output.
        return gathered + (3 * a.m + 2 * n) * self.row + 2 * scores * n * self.element + self._matrices() + weights

    def _saved_by_projections(self) -> int:
        """E and F, what they take, and what they give where W^K and W^V still follow."""
        c, a, size = self.shape, self.attention, self._matrices()
        if a.order is Order.INPUT:
            return size + (2 if c.separate_values else 1) * a.most * self.row
        windows = sum(k * longest_window(head.k, head.n) for k, head in zip(a.reached, a.heads)) / max(1, len(a.heads))
        if a.heads and isinstance(a.heads[0], MaxPool):
            return size + round(2 * (windows + a.most) * self.row)  # filled windows, and their maxima
        if not a.learns:
            return size  # the gradient of what a fixed E takes needs E alone
        return size + round(2 * (self.batch.positions if a.multiplies else windows) * self.row)

    def _matrices(self) -> int:
        """E and F where they are tensors of their own. If every head has one of the same size, PyTorch's product of a
        batch copies all of them for every sentence. One for all layers is counted with the embeddings."""
        a, B = self.attention, self.batch.sentences
        if a.by_head and B > 1:
            return 2 * B * self.shape.attention_heads * a.most * self.batch.positions * self.element
        return self.element * _computed_entries(self.model.encoder.layers[self.index])

    def gradients(self) -> int:
        """At most, beside what the layer has saved and less what it has freed: in the feed-forward the gradients on
        both sides of the activation function, of fc2's weight and of the residual, when what fc2 and the second norm
        took and a dropout mask are freed; the gradients of the weights, where attention keeps them; where heads have
        their own E, those of its copies."""
        c, a = self.shape, self.attention
        freed = self.queries * c.embed_dim * (c.dropout > 0)
        activation = 2 * (self.gelu or self.element) - self.element
        ffn = (self.queries * activation + c.embed_dim * self.element) * c.ffn_embed_dim - freed
        weights = self.queries * c.attention_heads * self.batch.positions * self.element
        return max(ffn, weights * (a.order is Order.SCORES), self._matrices() // 2 * a.by_head)


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
    # Adam's denominator, and what it casts.
    step = SINGLE * (p.learnt if copies else largest * (1 if e == SINGLE else 3))
    optimizer = SINGLE * p.learnt * (4 if copies else 2)
    return Memory(e * (p.learnt + p.fixed), e * p.learnt, optimizer, e * p.learnt * (gpus > 1), 0, step)


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
