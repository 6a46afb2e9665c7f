"""Which kernel the baseline ``sdpa`` has: the fastest of those that can, whatever PyTorch would take first."""

import time
from contextlib import contextmanager

import pytest
import torch
from torch.nn.attention import SDPBackend

from fairseq_linformer.benchmark import kernels

SLOW, FAST, REFUSES = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION


@pytest.fixture
def qkv(monkeypatch):
    """Queries, keys and values, and an attention that takes a known time with each kernel."""
    within = []

    @contextmanager
    def enter(backend):
        within.append(backend)
        yield
        within.pop()

    def attend(*args):
        if within[-1] is REFUSES:
            raise RuntimeError("No available kernel")
        time.sleep({SLOW: 0.03, FAST: 0.0}[within[-1]])

    monkeypatch.setattr(kernels, "sdpa_kernel", enter)
    monkeypatch.setattr(kernels.F, "scaled_dot_product_attention", attend)
    return [torch.zeros(1, 1, 2, 4) for _ in range(3)]


def test_the_fastest_of_those_that_can_is_taken(qkv):
    assert kernels.fastest(*qkv, None, 0.0) is FAST
    assert kernels.fastest(*qkv, None, 0.0, among=(REFUSES, SLOW)) is SLOW
    assert kernels.fastest(*qkv, None, 0.0, among=(REFUSES,)) is None


def test_a_cpu_has_one(qkv):
    kernels.forget()
    with kernels.with_fastest(*qkv, None, 0.0):
        assert kernels.taken() == {}


def test_a_shape_is_tried_once_and_what_it_was_given_is_told(monkeypatch):
    class OnGpu:
        device, dtype, shape, requires_grad = torch.device("cuda"), torch.bfloat16, torch.Size((2, 4, 8, 16)), False

    tried = []
    monkeypatch.setattr(kernels, "fastest", lambda q, *others: tried.append(q) or FAST)
    kernels.forget()
    for _ in range(2):
        with kernels.with_fastest(OnGpu, OnGpu, OnGpu, None, 0.0):
            pass
    assert len(tried) == 1 and kernels.taken() == {"bfloat16, (2, 4, 8, 16) x (2, 4, 8, 16)": "efficient_attention"}
    kernels.forget()
    assert kernels.taken() == {}
