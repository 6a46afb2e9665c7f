"""Bytes on one GPU: weights, gradients, optimizer states and activations.

    B sentences, n positions of each, m that the head reads, H heads, d width, G GPUs; rows are B n, queries are B m in
    the last layer of a Linformer and B n in the others

Activations follow from what this package computes and what PyTorch's autograd saves for it. Sources:

    [saved]  PyTorch, tools/autograd/derivatives.yaml: which tensors an operation saves for its backward pass
    [korth]  Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4
    [flash]  Dao et al. 2022, "FlashAttention", section 3.1: output and log-sum-exp are saved, scores are not
    [zero]   Rajbhandari et al. 2020, "ZeRO", section 3.1: what mixed precision stores
    [fp16]   fairseq, optim/fp16_optimizer.py and optim/adam.py: which copies it stores
"""

from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from ..benchmark.formulas import Batch, PlannedModel, count_parameters, plan_attention
from ..modules.local_window import CHUNK
from ..modules.order import Order
from ..modules.pooling import Convolution, MaxPool
from ..modules.projection import learned_projections
from ..modules.windows import ceil_div

INDEX_BYTES, STATISTIC_BYTES = 8, 4
"""Bytes of an integer (token, position, target), and of a mean, a deviation or a log-sum-exp."""
FP32_BYTES = 4


class Activations(NamedTuple):
    """Bytes of one micro-batch."""

    saved: int
    """Saved by the forward pass for the backward pass."""
    workspace: int
    """The peak of the backward pass minus ``saved``."""


def activation_memory(
    model: PlannedModel, element: int, batch: Batch, checkpoint_activations: bool = False
) -> Activations:
    """Activations of a batch with ``element`` bytes per number. With activation checkpointing a layer saves only its
    input, and is recomputed in the backward pass [korth]."""
    c = model.shape
    layers = [_Layer(model, element, batch, i) for i in range(c.layers)]
    layer_bytes = [layer.saved() for layer in layers]
    rows = batch.sentences * batch.positions * c.embed_dim * element
    saved_bytes = [rows] * c.layers if checkpoint_activations else layer_bytes
    embeddings = _saved_by_embeddings(model, element, batch)
    logits = batch.sentences * batch.num_masked * c.vocab_size
    saved = embeddings + sum(saved_bytes) + _saved_by_head(model, element, batch) + FP32_BYTES * logits
    # The loss: gradients of the log-probabilities and of the logits, with the log-probabilities still in memory.
    peaks = [saved + (FP32_BYTES + element) * logits]
    # The gradient of the output embeddings, before it is accumulated.
    output_embeddings = element * c.vocab_size * c.embed_dim
    peaks.append(saved - FP32_BYTES * logits + element * logits + output_embeddings)
    # With tied embeddings it stays until the gradient of the input embeddings is computed.
    tied = 0 if model.untied else output_embeddings
    # fairseq's own checkpointing, in RoBERTa, has a second copy of the layer's output, and its gradient.
    output = 0 if model.linear else 2 * rows
    for i, layer in enumerate(layers):
        recomputed = layer_bytes[i] + output if checkpoint_activations else 0
        peaks.append(embeddings + sum(saved_bytes[: i + 1]) + recomputed + tied + layer.gradients())
    peaks.append(embeddings + tied + output_embeddings + rows)
    return Activations(saved, max(peaks) - saved)


def _saved_by_embeddings(model: PlannedModel, element: int, batch: Batch) -> int:
    """Position indices, the input of the norm, a dropout mask, and an E that all layers share, if it is computed."""
    c, rows = model.shape, batch.sentences * batch.positions
    # Positions, and their order with the masked ones first; in RoBERTa the factor that zeroes padding.
    indices = 2 * INDEX_BYTES if model.linear else INDEX_BYTES + element
    norm = (c.embed_dim * element + 2 * STATISTIC_BYTES) * c.layernorm_embedding
    shared = model.encoder.E
    size = rows * (indices + norm + c.embed_dim * (c.dropout > 0))
    return size + (0 if shared is None else element * _computed_entries(shared))


def _saved_by_head(model: PlannedModel, element: int, batch: Batch) -> int:
    """The inputs of two linear layers, of a norm, and of fairseq's GELU in single precision, each B m x d; and the
    input of the norm at the end of a pre-norm encoder. Without the log-probabilities."""
    c, queries = model.shape, batch.sentences * batch.num_masked
    rows = batch.sentences * (batch.num_masked if model.linear else batch.positions)
    head = queries * (
        c.embed_dim * (3 * element + FP32_BYTES) + 2 * STATISTIC_BYTES + (2 if model.linear else 3) * INDEX_BYTES
    )
    return head + rows * (c.embed_dim * element + 2 * STATISTIC_BYTES) * c.normalize_before


def _computed_entries(module: nn.Module) -> int:
    """Number of values in E and F that are computed from a parameter and its start, and so are extra tensors."""
    return sum(p.delta.numel() for p in learned_projections(module) if p.delta is not None)


class _Layer:
    """Bytes of one layer for one batch. A dropout mask has one byte per number."""

    def __init__(self, model: PlannedModel, element: int, batch: Batch, index: int):
        self.model, self.shape, self.element, self.batch, self.index = model, model.shape, element, batch, index
        self.attention = plan_attention(model, batch, index)
        self.rows, self.queries = batch.sentences * batch.positions, batch.sentences * self.attention.m
        self.row = batch.sentences * self.shape.embed_dim * element  # one position of every sentence
        gelu = self.shape.activation_fn.startswith("gelu")
        self.gelu = (element if model.linear else FP32_BYTES) * gelu  # single precision in fairseq's RoBERTa

    def saved(self) -> int:
        """The inputs of the layer, of each norm and of fc1, dropout masks, attention and feed-forward [saved]."""
        c, d = self.shape, self.shape.embed_dim
        # With pre-norm E reads the norm of all rows, from which the input of W^Q is gathered.
        a = self.attention
        is_norm_gathered = c.normalize_before and a.is_gathered
        # A frozen E needs no input for the backward pass, nor does gathering.
        is_input_freed = a.is_gathered and a.order is Order.INPUT and not a.is_trainable
        num_full = 1 + is_norm_gathered - is_input_freed
        size = (num_full * self.rows + (3 - is_norm_gathered) * self.queries) * d * self.element
        if not (self.model.linear or c.normalize_before) and self.index == 0:
            size += 2 * self.rows * d * self.element  # fairseq's transpose: the first W^Q, W^K and W^V each copy it
        statistics = 2 * STATISTIC_BYTES * (self.queries + (self.rows if c.normalize_before else self.queries))
        masks = 2 * self.queries * d * (c.dropout > 0)
        return size + statistics + masks + self._saved_by_attention() + self._saved_by_ffn()

    def _saved_by_ffn(self) -> int:
        """Inputs of the activation function and of fc2. GELU saves its input; the other functions save their output,
        which is fc2's input unless dropout is in between."""
        has_dropout = self.shape.activation_dropout > 0
        size = self.element * (1 + (has_dropout and not self.gelu)) + has_dropout + self.gelu
        return self.queries * self.shape.ffn_embed_dim * size

    def _saved_by_attention(self) -> int:
        """From the layer's input to the input of W^O, inclusive."""
        c, a, n = self.shape, self.attention, self.batch.positions
        scores = self.queries * c.attention_heads  # per projected position
        gathered = a.m * self.row * a.is_gathered
        if a.local_window:
            return gathered + self._saved_with_neighbors() + self._saved_by_projections()
        if a.order is not Order.SCORES:  # fused: queries, keys, values and output, and no weights [flash]
            return (
                gathered
                + 2 * (a.m + a.max_reached) * self.row
                + scores * STATISTIC_BYTES
                + self._saved_by_projections()
            )
        # Weights, the dropout mask, and weights that are dropped or scaled for missing tokens.
        is_scaled = n < self.shape.max_positions
        weights = scores * a.max_reached * self.element
        weights += (
            scores * a.max_reached * ((c.attention_dropout > 0) + self.element * (c.attention_dropout > 0 or is_scaled))
        )
        # Queries, again for the bias of the keys, and output; keys and values; scores before E and weights after F.
        return gathered + (3 * a.m + 2 * n) * self.row + 2 * scores * n * self.element + self._matrices() + weights

    def _saved_with_neighbors(self) -> int:
        """Queries, all keys and values, those again with their bias, projected ones, output, the log-sum-exp of two
        parts, and the masks of a batch without padding, which even and odd layers have; for gathered queries also the
        queries again, the neighbors, and weights."""
        a, B = self.attention, self.batch.sentences
        rows = a.queries + a.m + 2 * a.max_reached + 3 * self.batch.positions
        if not a.is_gathered:
            outputs = a.queries * (a.m < a.queries)  # those of which some are gathered
            statistics = 2 * B * a.queries * self.shape.attention_heads * FP32_BYTES
            filled = a.queries if a.queries <= CHUNK else a.num_chunks * CHUNK
            masks = a.queries * _align(a.max_reached) + B * filled * _align(a.num_neighbors)
            return (rows + outputs) * self.row + statistics + masks * FP32_BYTES * (self.index < 2)
        near = 2 * a.local_window + 1
        weights = self.queries * self.shape.attention_heads * (a.max_reached + near) * self.element
        return (rows + a.m + 2 * a.m * near) * self.row + weights

    def _gradients_with_neighbors(self) -> int:
        """Copies of the keys and values around each chunk, which the backward pass makes again, and their gradients;
        those of the output, of the queries in both parts, and of the keys."""
        a = self.attention
        if not a.local_window or a.is_gathered or a.queries <= CHUNK:
            return 0
        return 4 * (a.num_neighbors * a.num_chunks + a.queries) * self.row

    def _saved_by_projections(self) -> int:
        """E and F, their inputs, and their outputs if W^K and W^V follow."""
        c, a, size = self.shape, self.attention, self._matrices()
        if a.order is Order.INPUT:
            return size + (2 if c.has_separate_values else 1) * a.max_reached * self.row
        pools = [head.layout for head in a.heads if isinstance(head, (MaxPool, Convolution))]
        rows = sum(pool.num_rows(self.batch.positions) for pool in pools) / max(1, len(pools))
        windows = sum(pool.num_rows(self.batch.positions) * pool.width for pool in pools) / max(1, len(pools))
        if a.heads and isinstance(a.heads[0], MaxPool):
            return size + round(2 * (windows + rows) * self.row)  # padded windows and their maxima
        if not a.is_trainable:
            return size  # the gradient of a frozen E's input needs only E
        if a.uses_matrices:  # with a local window, these keys and values are counted there
            return size + (0 if a.local_window else 2 * self.batch.positions * self.row)
        return size + round(2 * windows * self.row)

    def _matrices(self) -> int:
        """E and F if they are extra tensors. If each head has its own, of equal sizes, PyTorch's batched product copies
        all of them for each sentence. An E that all layers share is counted with the embeddings."""
        a, B = self.attention, self.batch.sentences
        if a.is_per_head and B > 1:
            return 2 * B * self.shape.attention_heads * a.max_reached * self.batch.positions * self.element
        return self.element * _computed_entries(self.model.encoder.layers[self.index])

    def gradients(self) -> int:
        """The layer's peak in the backward pass, in addition to the tensors it has saved. It is the largest of

        - in the feed-forward, the gradients on both sides of the activation function, of fc2's weight and of the
          residual, after the inputs of fc2 and of the second norm and a dropout mask are freed;
        - the gradients of saved attention weights;
        - the gradients of the copies of each head's E;
        - copies and gradients of the chunks of a local window.
        """
        c, a = self.shape, self.attention
        freed = self.queries * c.embed_dim * (c.dropout > 0)
        activation = 2 * (self.gelu or self.element) - self.element
        ffn = (self.queries * activation + c.embed_dim * self.element) * c.ffn_embed_dim - freed
        weights = self.queries * c.attention_heads * self.batch.positions * self.element
        scores = weights * (a.order is Order.SCORES)
        return max(ffn, scores, self._matrices() // 2 * a.is_per_head, self._gradients_with_neighbors())


def _align(width: int) -> int:
    """The width of a mask in memory, a multiple of 16."""
    return ceil_div(width, 16) * 16


# ---- total memory of a GPU


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU."""

    weights: int
    gradients: int
    optimizer: int
    buckets: int
    """Copies of the gradients in the all-reduce."""
    activations: int
    workspace: int
    """The peak minus everything else, in the backward pass or in the optimizer's step."""

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.buckets + self.activations + self.workspace


def model_states(model: PlannedModel, precision: str, gpus: int = 1) -> Memory:
    """Memory without activations, for Adam, whose two moments are in single precision.

    Bytes per parameter: 2 + 2 + 16 in fp16 and bf16, where fairseq stores flat copies of weights and gradients in
    single precision [fp16]; 2 + 2 + 8 if memory-efficient; 4 + 4 + 8 in fp32.
    """
    p, e = count_parameters(model), element_size(precision)
    copies = precision in ("fp16", "bf16")
    largest = model.shape.vocab_size * model.shape.embed_dim
    # Adam's denominator, and the copies that it casts.
    step = FP32_BYTES * (p.trainable if copies else largest * (1 if e == FP32_BYTES else 3))
    optimizer = FP32_BYTES * p.trainable * (4 if copies else 2)
    weights = e * (p.trainable + p.frozen)
    return Memory(weights, e * p.trainable, optimizer, e * p.trainable * (gpus > 1), 0, step)


def element_size(precision: str) -> int:
    """Bytes of a weight, a gradient or an activation."""
    return FP32_BYTES if precision == "fp32" else 2
