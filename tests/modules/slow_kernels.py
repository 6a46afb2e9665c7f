"""What the operators of a GPU compute, slowly and on a CPU, from memory that they read as the GPU's kernels do.

Where a kernel ignores a stride, so does its stand-in, which then finds other numbers, or NaN past the end of the
memory. What a kernel checks, or assumes without a check, is asserted. The rules are those of PyTorch's
kernel_backward.h, attention_backward.cu and flash_api.cpp. Dropped weights depend on the seed and on where sentence,
head, query and key are, as in the kernels.
"""

import itertools
import math

import pytest
import torch

from fairseq_linformer.modules import fused_attention, local_window


def read_memory(x, strides):
    """The numbers that a kernel finds at the address of ``x`` with these strides."""
    memory = x.new_empty(0).set_(x.untyped_storage())
    last = x.storage_offset() + sum((size - 1) * stride for size, stride in zip(x.shape, strides))
    memory = torch.cat([memory, memory.new_full((max(0, last + 1 - len(memory)),), math.nan)])
    return memory.as_strided(x.shape, strides, x.storage_offset())


def assert_rows(*tensors):
    """Queries, keys and values may have any strides, in units of 8 numbers, but that of the head dimension."""
    for x in tensors:
        assert x.stride(-1) == 1 and all(stride % 8 == 0 for stride in x.stride()[:-1]), x.stride()


def keep(shape, seed, dropout):
    """1 / (1 - dropout) for weights that are kept, 0 for the others."""
    if dropout == 0:
        return torch.ones(())
    generator = torch.Generator().manual_seed(int(seed))
    return (torch.rand(shape, generator=generator, dtype=torch.float64) >= dropout) / (1 - dropout)


def forward(q, keys, values, mask, seed, dropout):
    """The output, laid out as kernels do, and the log-sum-exp of (B, H, n, d_h)."""
    scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1)) + mask
    output = (torch.softmax(scores, -1) * keep(scores.shape, seed, dropout)) @ values
    return output.transpose(1, 2).contiguous().transpose(1, 2), torch.logsumexp(scores, -1)


def backward(gradient, q, keys, values, mask, output, lse, seed, dropout):
    """The formulas of FlashAttention 2 (Dao 2023, algorithm 2), with dropout."""
    scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1)) + mask
    weights, kept = torch.exp(scores - lse.unsqueeze(-1)), keep(scores.shape, seed, dropout)
    d_weights = gradient @ values.transpose(-2, -1) * kept
    d_scores = weights * (d_weights - (gradient * output).sum(-1, keepdim=True)) / math.sqrt(q.size(-1))
    gradients = d_scores @ keys, d_scores.transpose(-2, -1) @ q, (weights * kept).transpose(-2, -1) @ gradient
    return [x.transpose(1, 2).contiguous().transpose(1, 2) for x in gradients]


class SlowKernels:
    """Stands for ``torch.ops.aten``, and records calls.

    Attributes:
        queries, backward_queries: shapes of the queries of efficient attention.
        bounds: those of each call of flash attention; None for sentences of n positions.
    """

    def __init__(self):
        self.queries, self.backward_queries, self.bounds = [], [], []

    def _scaled_dot_product_efficient_attention(self, q, keys, values, bias, compute_log_sumexp, dropout):
        self.queries.append(tuple(q.shape))
        assert compute_log_sumexp
        assert_rows(q, keys, values)
        self.assert_bias(q, keys, bias)
        seed = torch.randint(1000, ())
        output, lse = forward(q, keys, values, bias, seed, dropout)
        padded = torch.full((*lse.shape[:2], -(-lse.size(2) // 32) * 32), math.nan, dtype=lse.dtype)
        padded[..., : lse.size(2)] = lse
        return output, padded, seed, torch.tensor(2)

    def _scaled_dot_product_efficient_attention_backward(
        self, gradient, q, keys, values, bias, output, lse, seed, offset, dropout, needs_gradient
    ):
        self.backward_queries.append(tuple(q.shape))
        assert needs_gradient == [True, True, True, False] and offset == 2
        assert_rows(q, keys, values, output)
        self.assert_bias(q, keys, bias)
        assert lse.stride(-1) == 1 and lse.stride(0) % 8 == lse.stride(1) % 8 == 0 and lse.size(-1) % 32 == 0
        assert (lse[..., q.size(2) :] == math.inf).all()
        # The kernel gets no stride of the output's rows: o_strideM() is H d_h.
        output = read_memory(output, (*output.stride()[:2], q.size(1) * q.size(3), 1))
        return *backward(gradient, q, keys, values, bias, output, lse[..., : q.size(2)], seed, dropout), None

    @staticmethod
    def assert_bias(q, keys, bias):
        assert bias.shape == (*q.shape[:3], keys.size(2)) and bias.stride(-1) == 1
        assert all(stride % 16 == 0 for size, stride in zip(bias.shape, bias.stride()[:3]) if size > 1), bias.stride()

    def _flash_attention_forward(
        self, q, keys, values, bounds, bounds_k, n, n_k, dropout, *flags, window_size_left, window_size_right
    ):
        assert flags == (False, False) and n == n_k and bounds is bounds_k
        assert_rows(q, keys, values)
        self.bounds.append(None if bounds is None else bounds.tolist())
        seed = torch.randint(1000, ())
        outputs, lses = [], []
        for i, part in enumerate(self.sequences(n, bounds, q, keys, values)):
            mask = self.window(part[0].size(2), window_size_left, window_size_right)
            output, lse = forward(*part, mask, seed + i, dropout)
            outputs.append(output.transpose(1, 2)), lses.append(lse)
        output = torch.cat(outputs, 1) if bounds is None else torch.cat(outputs, 1)[0]
        output = torch.empty_like(q).copy_(output)  # laid out like the queries
        lse = lses[0] if bounds is None else torch.cat(lses, 2)[0].contiguous()
        return output, lse, seed, torch.tensor(4), None

    def _flash_attention_backward(
        self,
        gradient,
        q,
        keys,
        values,
        output,
        lse,
        bounds,
        bounds_k,
        n,
        n_k,
        dropout,
        is_causal,
        seed,
        offset,
        window_size_left,
        window_size_right,
    ):
        assert not is_causal and n == n_k and bounds is bounds_k and offset == 4
        assert_rows(q, keys, values)
        # The kernel gets only the address of the log-sum-exp.
        lse = read_memory(lse, torch.empty(lse.shape).stride())
        lse = lse.transpose(-2, -1).unsqueeze(-1)
        gradients = []
        for i, (*part, lse_part) in enumerate(self.sequences(n, bounds, gradient, q, keys, values, output, lse)):
            mask = self.window(part[0].size(2), window_size_left, window_size_right)
            gradients.append(backward(*part[:4], mask, part[4], lse_part.squeeze(-1), seed + i, dropout))
        gradients = [torch.cat([x.transpose(1, 2) for x in parts], 1) for parts in zip(*gradients)]
        return gradients if bounds is None else [x[0] for x in gradients]

    @staticmethod
    def sequences(n, bounds, *rows):
        """The part of each sequence, (B or 1, H, length, width), of ``rows`` (B, n, H, width) or (B n, H, width)."""
        if bounds is None:
            return [[x.transpose(1, 2) for x in rows]]
        assert bounds.dtype == torch.int32 and bounds.is_contiguous()
        lengths = bounds.diff()
        assert bounds[0] == 0 and bounds[-1] == len(rows[0]) and (lengths >= 0).all() and (lengths <= n).all()
        return [
            [x[start:end].transpose(0, 1).unsqueeze(0) for x in rows]
            for start, end in itertools.pairwise(bounds.tolist())
        ]

    @staticmethod
    def window(n, left, right):
        offsets = torch.arange(n) - torch.arange(n)[:, None]
        return torch.zeros(n, n).masked_fill((offsets < -left) | (offsets > right), -math.inf)


def use_slow_kernels(monkeypatch: pytest.MonkeyPatch, has_flash: bool) -> SlowKernels:
    """A GPU on a CPU, in double precision; with flash attention, or like a V100 or single precision."""
    kernels = SlowKernels()
    monkeypatch.setattr(fused_attention, "aten", kernels)
    monkeypatch.setattr(fused_attention, "_is_cpu", lambda device: False)
    monkeypatch.setattr(local_window, "is_supported", lambda *_: True)
    monkeypatch.setattr(local_window, "supports_windows", lambda *_: has_flash)
    monkeypatch.setattr(local_window, "CHUNK", local_window.GPU_CHUNK)
    return kernels
