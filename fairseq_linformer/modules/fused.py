"""PyTorch's fused attention, with the log-sum-exp of the scores of each query.

    B sentences, H heads, n queries, s keys, d_h head dimension

Attention over a union of keys can be computed over each part: the outputs are merged, weighted by the sums of
exponentials of their scores, and the backward pass of a part needs the merged output and log-sum-exp
(``local_window.py``). No public function of PyTorch takes them, so these are the operators behind
``scaled_dot_product_attention``; their signatures are those of PyTorch 2.9 to 2.13.
"""

import math
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten
HALF = (torch.float16, torch.bfloat16)


class Attended(NamedTuple):
    """What a kernel returns, and its backward pass needs."""

    output: Tensor
    """(B, H, n, d_h)"""
    lse: Tensor
    """log-sum-exp of the scores, (B, H, n) in single precision."""
    dropout_state: tuple[Tensor, ...]


def masked_score(dtype: torch.dtype) -> float:
    """What is added to the score of a masked key: half of the lowest number. Unlike minus infinity, it keeps the
    log-sum-exp finite for a query whose keys in one part are all masked."""
    return torch.finfo(dtype).min / 2


def is_supported(device: torch.device, dtype: torch.dtype, head_dim: int, dropout: float) -> bool:
    """Whether ``attend`` supports this kind of attention. Otherwise all weights have to be in memory."""
    if torch.compiler.is_exporting():  # ONNX has no fused attention
        return False
    if _is_cpu(device):
        return dropout == 0
    # A plan counts what a GPU does on the meta device.
    return device.type in ("cuda", "meta") and dtype in (*HALF, torch.float32) and head_dim % 8 == 0


def supports_windows(device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """Whether ``attend_in_window`` supports this kind of attention: flash attention, which needs an A100 or newer."""
    return dtype in HALF and head_dim % 8 == 0 and head_dim <= 256 and _has_flash_attention(device)


def _is_cpu(device: torch.device) -> bool:
    return device.type == "cpu"


@cache
def _has_flash_attention(device: torch.device) -> bool:
    has_kernel = device.type == "cuda" and torch.backends.cuda.is_flash_attention_available()
    return has_kernel and torch.cuda.get_device_capability(device) >= (8, 0)


def align_mask(mask: Tensor) -> Tensor:
    """The mask, laid out as the kernels of a GPU require: the stride of its rows is a multiple of 16."""
    if torch.compiler.is_exporting():  # an exported graph has no branches
        return mask
    s = mask.size(-1)
    return mask.contiguous() if s % 16 == 0 else F.pad(mask, (0, -s % 16))[..., :s]


def attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: float = 0.0) -> Attended:
    """softmax(q keys^T / sqrt(d_h) + mask) values.

    Args:
        q: (B, H, n, d_h)
        keys, values: (B, H, s, d_h)
        mask: (B or 1, H or 1, n or 1, s), see ``align_mask``.
        dropout: attention dropout probability; 0 on a CPU.
    """
    mask = _expand(mask, q)
    if _is_cpu(q.device):
        output, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, keys, values, 0.0, False, attn_mask=mask)
        return Attended(output, lse, ())
    output, lse, *state = aten._scaled_dot_product_efficient_attention(q, keys, values, mask, True, dropout)
    return Attended(output, lse[..., : q.size(2)], tuple(state))


def attend_backward(
    gradient: Tensor, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, attended: Attended, dropout: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, keys and values.

    Args:
        attended: of ``attend``, or with the output and log-sum-exp of attention that was merged with other parts.
    """
    mask = _expand(mask, q)
    output, lse, state = attended
    if _is_cpu(q.device):
        gradients = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, q, keys, values, output, lse, 0.0, False, attn_mask=mask
        )
    else:
        lse = F.pad(lse, (0, -q.size(2) % 32), value=math.inf)  # the kernel reads whole blocks of 32 queries
        gradients = aten._scaled_dot_product_efficient_attention_backward(
            gradient, q, keys, values, mask, output, lse, *state, dropout, [True, True, True, False]
        )
    return gradients[0], gradients[1], gradients[2]


def attend_in_window(q: Tensor, keys: Tensor, values: Tensor, reach: int, dropout: float = 0.0) -> Attended:
    """Attention of each position to those at most ``reach`` away; all arguments are (B, H, n, d_h)."""
    n = q.size(2)
    transposed = (x.transpose(1, 2) for x in (q, keys, values))
    output, lse, *state = aten._flash_attention_forward(
        *transposed, None, None, n, n, dropout, False, False, window_size_left=reach, window_size_right=reach
    )
    return Attended(output.transpose(1, 2), lse, tuple(state[:2]))


def attend_in_window_backward(
    gradient: Tensor, q: Tensor, keys: Tensor, values: Tensor, reach: int, attended: Attended, dropout: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Like ``attend_backward``."""
    n = q.size(2)
    transposed = (x.transpose(1, 2) for x in (gradient, q, keys, values, attended.output))
    window = dict(window_size_left=reach, window_size_right=reach)
    gradients = aten._flash_attention_backward(
        *transposed, attended.lse, None, None, n, n, dropout, False, *attended.dropout_state, **window
    )
    d_q, d_keys, d_values = (x.transpose(1, 2) for x in gradients)
    return d_q, d_keys, d_values


def _expand(mask: Tensor, q: Tensor) -> Tensor:
    return mask.expand(*q.shape[:3], -1)
