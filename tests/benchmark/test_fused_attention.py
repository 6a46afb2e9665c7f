"""The baseline ``sdpa`` uses the fastest kernel that can run, whatever PyTorch would choose."""

from contextlib import contextmanager

import pytest
import torch
from torch.nn.attention import SDPBackend

from fairseq_linformer.benchmark import fused_attention, timing

SLOW, FAST, UNSUPPORTED = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION


@pytest.fixture
def qkv(monkeypatch):
    """Queries, keys and values, and an attention that takes a known time with each kernel."""
    active, now = [], [0.0]

    @contextmanager
    def enter(backend):
        active.append(backend)
        yield
        active.pop()

    def attend(*args):
        if active[-1] is UNSUPPORTED:
            raise RuntimeError("No available kernel")
        now[0] += {SLOW: 2.0, FAST: 1.0}[active[-1]]

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(fused_attention, "sdpa_kernel", enter)
    monkeypatch.setattr(fused_attention.F, "scaled_dot_product_attention", attend)
    return [torch.zeros(1, 1, 2, 4) for _ in range(3)]


def test_fastest_supported_kernel_is_selected(qkv):
    assert fused_attention.find_fastest_kernel(*qkv, None, 0.0) is FAST
    assert fused_attention.find_fastest_kernel(*qkv, None, 0.0, among=(UNSUPPORTED, SLOW)) is SLOW
    assert fused_attention.find_fastest_kernel(*qkv, None, 0.0, among=(UNSUPPORTED,)) is None


def test_cpu_selects_no_kernel(qkv):
    fused_attention.clear_kernels()
    with fused_attention.use_fastest_kernel(*qkv, None, 0.0):
        assert fused_attention.selected_kernels() == {}


def test_kernels_of_a_shape_are_timed_once(monkeypatch):
    class OnGpu:
        device, dtype, shape, requires_grad = torch.device("cuda"), torch.bfloat16, torch.Size((2, 4, 8, 16)), False

    calls = []
    monkeypatch.setattr(fused_attention, "find_fastest_kernel", lambda q, *others: calls.append(q) or FAST)
    fused_attention.clear_kernels()
    for _ in range(2):
        with fused_attention.use_fastest_kernel(OnGpu, OnGpu, OnGpu, None, 0.0):
            pass
    assert len(calls) == 1 and fused_attention.selected_kernels() == {
        "bfloat16, (2, 4, 8, 16) x (2, 4, 8, 16)": "efficient_attention"
    }
    fused_attention.clear_kernels()
    assert fused_attention.selected_kernels() == {}
