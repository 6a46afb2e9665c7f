"""The Linformer's encoder with full attention, and with attention weights in memory."""

from dataclasses import replace
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel

from ..config import PROJECTION_OPTIONS, LinformerConfig
from ..modules import LinformerEncoder

KERNELS = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,  # where none is fused, as on a CPU with dropout
]
"""Kernels of ``sdpa``, of which the first that supports the shape is used: cuDNN's was the fastest on an H100, and
PyTorch's own order has it last."""


def build_transformer(config: LinformerConfig, kind: str) -> LinformerEncoder:
    """Build the same encoder with full attention. Its last layer also computes only the positions that are read.

    Args:
        config: k, sharing and local window are ignored.
        kind: ``eager``, weights in memory; or ``sdpa``, PyTorch's fused attention.
    """
    unset: dict[str, Any] = dict.fromkeys(PROJECTION_OPTIONS)
    full = replace(config, **{**unset, "projection": "none", "local_window": 0, "freeze_projections": False})
    if kind == "eager":
        return build_materialized(full)
    encoder = LinformerEncoder(full)
    for layer in encoder.layers:
        attention = layer.get_submodule("self_attn")
        attention.forward = sdpa_kernel(KERNELS, set_priority=True)(attention.forward)
    return encoder


def build_materialized(config: LinformerConfig) -> LinformerEncoder:
    """Build an encoder whose attention materializes its weights, n x k or n x n, and frees them before the
    feed-forward."""

    def ask_for_weights(module, arguments, keywords):
        return arguments, {**keywords, "need_weights": True}

    encoder = LinformerEncoder(config)
    for layer in encoder.layers:
        attention = layer.get_submodule("self_attn")
        attention.register_forward_pre_hook(ask_for_weights, with_kwargs=True)
        attention.register_forward_hook(lambda module, arguments, output: (output[0], None))
    return encoder
