"""Attention to neighbors: merged from two parts, with all weights in memory, and with the kernels of a GPU."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinformerEncoder, fused_attention, local_window
from fairseq_linformer.modules.local_window import attend_locally, find_bounds, find_neighbors, is_at_end

from .slow_kernels import use_slow_kernels

B, H, D = 2, 2, 3
SIZES = [(5, 2, 1), (32, 3, 4), (65, 3, 4), (150, 200, 33), (130, 4, 129)]
"""n, k' and w: one chunk, or several, with and without a rest; windows within a chunk, and over several."""


def random_inputs(n, num_projected, dtype=torch.float64, head_dim=D):
    """Laid out as linear layers do: the heads of a position lie in a row."""
    generator = torch.Generator().manual_seed(n)

    def random(length):
        rows = torch.randn(B, length, H, head_dim, generator=generator, dtype=dtype)
        return rows.transpose(1, 2).requires_grad_()

    q, keys, values = (random(n) for _ in range(3))
    projected = random(num_projected), random(num_projected)
    bias = torch.randn(B, 1, n, num_projected, generator=generator, dtype=dtype)
    bias[:, :, :1] = fused_attention.masked_score(dtype)  # a query whose projected keys are all masked
    return [q, *projected, keys, values], bias


def padding_of(n, kind):
    if kind == "none":
        return None
    positions = torch.arange(n)
    second = {
        "left": positions < n // 3,
        "right": positions >= n - n // 3,
        "inside": (positions >= n // 3) & (positions < n // 2),
        "whole": positions >= 0,
    }[kind]
    return torch.stack([torch.zeros(n, dtype=torch.bool), second])


def neighbors_of(q, padding_mask, reach, dropout=0.0):
    x = q.transpose(1, 2).flatten(2)
    return find_neighbors(x, padding_mask, reach, q.size(-1), q.dtype, dropout)


def attend(tensors, bias, padding_mask, reach, is_fused=True, dropout=0.0):
    q, projected_keys, projected_values, keys, values = tensors
    neighbors = neighbors_of(q, padding_mask, reach, dropout=0.0 if is_fused else 0.1)
    assert neighbors.is_fused == is_fused
    return attend_locally(q, (projected_keys, projected_values), (keys, values), bias, neighbors, dropout)


def reference(tensors, bias, padding_mask, reach):
    """One softmax over all keys, with the n x n scores in memory."""
    q, projected_keys, projected_values, keys, values = tensors
    positions = torch.arange(q.size(2))
    is_masked = ((positions[:, None] - positions).abs() > reach).expand(len(q), 1, -1, -1)
    if padding_mask is not None:
        is_masked = is_masked | padding_mask[:, None, None]
    far = q @ projected_keys.transpose(-2, -1) / math.sqrt(q.size(-1)) + bias
    near = (q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(is_masked, -math.inf)
    return torch.softmax(torch.cat([far, near], -1), -1) @ torch.cat([projected_values, values], -2)


def assert_equals_reference(tensors, bias, padding_mask, reach, is_fused=True):
    is_real = tensors[0].new_ones(1, 1) if padding_mask is None else ~padding_mask
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


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_large_scores(scale):
    """A masked key is not attended to, however large the scores of the others are."""
    (q, *others), bias = random_inputs(70, 4)
    assert_equals_reference([(scale * q).detach().requires_grad_(), *others], bias, padding_of(70, "right"), 3)


@pytest.mark.slow
def test_gradients_with_dropout_are_those_of_the_same_dropped_weights():
    (q, projected_keys, projected_values, keys, values), bias = random_inputs(7, 2)
    neighbors = neighbors_of(q, None, 2, dropout=0.4)

    def run(q, projected_keys, projected_values, keys, values):
        torch.manual_seed(0)
        return attend_locally(q, (projected_keys, projected_values), (keys, values), bias, neighbors, 0.4)

    tensors = (q, projected_keys, projected_values, keys, values)
    assert not torch.equal(run(*tensors), attend(tensors, bias, None, 2))
    assert torch.autograd.gradcheck(run, tensors, fast_mode=True)


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


# ---- on a GPU: the kernels, from memory laid out as they assume


@pytest.mark.parametrize("has_flash", [True, False])
@pytest.mark.parametrize("padding", ["none", "right", "left", "inside", "whole"])
@pytest.mark.parametrize("n, num_projected, reach", [*SIZES, (1, 1, 1), (64, 16, 2), (100, 24, 16), (40, 5, 99)])
def test_kernels_of_a_gpu_are_merged_to_one_softmax(monkeypatch, n, num_projected, reach, padding, has_flash):
    kernels = use_slow_kernels(monkeypatch, has_flash)
    tensors, bias = random_inputs(n, num_projected, head_dim=8)
    padding_mask = padding_of(n, padding)
    assert_equals_reference(tensors, fused_attention.align_mask(bias), padding_mask, reach)
    is_padded_at_end = padding_mask is not None and is_at_end(padding_mask)
    uses_flash = has_flash and (padding_mask is None or is_padded_at_end)
    assert len(kernels.queries) == len(kernels.backward_queries) == (1 if uses_flash else 2)
    assert len(kernels.bounds) == uses_flash and all((x is not None) == is_padded_at_end for x in kernels.bounds)


@pytest.mark.parametrize("has_flash", [True, False])
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("n", [100, 128])
def test_other_layouts_of_queries_and_of_saved_tensors(monkeypatch, n, padding, has_flash):
    """The output of flash attention is laid out like the queries; ``save_on_cpu`` drops strides."""
    use_slow_kernels(monkeypatch, has_flash)
    tensors, bias = random_inputs(n, 5, head_dim=8)
    tensors = [x.detach().contiguous().requires_grad_() for x in tensors]
    with torch.autograd.graph.saved_tensors_hooks(lambda x: torch.empty(x.shape, dtype=x.dtype).copy_(x), lambda x: x):
        assert_equals_reference(tensors, fused_attention.align_mask(bias), padding_of(n, padding), 3)


@pytest.mark.parametrize("n", [40, 64, 100])
def test_one_sentence_in_chunks(monkeypatch, n):
    """A view of one sentence can have any stride of sentences."""
    use_slow_kernels(monkeypatch, has_flash=False)
    tensors, bias = random_inputs(n, 5, head_dim=8)
    tensors = [x[:1].detach().requires_grad_() for x in tensors]
    assert_equals_reference(tensors, fused_attention.align_mask(bias[:1]), None, 3)


@pytest.mark.parametrize("rows, sentences", [(1, 1), (1, B), (150, 1), (150, B)])
@pytest.mark.parametrize("num_projected", [16, 5])
def test_segments_of_the_queries(monkeypatch, rows, sentences, num_projected):
    """150 queries in segments of at most 70 are 3 of 64, the last of which is padded; 64 are one."""
    monkeypatch.setattr(fused_attention, "SEGMENT", 70)
    kernels = use_slow_kernels(monkeypatch, has_flash=True)
    tensors, bias = random_inputs(150, num_projected, head_dim=8)
    mask = fused_attention.align_mask(bias[:sentences, :, :rows])
    assert_equals_reference(tensors, mask, padding_of(150, "right"), 3)
    assert kernels.queries == kernels.backward_queries == [(3 * B, H, 64, 8)]
    attend([x[:, :, :64] for x in tensors], fused_attention.align_mask(bias[:, :, :64]), None, 3)
    assert kernels.queries[-1] == (B, H, 64, 8)


@pytest.mark.parametrize("has_flash", [True, False])
@pytest.mark.parametrize("padding", ["none", "right"])
def test_dropped_weights_are_the_same_in_the_backward_pass(monkeypatch, padding, has_flash):
    """With the same seed the output is a smooth function, whose derivative is compared with differences."""
    monkeypatch.setattr(fused_attention, "SEGMENT", 70)
    use_slow_kernels(monkeypatch, has_flash)
    tensors, bias = random_inputs(100, 5, head_dim=8)
    padding_mask = padding_of(100, padding)

    def run(*tensors):
        torch.manual_seed(0)
        return attend(tensors, fused_attention.align_mask(bias), padding_mask, 3, dropout=0.3)

    assert not torch.equal(run(*tensors), attend(tensors, fused_attention.align_mask(bias), padding_mask, 3))
    assert torch.autograd.gradcheck(run, tensors, fast_mode=True)


def test_bounds_of_padded_sentences():
    padding_mask = torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]]).bool()
    assert is_at_end(padding_mask)
    assert find_bounds(padding_mask).tolist() == [0, 3, 4, 8, 8, 8, 12]
    assert not is_at_end(torch.tensor([[0, 0], [1, 0]]).bool()) and is_at_end(torch.tensor([[1], [0]]).bool())


@pytest.mark.parametrize(
    "device, dtype, head_dim, dropout, expected",
    [
        ("cuda", torch.float16, 64, 0.1, (True, True)),
        ("cuda", torch.bfloat16, 192, 0.0, (True, True)),
        ("cuda", torch.float16, 256, 0.0, (True, False)),
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
    for function in (fused_attention._has_flash_attention, fused_attention._is_ampere):
        monkeypatch.setattr(fused_attention, function.__name__, function.__wrapped__)
    device = torch.device(device)
    is_supported = fused_attention.is_supported(device, dtype, head_dim, dropout)
    has_windows = is_supported and fused_attention.supports_windows(device, dtype, head_dim)
    is_old = capability < (8, 0)
    assert is_supported == (expected[0] and not (is_old and dtype is torch.bfloat16))
    assert has_windows == (expected[1] and not is_old)


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
    monkeypatch.setattr(fused_attention, "_has_flash_attention", lambda device: device.type == "meta")


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
@pytest.mark.parametrize("padding, dtype", itertools.product(["none", "right", "left"], [torch.float16, torch.float32]))
def test_layers_run_on_a_gpu(meta_gpu, monkeypatch, padding, dtype):
    monkeypatch.setattr(local_window, "is_at_end", lambda padding_mask: padding == "right")  # has no numbers to read
    names = [call.name for call in run_on_meta(1, 16, True, padding != "none", dtype, n=511)]
    uses_flash = dtype is torch.float16 and padding != "left"
    assert ("_flash_attention_forward" in names) == uses_flash
    assert names.count("_scaled_dot_product_efficient_attention") == (1 if uses_flash else 2)
