"""One layer: linear attention and feed-forward, each with its residual and norm.

    B sentences, n positions, m positions whose output is needed, d width
"""

from typing import Callable, Optional

import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig
from .attention import LinearMultiheadAttention, gather
from .dropout import Dropout
from .kinds import projection_of
from .projection import Projection

ACTIVATION_FUNCTIONS: "dict[str, Callable[[Tensor], Tensor]]" = {
    "gelu": F.gelu,
    "gelu_accurate": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_fast": lambda x: F.gelu(x, approximate="tanh"),
    "linear": lambda x: x,
    "relu": F.relu,
    "tanh": lambda x: x.tanh(),
}


class LinformerEncoderLayer(nn.Module):
    """An encoder layer of RoBERTa with linear attention; its parameters have RoBERTa's names.

    Args:
        config: widths, sharing, dropouts.
        index: which layer it is; k may differ from layer to layer.
        shared: the projection of all layers, where they share one.
        linear: makes a linear map from (inputs, outputs).
        layer_norm: makes a norm from a width.
    """

    def __init__(
        self,
        config: LinformerConfig,
        index: int = 0,
        shared: Optional[Projection] = None,
        linear=nn.Linear,
        layer_norm=nn.LayerNorm,
    ):
        super().__init__()
        self.self_attn = LinearMultiheadAttention(
            config.embed_dim,
            config.attention_heads,
            E=shared or projection_of(config, index),
            F=projection_of(config, index, "F") if config.separate_values else None,
            shared=shared is not None,
            dropout=config.attention_dropout,
            linear=linear,
        )
        self.self_attn_layer_norm = layer_norm(config.embed_dim)
        self.fc1 = linear(config.embed_dim, config.ffn_embed_dim)
        self.fc2 = linear(config.ffn_embed_dim, config.embed_dim)
        self.final_layer_norm = layer_norm(config.embed_dim)
        self.activation_fn = ACTIVATION_FUNCTIONS[config.activation_fn]
        self.dropout_module = Dropout(config.dropout)
        self.activation_dropout_module = Dropout(config.activation_dropout)
        self.normalize_before = config.normalize_before

    def forward(
        self,
        x: Tensor,
        padding_mask: Optional[Tensor] = None,
        projection: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
    ) -> Tensor:
        """
        Args:
            x: (B, n, d)
            padding_mask: (B, n), True at padding, or None.
            projection: the matrix or kernel of layerwise sharing.
            positions: (B, m), the positions whose output is needed; None for all.

        Returns:
            (B, m, d), or (B, n, d) without ``positions``.
        """
        residual = x if positions is None else gather(x, positions)
        if self.normalize_before:
            x = self.self_attn_layer_norm(x)
        x, _ = self.self_attn(x, padding_mask, projection, positions)
        x = residual + self.dropout_module(x)
        if not self.normalize_before:
            x = self.self_attn_layer_norm(x)

        residual = x
        if self.normalize_before:
            x = self.final_layer_norm(x)
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        x = residual + self.dropout_module(self.fc2(x))
        if not self.normalize_before:
            x = self.final_layer_norm(x)
        return x
