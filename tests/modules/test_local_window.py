"""Attention to neighbors: merged from two parts, with all weights in memory, and with the kernels of a GPU."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinformerEncoder, local_window
from fairseq_linformer.modules.local_window import Neighbors, attend_locally, find_neighbors

B, H, D = 2, 2, 3
SIZES = [(5, 2, 1), (32, 3, 4), (65, 3, 4), (150, 200, 33), (130, 4, 129)]
"""n, k' and w: one chunk, or several, with and without a rest; windows within a chunk, and over several."""


def random_inputs(n, num_projected, dtype=torch.float64):
    generator = torch.Generator().manual_seed(n)

    def random(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    q, keys, values = (random(B, H, n, D) for _ in range(3))
    projected = random(B, H, num_projected, D), random(B, H, num_projected, D)
    bias = torch.randn(B, 1, n, num_projected, generator=generator, dtype=dtype)
    bias[:, :, :1] = local_window.masked_score(dtype)  # a query whose projected keys are all masked
    return [q, *projected, keys, values], bias


def padding_of(n, kind):
    if kind == "none":
        return None
    positions = torch.arange(n)
    second = positions < n // 3 if kind == "left" else positions >= n - n // 3
    return torch.stack([torch.zeros(n, dtype=torch.bool), second])


def neighbors_of(q, padding_mask, reach, dropout=0.0):
    x = q.transpose(1, 2).flatten(2)
    return find_neighbors(x, padding_mask, reach, q.size(-1), q.dtype, dropout)


def attend(tensors, bias, padding_mask, reach, is_fused=True):
    q, projected_keys, projected_values, keys, values = tensors
    neighbors = neighbors_of(q, padding_mask, reach, dropout=0.0 if is_fused else 0.1)
    assert neighbors.is_fused == is_fused
    return attend_locally(q, (projected_keys, projected_values), (keys, values), bias, neighbors)


def reference(tensors, bias, padding_mask, reach):
    """One softmax over all keys, with the n x n scores in memory."""
    q, projected_keys, projected_values, keys, values = tensors
    positions = torch.arange(q.size(2))
    is_masked = ((positions[:, None] - positions).abs() > reach).expand(B, 1, -1, -1)
    if padding_mask is not None:
        is_masked = is_masked | padding_mask[:, None, None]
    far = q @ projected_keys.transpose(-2, -1) / math.sqrt(D) + bias
    near = (q @ keys.transpose(-2, -1) / math.sqrt(D)).masked_fill(is_masked, -math.inf)
    return torch.softmax(torch.cat([far, near], -1), -1) @ torch.cat([projected_values, values], -2)


def assert_equals_reference(tensors, bias, padding_mask, reach, is_fused=True):
    is_real = torch.ones(B, tensors[0].size(2)) if padding_mask is None else ~padding_mask
    results = []
    for y in (attend(tensors, bias, padding_mask, reach, is_fused), reference(tensors, bias, padding_mask, reach)):
        y = y * is_real[:, None, :, None]
        results.append([y, *torch.autograd.grad(y.square().sum(), tensors)])
    for ours, expected in zip(*results):
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("n, num_projected, reach", SIZES)
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("is_fused", [True, False])
def test_equals_one_softmax(n, num_projected, reach, padding, is_fused):
    tensors, bias = random_inputs(n, num_projected)
    assert_equals_reference(tensors, bias, padding_of(n, padding), reach, is_fused)
    assert_equals_reference(tensors, bias[:1, :, -1:], padding_of(n, padding), reach, is_fused)


def test_empty_batch():
    tensors, bias = random_inputs(7, 2)
    tensors = [x[:0].detach().requires_grad_() for x in tensors]
    y = attend(tensors, bias[:0], None, 2, is_fused=False)
    assert y.shape == (0, H, 7, D)
    assert torch.autograd.grad(y.sum(), tensors)[-1].shape == (0, H, 7, D)


def test_half_precision_on_a_cpu_is_computed_in_single():
    tensors, bias = random_inputs(70, 4, torch.bfloat16)
    q, projected_keys, projected_values, keys, values = tensors
    neighbors = neighbors_of(q.float(), None, 3)
    y = attend_locally(q, (projected_keys, projected_values), (keys, values), bias, neighbors)
    expected = attend([x.float() for x in tensors], bias.float(), None, 3)
    assert y.dtype == torch.bfloat16 and torch.equal(y, expected.bfloat16())


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_large_scores(scale):
    """A masked key is not attended to, however large the scores of the others are."""
    (q, *others), bias = random_inputs(70, 4)
    assert_equals_reference([(scale * q).detach().requires_grad_(), *others], bias, padding_of(70, "right"), 3)


def test_input_without_positions():
    tensors, bias = random_inputs(0, 2)
    assert attend(tensors, bias, None, 2, is_fused=False).shape == (B, H, 0, D)


def test_it_cannot_be_differentiated_twice():
    tensors, bias = random_inputs(40, 3)
    with pytest.raises(NotImplementedError, match="differentiated twice"):
        torch.autograd.grad(attend(tensors, bias, None, 2).sum(), tensors, create_graph=True)


@pytest.mark.slow
def test_gradients_with_dropout_are_those_of_the_same_dropped_weights():
    (q, projected_keys, projected_values, keys, values), bias = random_inputs(7, 2)
    neighbors = neighbors_of(q, None, 2, dropout=0.4)

    def run(q, projected_keys, projected_values, keys, values):
        torch.manual_seed(0)
        return attend_locally(q, (projected_keys, projected_values), (keys, values), bias, neighbors, 0.4)

    tensors = (q, projected_keys, projected_values, keys, values)
    assert not torch.equal(run(*tensors), attend(tensors, bias, None, 2))
    assert torch.autograd.gradcheck(run, tensors)


def test_keys_and_values_are_stored_once():
    """Bytes for the backward pass: queries, keys, values, output, and the log-sum-exp of two parts."""
    n = 256
    tensors, bias = random_inputs(n, 4)
    neighbors = neighbors_of(tensors[0], None, 8)
    stored = {}

    def pack(x):
        stored[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    q, projected_keys, projected_values, keys, values = tensors
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        attend_locally(q, (projected_keys, projected_values), (keys, values), bias, neighbors)
    projected = sum(x.nbytes for x in (projected_keys, projected_values, bias))
    assert sum(stored.values()) <= 8 * B * H * n * (4 * D + 2) + projected


# ---- on a GPU: flash attention with a window, and efficient attention


def slow_attention(q, keys, values, mask):
    scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1)) + mask
    return torch.softmax(scores, -1) @ values, torch.logsumexp(scores, -1), scores


def slow_backward(gradient, q, keys, values, mask, output, lse):
    """The formulas of FlashAttention 2 (Dao 2023, algorithm 2)."""
    weights = torch.exp(slow_attention(q, keys, values, mask)[2] - lse.unsqueeze(-1))
    d_weights = gradient @ values.transpose(-2, -1)
    d_scores = weights * (d_weights - (gradient * output).sum(-1, keepdim=True)) / math.sqrt(q.size(-1))
    return d_scores @ keys, d_scores.transpose(-2, -1) @ q, weights.transpose(-2, -1) @ gradient


class SlowKernels:
    """What the operators of a GPU compute, and the layouts that they require."""

    @staticmethod
    def _scaled_dot_product_efficient_attention(q, keys, values, bias, compute_log_sumexp, dropout):
        assert bias.shape == (*q.shape[:3], keys.size(2)) and bias.stride(-2) % 16 == 0 and compute_log_sumexp
        output, lse, _ = slow_attention(q, keys, values, bias)
        padded = torch.full((*lse.shape[:2], -(-lse.size(2) // 32) * 32), math.nan, dtype=lse.dtype)
        padded[..., : lse.size(2)] = lse
        return output, padded, torch.tensor(1), torch.tensor(2)

    @staticmethod
    def _scaled_dot_product_efficient_attention_backward(
        gradient, q, keys, values, bias, output, lse, seed, offset, dropout, needs_gradient
    ):
        assert lse.size(-1) % 32 == 0 and needs_gradient == [True, True, True, False] and (seed, offset) == (1, 2)
        return *slow_backward(gradient, q, keys, values, bias, output, lse[..., : q.size(2)]), None

    @staticmethod
    def _flash_attention_forward(q, keys, values, *rest, window_size_left, window_size_right):
        n = q.size(1)
        assert rest == (None, None, n, n, 0.0, False, False)
        mask = SlowKernels.window(n, window_size_left, window_size_right)
        output, lse, _ = slow_attention(*(x.transpose(1, 2) for x in (q, keys, values)), mask)
        return output.transpose(1, 2), lse, torch.tensor(3), torch.tensor(4), None

    @staticmethod
    def _flash_attention_backward(gradient, q, keys, values, output, lse, *rest, window_size_left, window_size_right):
        n = q.size(1)
        assert rest == (None, None, n, n, 0.0, False, 3, 4)
        gradient, q, keys, values, output = (x.transpose(1, 2) for x in (gradient, q, keys, values, output))
        mask = SlowKernels.window(n, window_size_left, window_size_right)
        return [x.transpose(1, 2) for x in slow_backward(gradient, q, keys, values, mask, output, lse)]

    @staticmethod
    def window(n, left, right):
        offsets = torch.arange(n) - torch.arange(n)[:, None]
        return torch.zeros(n, n).masked_fill((offsets < -left) | (offsets > right), -math.inf)


@pytest.fixture
def slow_gpu(monkeypatch):
    """Operators of a GPU on a CPU, in double precision."""
    monkeypatch.setattr(local_window, "aten", SlowKernels)
    monkeypatch.setattr(local_window, "is_supported", lambda *_: True)
    monkeypatch.setattr(local_window, "_is_cpu", lambda device: False)
    return monkeypatch


@pytest.mark.parametrize("n, num_projected, reach", SIZES)
@pytest.mark.parametrize("has_flash, padding", [(True, "none"), (True, "right"), (False, "none")])
def test_kernels_of_a_gpu_are_merged_to_one_softmax(slow_gpu, n, num_projected, reach, has_flash, padding):
    slow_gpu.setattr(local_window, "supports_windows", lambda *_: has_flash)
    tensors, bias = random_inputs(n, num_projected)
    padding_mask = padding_of(n, padding)
    assert (neighbors_of(tensors[0], padding_mask, reach).mask is None) == (has_flash and padding == "none")
    assert_equals_reference(tensors, local_window.align_mask(bias), padding_mask, reach)


@pytest.mark.parametrize(
    "device, dtype, head_dim, dropout, expected",
    [
        ("cuda", torch.float16, 64, 0.1, (True, True)),
        ("cuda", torch.bfloat16, 256, 0.0, (True, True)),
        ("cuda", torch.bfloat16, 264, 0.0, (True, False)),
        ("cuda", torch.float32, 64, 0.1, (True, False)),
        ("cuda", torch.float64, 64, 0.0, (False, False)),
        ("cuda", torch.float16, 36, 0.0, (False, False)),
        ("cpu", torch.float32, 36, 0.0, (True, False)),
        ("cpu", torch.float32, 64, 0.1, (False, False)),
        ("meta", torch.float32, 64, 0.0, (True, False)),  # stands for a GPU, without flash attention
    ],
)
@pytest.mark.parametrize("capability", [(7, 0), (9, 0)])
def test_which_kernel(monkeypatch, device, dtype, head_dim, dropout, expected, capability):
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    local_window._has_flash_attention.cache_clear()
    device = torch.device(device)
    is_supported = local_window.is_supported(device, dtype, head_dim, dropout)
    has_windows = is_supported and local_window.supports_windows(device, dtype, head_dim)
    local_window._has_flash_attention.cache_clear()
    assert (is_supported, has_windows) == (expected[0], expected[1] and capability >= (8, 0))


class CountOperators(TorchDispatchMode):
    """Operators that are not views, and the shapes of their inputs."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not func.is_view:
            shapes = [tuple(x.shape) for x in args if isinstance(x, torch.Tensor)]
            self.calls.append(SimpleNamespace(name=func._schema.name.removeprefix("aten::"), shapes=shapes))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def meta_gpu(monkeypatch):
    """PyTorch's meta device, whose operators compute shapes and layouts only, as a GPU with flash attention."""
    monkeypatch.setattr(local_window, "_has_flash_attention", lambda device: device.type == "meta")


def run_on_meta(layers, local_window, training=False, padded=False, dtype=torch.bfloat16, n=512):
    """The operators of the layers of an encoder."""
    config = LinformerConfig(
        vocab_size=100, max_positions=n, projected_dim=128, layers=layers, local_window=local_window
    )
    encoder = LinformerEncoder(config).to("meta", dtype).train(training)
    x = torch.empty(2, n, config.embed_dim, device="meta", dtype=dtype, requires_grad=training)
    tokens = torch.empty(2, n, device="meta", dtype=torch.long)
    encoder.embed = lambda *_: x
    with CountOperators() as counted, torch.set_grad_enabled(training):
        y = encoder(tokens, padding_mask=torch.empty_like(tokens, dtype=torch.bool), padded=padded)[0]
    assert y.shape == x.shape
    if training:
        y.sum().backward()
        assert all(p.grad.shape == p.shape for p in encoder.layers.parameters())
    return counted.calls


@pytest.mark.slow
def test_operators_of_a_layer(meta_gpu):
    """Each GPU operator costs time of its own, whatever its size. One layer more adds at most 45."""
    few, many = run_on_meta(1, local_window=16), run_on_meta(3, local_window=16)
    added = (len(many) - len(few)) / 2
    assert 15 < added <= 45
    # Only attention reads the projected keys and values of all heads, and nothing is made for chunks.
    readers = [call.name for call in many if (2, 12, 128, 64) in call.shapes]
    assert set(readers) == {"_scaled_dot_product_efficient_attention"} and len(readers) == 3
    assert sum(call.name == "_flash_attention_forward" for call in many) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "training, padded, dtype", itertools.product([False, True], [False, True], [torch.float16, torch.float32])
)
def test_layers_run_on_a_gpu(meta_gpu, training, padded, dtype):
    names = [call.name for call in run_on_meta(1, 16, training, padded, dtype, n=511)]
    uses_flash = dtype is torch.float16 and not padded
    assert ("_flash_attention_forward" in names) == uses_flash
    assert names.count("_scaled_dot_product_efficient_attention") == (1 if uses_flash else 2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype, bound", [(torch.float32, 1e-4), (torch.float16, 5e-3), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("padding", ["none", "right"])
@pytest.mark.parametrize("n, num_projected, reach", [(512, 128, 16), (511, 100, 7), (40, 3, 5)])
def test_on_a_gpu(dtype, bound, padding, n, num_projected, reach):
    generator = torch.Generator().manual_seed(0)
    sizes = [n, num_projected, num_projected, n, n]
    exact = [torch.randn(B, H, s, 64, generator=generator, dtype=torch.float64).requires_grad_() for s in sizes]
    bias = torch.randn(B, 1, n, num_projected, generator=generator, dtype=torch.float64)
    padding_mask = padding_of(n, padding)
    results = []
    for tensors, device, kind in ((exact, "cpu", torch.float64), ([x.detach() for x in exact], "cuda", dtype)):
        q, projected_keys, projected_values, keys, values = tensors = [
            x.to(device, kind).detach().requires_grad_() for x in tensors
        ]
        mask = None if padding_mask is None else padding_mask.to(device)
        neighbors: Neighbors = neighbors_of(q, mask, reach)
        on_device = local_window.align_mask(bias.to(device, kind))
        y = attend_locally(q, (projected_keys, projected_values), (keys, values), on_device, neighbors)
        y = y if mask is None else y.masked_fill(mask[:, None, :, None], 0)
        results.append([y, *torch.autograd.grad(y.square().sum(), tensors)])
    for expected, ours in zip(*results):
        assert (ours.double().cpu() - expected).norm() <= bound * expected.norm()
