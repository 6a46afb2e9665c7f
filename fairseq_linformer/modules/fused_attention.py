"""Fused attention that returns the log-sum-exp of the scores, and its backward pass.

    B sentences, n queries, s keys, H heads, d_h head dimension, C queries per chunk, c = ceil(n / C) chunks

``flex_attention`` differentiates attention that was merged with other parts, but has no dropout and does not train on
a CPU. So PyTorch's kernels are called by the operators behind ``scaled_dot_product_attention``, whose signatures are
those of PyTorch 2.9 to 2.14.

The kernels of a GPU read memory as they expect it to be laid out, and check little of it:

- The head dimension is contiguous everywhere. In outputs, the heads of a position lie in a row: the tensors of this
  file are (B, H, n, d_h), and views of contiguous (B, n, H, d_h).
- Rows of masks start at multiples of 16 numbers (``align_mask``).
- Log-sum-exps are contiguous, (B, H, n); efficient attention reads whole blocks of 32 of them.

The tests compute what each operator does from memory that they read in the same way.
"""

import math
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .windows import ceil_div

aten = torch.ops.aten
HALF = (torch.float16, torch.bfloat16)
SEGMENT = 1024
"""Longest sequence of queries in a kernel of a GPU; longer ones are split into segments, which run in parallel. The
backward kernel loops over the queries of a sequence and is parallel only over blocks of keys, and projected keys are
few."""


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


def attention_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """The dtype in which attention of queries of ``dtype`` is computed: at least single precision on a CPU, where half
    precision is slower."""
    return torch.promote_types(dtype, torch.float32) if device.type == "cpu" else dtype


def is_supported(device: torch.device, dtype: torch.dtype, head_dim: int, dropout: float) -> bool:
    """Whether ``attend`` supports this kind of attention. Otherwise all weights have to be in memory."""
    if torch.compiler.is_exporting():  # ONNX has no fused attention
        return False
    if _is_cpu(device):
        return dropout == 0
    dtypes = (torch.float16, torch.bfloat16, torch.float32) if _is_ampere(device) else (torch.float16, torch.float32)
    return device.type in ("cuda", "meta") and dtype in dtypes and head_dim % 8 == 0


def supports_windows(device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """Whether ``attend_in_window`` supports this kind of attention: flash attention, which needs an A100 or newer. Not
    every one of these has dropout for head dimensions above 192."""
    return dtype in HALF and head_dim % 8 == 0 and head_dim <= 192 and _has_flash_attention(device)


def _is_cpu(device: torch.device) -> bool:
    return device.type == "cpu"


@cache
def _is_ampere(device: torch.device) -> bool:
    """Whether a GPU is an A100 or newer. The meta device stands for such a GPU in ``fairseq-linformer plan``."""
    return device.type == "meta" or (device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0))


@cache
def _has_flash_attention(device: torch.device) -> bool:
    return device.type == "cuda" and torch.backends.cuda.is_flash_attention_available() and _is_ampere(device)


def align_mask(mask: Tensor) -> Tensor:
    """The mask, laid out as the kernels of a GPU require."""
    if torch.compiler.is_exporting():  # an exported graph has no branches
        return mask
    s = mask.size(-1)
    return mask.contiguous() if s % 16 == 0 else F.pad(mask, (0, -s % 16))[..., :s]


# Efficient attention, or that of a CPU


def attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: float = 0.0) -> Attended:
    """softmax(q keys^T / sqrt(d_h) + mask) values.

    Args:
        q: (B, H, n, d_h)
        keys, values: (B, H, s, d_h)
        mask: (B or 1, H or 1, n or 1, s), see ``align_mask``.
        dropout: 0 on a CPU.
    """
    C = _segment_length(q)
    if q.size(2) <= C:
        return _attend(q, keys, values, mask, dropout)
    return attend_in_chunks(q, *_to_segments(q, keys, values, mask, C), C, dropout)


def attend_backward(
    gradient: Tensor, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, attended: Attended, dropout: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, keys and values.

    Args:
        gradient: that of the output, laid out like it.
        attended: of ``attend``, or with the output and log-sum-exp of attention that was merged with other parts.
    """
    C = _segment_length(q)
    if q.size(2) <= C:
        return _attend_backward(gradient, q, keys, values, mask, attended, dropout)
    segments = _to_segments(q, keys, values, mask, C)
    d_q, *d_segments = attend_in_chunks_backward(gradient, q, *segments, C, attended, dropout)
    d_keys, d_values = (x.unflatten(0, (q.size(0), -1)).sum(1) for x in d_segments)
    return d_q, d_keys, d_values


def attend_in_chunks(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, C: int, dropout: float = 0.0) -> Attended:
    """Like ``attend``, with chunks of C queries, each with keys of its own.

    Args:
        q: (B, H, n, d_h)
        keys, values: (B c, H, s, d_h)
        mask: (B c or 1, H or 1, C or 1, s)
    """
    B, _, n, _ = q.shape
    output, lse, state = _attend(_to_chunks(q, C), keys, values, mask, dropout)
    return Attended(_from_chunks(output, B, n), _from_chunks(lse, B, n), state)


def attend_in_chunks_backward(
    gradient: Tensor,
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor,
    C: int,
    attended: Attended,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Like ``attend_backward``: the gradients of q, (B, H, n, d_h), and of the keys and values of each chunk. Queries
    after the end add nothing, because their output and its gradient are zero."""
    B, _, n, _ = q.shape
    lse = _to_chunks(attended.lse.unsqueeze(-1), C).squeeze(-1)
    attended = Attended(_to_chunks(attended.output, C), lse, attended.dropout_state)
    gradient, q = _to_chunks(gradient, C), _to_chunks(q, C)
    d_q, d_keys, d_values = _attend_backward(gradient, q, keys, values, mask, attended, dropout)
    return _from_chunks(d_q, B, n), d_keys, d_values


def _attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: float) -> Attended:
    """Like ``attend``, by one call of a kernel."""
    mask = _expand(mask, q)
    if _is_cpu(q.device):
        output, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, keys, values, 0.0, False, attn_mask=mask)
        return Attended(output, lse, ())
    output, lse, *state = aten._scaled_dot_product_efficient_attention(q, keys, values, mask, True, dropout)
    return Attended(output, lse[..., : q.size(2)], tuple(state))


def _attend_backward(
    gradient: Tensor, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, attended: Attended, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Like ``attend_backward``, by one call of a kernel."""
    mask = _expand(mask, q)
    output, lse, state = attended
    if _is_cpu(q.device):
        gradients = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, q, keys, values, output, lse, 0.0, False, attn_mask=mask
        )
    else:
        lse = F.pad(lse, (0, -q.size(2) % 32), value=math.inf).contiguous()
        gradients = aten._scaled_dot_product_efficient_attention_backward(
            gradient, q, keys, values, mask, output, lse, *state, dropout, [True, True, True, False]
        )
    return gradients[0], gradients[1], gradients[2]


def _expand(mask: Tensor, q: Tensor) -> Tensor:
    return mask.expand(*q.shape[:3], -1)


def _segment_length(q: Tensor) -> int:
    """C of segments about equally long; n for one."""
    n = q.size(2)
    if _is_cpu(q.device) or n <= SEGMENT:
        return n
    return 32 * ceil_div(ceil_div(n, ceil_div(n, SEGMENT)), 32)


def _to_segments(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, C: int) -> tuple[Tensor, Tensor, Tensor]:
    """Keys, values and mask of each segment; all have the same keys and values."""
    B, c = q.size(0), ceil_div(q.size(2), C)
    if mask.size(2) > 1:
        mask = align_mask(_to_chunks(mask.expand(B, -1, -1, -1), C))
    elif mask.size(0) > 1:
        mask = align_mask(mask.repeat_interleave(c, 0))
    return keys.repeat_interleave(c, 0), values.repeat_interleave(c, 0), mask


def _to_chunks(x: Tensor, C: int) -> Tensor:
    """(B, H, n, width) to (B c, H, C, width), with zeros after the end: chunks become sentences of their own.

    Padding the view (B, n, H, width) keeps the layout, and if C divides n nothing is copied.
    """
    x = x.transpose(1, 2)
    missing = -x.size(1) % C
    if missing:
        x = F.pad(x, (0, 0, 0, 0, 0, missing))
    chunks: Tensor = x.unflatten(1, (-1, C))
    return chunks.flatten(0, 1).transpose(1, 2)


def _from_chunks(x: Tensor, B: int, n: int) -> Tensor:
    """The inverse of ``_to_chunks``, also for log-sum-exps, without a width."""
    chunks: Tensor = x.transpose(1, 2).unflatten(0, (B, -1))
    return chunks.flatten(1, 2)[:, :n].transpose(1, 2)


# Windows: flash attention


def attend_in_window(
    q: Tensor, keys: Tensor, values: Tensor, reach: int, bounds: Tensor | None = None, dropout: float = 0.0
) -> Attended:
    """Attention of each position to those at most ``reach`` away.

    Args:
        q, keys, values: (B, H, n, d_h)
        bounds: where sequences of at most n positions begin and end in the B n positions, which include padding,
            ascending 32-bit integers from 0 to B n; keys of other sequences are out of reach. None for B of n.
    """
    B, _, n, _ = q.shape
    rows = (_to_rows(x, bounds) for x in (q, keys, values))
    output, lse, *state = aten._flash_attention_forward(
        *rows, bounds, bounds, n, n, dropout, False, False, window_size_left=reach, window_size_right=reach
    )
    lse = lse if bounds is None else lse.unflatten(1, (B, n)).transpose(0, 1)
    return Attended(_from_rows(output, B), lse, tuple(state[:2]))


def attend_in_window_backward(
    gradient: Tensor,
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    reach: int,
    bounds: Tensor | None,
    attended: Attended,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Like ``attend_backward``."""
    B, _, n, _ = q.shape
    rows = (_to_rows(x, bounds) for x in (gradient, q, keys, values, attended.output))
    lse = attended.lse if bounds is None else attended.lse.transpose(0, 1).flatten(1)
    window = dict(window_size_left=reach, window_size_right=reach)
    gradients = aten._flash_attention_backward(
        *rows, lse.contiguous(), bounds, bounds, n, n, dropout, False, *attended.dropout_state, **window
    )
    d_q, d_keys, d_values = (_from_rows(x, B) for x in gradients)
    return d_q, d_keys, d_values


def _to_rows(x: Tensor, bounds: Tensor | None) -> Tensor:
    """(B, H, n, d_h) to (B, n, H, d_h), or with ``bounds`` to (B n, H, d_h)."""
    x = x.transpose(1, 2)
    return x if bounds is None else x.flatten(0, 1)


def _from_rows(x: Tensor, B: int) -> Tensor:
    """The inverse of ``_to_rows``."""
    rows = x if x.dim() == 4 else x.unflatten(0, (B, -1))
    return rows.transpose(1, 2)
