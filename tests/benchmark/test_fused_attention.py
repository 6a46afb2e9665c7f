"""The baseline ``sdpa`` has the fastest kernel of those that can run, whatever PyTorch would take first."""

from contextlib import contextmanager

import pytest
import torch
from torch.nn.attention import SDPBackend

from fairseq_linformer.benchmark import fused_attention, timing

SLOW, FAST, REFUSES = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION


@pytest.fixture
def qkv(monkeypatch):
    """Queries, keys and values, and an attention that takes a known time with each kernel."""
    within, now = [], [0.0]

    @contextmanager
    def enter(backend):
        within.append(backend)
        yield
        within.pop()

    def attend(*args):
        if within[-1] is REFUSES:
            raise RuntimeError("No available kernel")
        now[0] += {SLOW: 2.0, FAST: 1.0}[within[-1]]

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(fused_attention, "sdpa_kernel", enter)
    monkeypatch.setattr(fused_attention.F, "scaled_dot_product_attention", attend)
    return [torch.zeros(1, 1, 2, 4) for _ in range(3)]


def test_the_fastest_of_those_that_can_is_taken(qkv):
    assert fused_attention.fastest(*qkv, None, 0.0) is FAST
    assert fused_attention.fastest(*qkv, None, 0.0, among=(REFUSES, SLOW)) is SLOW
    assert fused_attention.fastest(*qkv, None, 0.0, among=(REFUSES,)) is None


def test_a_cpu_has_one(qkv):
    fused_attention.forget()
    with fused_attention.with_fastest(*qkv, None, 0.0):
        assert fused_attention.chosen() == {}


def test_a_shape_is_tried_once_and_its_kernel_is_recorded(monkeypatch):
    class OnGpu:
        device, dtype, shape, requires_grad = torch.device("cuda"), torch.bfloat16, torch.Size((2, 4, 8, 16)), False

    tried = []
    monkeypatch.setattr(fused_attention, "fastest", lambda q, *others: tried.append(q) or FAST)
    fused_attention.forget()
    for _ in range(2):
        with fused_attention.with_fastest(OnGpu, OnGpu, OnGpu, None, 0.0):
            pass
    assert len(tried) == 1 and fused_attention.chosen() == {
        "bfloat16, (2, 4, 8, 16) x (2, 4, 8, 16)": "efficient_attention"
    }
    fused_attention.forget()
    assert fused_attention.chosen() == {}
