"""The encoders of tokens and of vectors, batch first throughout.

B sentences, n positions, m positions whose output is needed, d width
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..config import LinformerConfig
from .attention import gather_positions, zero_padding
from .dropout import Dropout
from .encoder_layer import LayerNormFactory, LinformerEncoderLayer, build_projection
from .length_groups import Group, count_group_positions, group_by_length
from .projection import learned_projections


class LinformerLayers(nn.Module):
    """What the encoders of tokens and of vectors have in common: E and F, the layers, and the norm after them.

    With layerwise sharing the projection is ``E`` of this module, otherwise ``layers.I.self_attn.E`` and ``.F``.
    """

    config: LinformerConfig
    use_length_groups = True
    """Run sentences of similar length together if this saves time (``length_groups.py``), with one call of each layer
    per group. False for hooks that need the whole batch."""

    def _build_layers(self, config: LinformerConfig, layer_norm: LayerNormFactory) -> None:
        self.config = config
        self.E = build_projection(config) if config.has_single_projection else None
        self.layers = nn.ModuleList(LinformerEncoderLayer(config, i, self.E, layer_norm) for i in range(config.layers))
        self.layer_norm = layer_norm(config.embed_dim, config.layer_norm_eps) if config.normalize_before else None
        self.apply(init_bert_weights)

    def _check_length(self, n: int) -> None:
        if n > self.config.max_positions:
            raise ValueError(
                f"the input must have at most {self.config.max_positions} positions (max_positions, the columns of E "
                f"and F), got {n}"
            )

    def _encode(
        self,
        embed: Callable[[], Tensor],
        padding_mask: Tensor | None = None,
        positions: Tensor | None = None,
        hiddens: list[Tensor] | None = None,
    ) -> Tensor:
        """The features, (B, m or n, d).

        Args:
            embed: returns the input of the first layer, (B, n, d); a function, so that no caller keeps it in memory.
            padding_mask: (B, n), True at padding; None without padding.
            positions: as for ``LinformerEncoder``.
            hiddens: the input of the first layer and the output of each are appended to it. Not with ``positions``, and
                without length groups and LayerDrop.
        """
        projection = None if self.E is None else self.E()
        layers = self._select_layers() if hiddens is None else list(self.layers)
        groups = self._find_groups(layers, padding_mask) if self.use_length_groups and hiddens is None else []
        if groups:
            assert padding_mask is not None
            x = self._run_in_groups(groups, layers, embed(), padding_mask, projection, positions)
        else:
            x = self._run_layers(layers, embed(), padding_mask, projection, positions, hiddens)
        return x if self.layer_norm is None else self.layer_norm(x)

    def _select_layers(self) -> list[nn.Module]:
        """All layers, or in training those that LayerDrop keeps."""
        if not self.training or self.config.layerdrop == 0:
            return list(self.layers)
        keep_layer = torch.empty(len(self.layers)).uniform_() > self.config.layerdrop
        return [layer for layer, keep in zip(self.layers, keep_layer) if keep]

    def _find_groups(self, layers: list[nn.Module], padding_mask: Tensor | None) -> list[Group]:
        """Groups of similar length if they save time, otherwise an empty list."""
        if padding_mask is None or not layers or not _can_run_in_groups(padding_mask):
            return []
        entries = sum(projection.delta.numel() for projection in learned_projections(layers[0]))
        groups = group_by_length(padding_mask, count_group_positions(entries, self.config.embed_dim))
        return groups if len(groups) > 1 else []

    def _run_in_groups(
        self,
        groups: list[Group],
        layers: list[nn.Module],
        x: Tensor,
        padding_mask: Tensor,
        projection: Tensor | None,
        positions: Tensor | None,
    ) -> Tensor:
        """Run the layers on one group of sentences of similar length after another: (B, n, d) to (B, m or n, d)."""
        order = torch.cat([group.rows for group in groups])
        # One index_select for all groups: the gradient of each would be as large as the batch.
        parts = x.index_select(0, order).split([len(group.rows) for group in groups])
        outputs = []
        for (rows, length), part in zip(groups, parts):
            mask = padding_mask[rows, :length]
            # Positions after the end of the group are padding: any feature will do.
            queries = None if positions is None else positions.expand(len(x), -1)[rows].clamp(max=length - 1)
            y = self._run_layers(layers, part[:, :length], mask if mask.any() else None, projection, queries)
            outputs.append(F.pad(y, (0, 0, 0, x.size(1) - length)) if positions is None else y)
        return torch.cat(outputs).index_select(0, order.argsort())

    def _run_layers(
        self,
        layers: list[nn.Module],
        x: Tensor,
        padding_mask: Tensor | None,
        projection: Tensor | None,
        positions: Tensor | None,
        hiddens: list[Tensor] | None = None,
    ) -> Tensor:
        """Run the layers, the last one for ``positions`` only: (B, n, d) to (B, m or n, d). Appends the input and each
        output to ``hiddens``."""
        if hiddens is not None:
            hiddens.append(x)
        if not layers:  # LayerDrop has dropped all
            return gather_positions(x, positions)
        # All masks before the first layer, because some synchronize with a GPU.
        query_positions = [None] * (len(layers) - 1) + [positions]
        masks: dict[tuple[Any, ...], Any] = {}
        layer_masks = []
        for layer, queries in zip(layers, query_positions):
            attention: Any = layer.self_attn
            key = attention.mask_key(x.size(1), queries)
            if key not in masks:  # layers with the same key share them
                masks[key] = attention.masks(x, padding_mask, queries)
            layer_masks.append(masks[key])
        for layer, queries, mask in zip(layers, query_positions, layer_masks):
            x = self._run(layer, x, padding_mask, projection, queries, mask)
            if hiddens is not None:
                hiddens.append(x)
        return x

    def _run(self, layer: nn.Module, x: Tensor, *inputs: Any) -> Tensor:
        output: Tensor
        if not (self.config.checkpoint_activations and self.training and torch.is_grad_enabled()):
            output = layer(x, *inputs)
        else:
            # Only x is stored, or offloaded, for each layer: the other inputs are those of all layers.
            offload = torch.autograd.graph.save_on_cpu(pin_memory=x.is_cuda)
            with offload if self.config.offload_activations else nullcontext():
                output = checkpoint(lambda x: layer(x, *inputs), x, use_reentrant=False)
        return output


class LinformerEncoder(LinformerLayers):
    """RoBERTa's encoder with linear attention.

    Parameters are named as in fairseq's ``TransformerEncoder``: a RoBERTa checkpoint lacks only E and F.

    Args:
        config: shape of the encoder.
        embed_tokens: (vocab_size, d) embedding to use, which is initialized like all; None builds one.
        layer_norm: builds the norms.
    """

    def __init__(
        self,
        config: LinformerConfig,
        embed_tokens: nn.Embedding | None = None,
        layer_norm: LayerNormFactory = nn.LayerNorm,
    ):
        super().__init__()
        d, padding_idx = config.embed_dim, config.padding_idx
        # Before the layers: optimizer states in checkpoints have the order of the parameters.
        self.embed_tokens = embed_tokens or nn.Embedding(config.vocab_size, d, padding_idx)
        # fairseq counts positions from padding_idx + 1.
        self.embed_positions = nn.Embedding(config.max_positions + padding_idx + 1, d, padding_idx)
        self.layernorm_embedding = layer_norm(d, config.layer_norm_eps) if config.layernorm_embedding else None
        self.dropout_module = Dropout(config.dropout)
        self._build_layers(config, layer_norm)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        padding_mask: Tensor | None = None,
        padded: bool | None = None,
    ) -> tuple[Tensor, list[Tensor] | None]:
        """
        Args:
            tokens: (B, n) integers, ``padding_idx`` at padding.
            positions: (B, m), the positions whose features are needed; the last layer skips the others, and the
                features are the same. None for all.
            return_all_hiddens: also return the input of the first layer and the output of each. Not with ``positions``.
            token_embeddings: (B, n, d), used instead of the embeddings of ``tokens``.
            padding_mask: (B, n), True at padding, which must follow the tokens; None to mask ``padding_idx``.
            padded: whether there is padding; None to read it from the mask, which synchronizes with the GPU.

        Returns:
            (B, m or n, d) features, and a list of (B, n, d) hidden states or None. Values at padded positions are
            meaningless.
        """
        self._check_length(tokens.size(1))
        if padding_mask is None:
            padding_mask = tokens.eq(self.config.padding_idx)  # (B, n)
        mask = padding_mask if (padding_mask.any() if padded is None else padded) else None
        embed = partial(self.embed, tokens, padding_mask, token_embeddings)
        hiddens: list[Tensor] | None = [] if return_all_hiddens else None
        return self._encode(embed, mask, positions, hiddens), hiddens

    def embed(self, tokens: Tensor, padding_mask: Tensor, token_embeddings: Tensor | None = None) -> Tensor:
        """Token plus position embeddings, after norm and dropout: (B, n, d)."""
        is_real = (~padding_mask).long()
        positions = is_real.cumsum(1) * is_real + self.config.padding_idx
        x: Tensor = self.embed_tokens(tokens) if token_embeddings is None else token_embeddings
        x = x + self.embed_positions(positions)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        embedded: Tensor = self.dropout_module(x)
        return embedded


class Linformer(LinformerLayers):
    """A Linformer for vectors instead of tokens, such as patches of an image or frames of audio.

        model = Linformer(dim=512, n=4096, layers=6, heads=8, k=256)
        features = model(x, mask)

    It has no embeddings, not even of positions: E and F tell windows of positions apart, not positions within one.
    Layers are those of ``LinformerEncoder``, hence RoBERTa's: norms follow the residuals unless ``normalize_before`` is
    True, and weights start as BERT's.

    Args:
        dim: d (``embed_dim`` of ``LinformerConfig``).
        n: the longest input (``max_positions``).
        layers: number of layers.
        heads: H (``attention_heads``).
        k: projected positions (``projected_dim``), 256 by default.
        options: other fields of ``LinformerConfig``, such as ``sharing``, ``local_window`` and ``dropout``; by default
            ``ffn_embed_dim`` is 4 d.
    """

    def __init__(self, dim: int, n: int, layers: int, heads: int, k: Any = None, **options: Any):
        super().__init__()
        options = {"ffn_embed_dim": 4 * dim, **options}
        config = LinformerConfig(
            vocab_size=1,
            padding_idx=0,
            embed_dim=dim,
            max_positions=n,
            layers=layers,
            attention_heads=heads,
            projected_dim=k,
            **options,
        )
        self._build_layers(config, nn.LayerNorm)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """
        Args:
            x: (B, length, d), at most n positions; what stands at padding has no effect.
            mask: (B, length), True (or 1) at real positions, False at padding before or after them; None without
                padding. A sequence has the same features with and without padding.

        Returns:
            (B, length, d). Values at padded positions are meaningless.
        """
        self._check_length(x.size(1))
        if mask is not None and mask.shape != x.shape[:2]:
            raise ValueError(
                f"mask must have the shape (batch, length) = {tuple(x.shape[:2])}, got {tuple(mask.shape)}"
            )
        # Reading the mask would break a compiled graph.
        if mask is None or not (torch.compiler.is_compiling() or not mask.all()):
            return self._encode(lambda: x)
        padding_mask = mask.eq(0)
        x = zero_padding(x, padding_mask)  # zero times NaN is NaN, in products and gradients
        if not (torch.compiler.is_compiling() or padding_mask[:, 0].any()):
            return self._encode(lambda: x, padding_mask)
        order, back = find_shifts(padding_mask)
        features = self._encode(lambda: gather_positions(x, order), padding_mask.gather(1, order))
        return gather_positions(features, back)


def find_shifts(padding_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Positions that move each sentence to the beginning of its row, since E and F depend on the position, and back:
    (B, n) both.

    Args:
        padding_mask: (B, n), True at padding.
    """
    n = padding_mask.size(1)
    positions = torch.arange(n, device=padding_mask.device)
    num_before = padding_mask.long().cumprod(1).sum(1, keepdim=True)
    return (positions + num_before) % n, (positions - num_before) % n


def _can_run_in_groups(padding_mask: Tensor) -> bool:
    """Groups save time on a CPU only. With several ranks and activation checkpointing, DistributedDataParallel allows
    one call of a layer; a compiled or traced graph must not depend on lengths."""
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    has_ranks = is_distributed and torch.distributed.get_world_size() > 1
    is_traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return padding_mask.device.type == "cpu" and padding_mask.numel() > 0 and not has_ranks and not is_traced


def init_bert_weights(module: nn.Module) -> None:
    """BERT's initialization, as fairseq's ``init_bert_params``: N(0, 0.02), biases and padding zero; not E and F."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        with torch.no_grad():
            module.weight[module.padding_idx].zero_()
