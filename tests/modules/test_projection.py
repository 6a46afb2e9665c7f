"""E and F: their start, their scale, their columns, their windows."""

from dataclasses import replace

import pytest
import torch
from fairseq.optim.adafactor import Adafactor

from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import Convolution, LinearProjection, MaxPool, MeanPool
from fairseq_linformer.modules.encoder_layer import projection_of
from fairseq_linformer.modules.projection import starting_matrix
from fairseq_linformer.modules.rate import default_lr_scale
from fairseq_linformer.modules.windows import (
    inside_windows,
    split_windows,
    window_average,
    window_mask,
    window_triangle,
    windows_reached,
)


def test_window_averages_by_hand():
    expected = torch.tensor([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]) / 2
    assert torch.equal(window_average(3, 6), expected)
    # Not a multiple: windows of one and of two positions.
    expected = torch.tensor([[1, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0, 0.5, 0.5]])
    assert torch.equal(window_average(3, 5), expected)
    assert torch.equal(window_average(4, 4), torch.eye(4))


@pytest.mark.parametrize("n", range(1, 12))
def test_every_position_is_in_one_window(n):
    for k in range(1, n + 1):
        matrix = window_average(k, n)
        assert torch.equal((matrix > 0).sum(0), torch.ones(n, dtype=torch.long))
        torch.testing.assert_close(matrix.sum(1), torch.ones(k))


def test_more_rows_than_positions_are_refused():
    with pytest.raises(ValueError, match="k is 5"):
        window_average(5, 4)


def test_columns_and_heads():
    E = LinearProjection(6, 3, heads=2, lr_scale=0.25)
    assert E().shape == (2, 3, 6)
    assert torch.equal(E()[1], window_average(3, 6))
    matrix = torch.randn(3, 6)
    E.set_(matrix)
    assert torch.equal(E(), matrix.expand(2, 3, 6))


def test_frozen():
    assert not LinearProjection(6, 3, frozen=True).weight.requires_grad


def trained(**options):
    """A projection that has gone some way from where it started."""
    E = LinearProjection(6, 3, **options)
    with torch.no_grad():
        E.weight.add_(torch.randn(3, 6))
    return E


@pytest.mark.parametrize("mine, theirs", [(0.0625, 1.0), (1.0, 0.0625), (0.1, 0.3), (0.1, 0.1)])
def test_loading_keeps_the_matrix_whatever_the_scale(mine, theirs):
    saved, loaded = trained(lr_scale=theirs), LinearProjection(6, 3, lr_scale=mine)
    state = {key: value.clone() for key, value in saved.state_dict().items()}
    loaded.load_state_dict(state)
    torch.testing.assert_close(loaded(), saved())
    assert loaded.lr_scale == mine and (mine == 1 or float(loaded.scale) == pytest.approx(mine))
    # The checkpoint is left as it was.
    assert all(torch.equal(value, saved.state_dict()[key]) for key, value in state.items())
    if mine == theirs:  # every bit is as it was: training goes on as if it had not stopped
        assert all(torch.equal(value, loaded.state_dict()[key]) for key, value in state.items())


def test_a_frozen_projection_loads_a_learnt_one_and_the_other_way_round():
    learnt, frozen = trained(lr_scale=0.0625), LinearProjection(6, 3, frozen=True)
    frozen.load_state_dict(learnt.state_dict())
    torch.testing.assert_close(frozen(), learnt())
    again = LinearProjection(6, 3, lr_scale=0.0625)
    again.load_state_dict(frozen.state_dict())
    assert torch.equal(again(), frozen())


def test_a_plain_matrix_loads_as_itself_and_all_its_rows_are_attended_to():
    E = LinearProjection(6, 3, lr_scale=0.0625)
    assert E.offset == 0 and E.reached(2) == 1
    matrix = torch.randn(3, 6)
    E.load_state_dict({"weight": matrix})
    assert torch.equal(E(), matrix)
    assert E.offset is None and E.reached(2) == 3
    # And that is remembered.
    again = LinearProjection(6, 3)
    again.load_state_dict(E.state_dict())
    assert again.offset is None


@pytest.mark.parametrize("init, std", [("normal", 0.02), ("jl", 50**-0.5), ("xavier", (1 / (50 + 400)) ** 0.5)])
def test_starts(init, std):
    matrix = starting_matrix(init, 50, 400)
    assert matrix.std().item() == pytest.approx(std, rel=0.05) and abs(matrix.mean()) < std / 20
    assert LinearProjection(400, 50, init=init).offset is None


def test_a_convolution_that_averages_is_mean_pooling_where_windows_are_whole():
    x = torch.randn(2, 12, 8)
    conv = Convolution(12, 4, channels=4)
    torch.testing.assert_close(conv.reduce(x, conv()), MeanPool(12, 4).reduce(x))
    assert conv().shape == (4, 3) and Convolution(12, 5, 4, heads=2)().shape == (2, 4, 3)


def test_pools_by_hand():
    x = torch.tensor([[1.0, 5.0, -2.0, -4.0, -6.0]]).unsqueeze(-1)  # windows of an input of up to 6: two positions each
    assert MeanPool(6, 3).reduce(x).flatten().tolist() == [3, -3, -6]
    assert MaxPool(6, 3).reduce(x).flatten().tolist() == [5, -2, -6]
    padding = torch.tensor([[False, False, False, True, True]])
    x = x.masked_fill(padding.unsqueeze(-1), 0)
    assert MeanPool(6, 3).reduce(x, None, padding).flatten().tolist() == [3, -2, 0]
    assert MaxPool(6, 3).reduce(x, None, padding).flatten().tolist() == [5, -2, 0]
    assert window_mask(3, 6, 5, padding).flatten().tolist() == [True, True, False]


@pytest.mark.parametrize("N", range(1, 12))
def test_windows_by_counting(N):
    """split_windows, inside_windows and windows_reached against the definition, for every k and n."""
    for k in range(1, N + 1):
        windows = [range(i * N // k, (i + 1) * N // k) for i in range(k)]
        for n in range(1, N + 1):
            held = [[p for p in window if p < n] for window in windows]
            held = [window for window in held if window]
            assert windows_reached(k, N, n) == len(held)
            inside = inside_windows(k, N, n, None)[0]
            split = split_windows(1.0 + torch.arange(n).view(1, n, 1), k, N)[0, ..., 0]
            assert [(row[keep] - 1).tolist() for row, keep in zip(split, inside)] == held
            assert (split[~inside] == 0).all()


def lamb(parameters, lr, eps):
    """The step of LAMB (You et al. 2020) without momentum: as long as lr times the parameter."""

    class Lamb(torch.optim.SGD):
        def step(self):
            for p in parameters:
                update = p.grad / (p.grad.abs() + eps)
                p.data -= lr * p.data.norm() / update.norm() * update

    return Lamb(parameters, lr)


OPTIMIZERS = {
    "SGD": lambda p, lr, eps: torch.optim.SGD(p, lr, momentum=0.9, weight_decay=0.1),
    "Adafactor, scale_parameter": lambda p, lr, eps: Adafactor(p, lr, relative_step=False, scale_parameter=True),
    "LAMB": lamb,
} | {
    name: lambda p, lr, eps, name=name: getattr(torch.optim, name)(p, lr, eps=eps, weight_decay=0.1)
    for name in ("Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "NAdam", "RMSprop")
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_the_scale_is_a_learning_rate_for_every_optimizer(optimizer, size):
    """However small the gradients, with RoBERTa's eps and weight decay: E moves scale times as far, in
    every update."""
    moved = []
    for scale in (1.0, 0.0625):
        E = LinearProjection(6, 3, lr_scale=scale).double()
        trainer = OPTIMIZERS[optimizer](list(E.parameters()), 0.01, 1e-6)
        generator = torch.Generator().manual_seed(0)
        start = E().detach().clone()
        for _ in range(3):
            trainer.zero_grad()
            # Linear in E: the gradients do not depend on how far it has moved.
            (size * torch.randn(3, 6, generator=generator, dtype=torch.float64) * E()).sum().backward()
            trainer.step()
        moved.append(E().detach() - start)
    assert moved[0].abs().max() > 0
    torch.testing.assert_close(moved[1], 0.0625 * moved[0], rtol=1e-9, atol=1e-15)


def test_windows_that_overlap_by_hand():
    assert window_triangle(3, 3).tolist() == torch.eye(3).tolist()
    inner = window_triangle(4, 8)[1]
    torch.testing.assert_close(inner, torch.tensor([0, 1, 3, 3, 1, 0, 0, 0]) / 8)
    assert window_triangle(4, 8).sum(1).tolist() == pytest.approx([1] * 4)


def test_windows_that_begin_later():
    assert (window_average(3, 6, 1) > 0).tolist() == [
        [True, True, True, False, False, False],
        [False, False, False, True, True, False],
        [False, False, False, False, False, True],
    ]
    E = LinearProjection(6, 3, delay=0.5)
    assert [E.reached(n) for n in range(1, 7)] == [1, 1, 1, 2, 2, 3]
    padding = torch.tensor([[True, True, True, False, True]])
    assert E.mask(5, padding).flatten().tolist() == [False, True]
    assert torch.equal(E(), window_average(3, 6, 1))
    with pytest.raises(ValueError, match="offset is 2"):
        window_average(3, 6, 2)


@pytest.mark.parametrize("sharing", ["none", "headwise", "key-value"])
def test_staggered(sharing):
    """Every second layer's windows begin half a window later; keys overlap where values are apart."""
    config = LinformerConfig(10, 16, 4, sharing, projection_init="staggered", layers=2, attention_heads=2, embed_dim=8)
    for layer, offset in enumerate((0, 2)):
        E, F = projection_of(config, layer), projection_of(config, layer, "F")
        assert (E.offset, F.offset) == (offset, offset)
        keys = window_triangle(4, 16, offset) if sharing != "key-value" else window_average(4, 16, offset)
        assert torch.equal(E(), keys.expand_as(E())) and torch.equal(F(), window_average(4, 16, offset).expand_as(F()))
        again = projection_of(replace(config, projection_init="average"), layer)
        again.load_state_dict(E.state_dict())
        assert again.offset == offset


@pytest.mark.parametrize("n, scale", [(8, 1), (16, 1), (64, 1 / 4), (512, 1 / 32), (4096, 1 / 256)])
def test_the_rate_falls_with_the_fan_in(n, scale):
    assert default_lr_scale(n) == scale
    E = projection_of(LinformerConfig(10, n, 4, layers=1, attention_heads=2, embed_dim=8))
    assert E.lr_scale == scale
    conv = projection_of(LinformerConfig(10, n, 4, projection="conv", layers=1, attention_heads=2, embed_dim=8))
    assert conv.lr_scale == default_lr_scale(n // 4)


@pytest.mark.parametrize("dtype, most", [(torch.float16, 0.005), (torch.bfloat16, 0.03)])
def test_half_precision_keeps_what_a_slow_matrix_learnt(dtype, most):
    """Of the start a deviation of 1/256 of what the weight went; measured against double precision of the same three numbers."""
    E = LinearProjection(4096, 256, lr_scale=1 / 256)
    with torch.no_grad():
        E.weight += 0.1 * torch.randn_like(E.weight)
        E.to(dtype)
        learnt = E.scale.double() * (E.weight.double() - E.start.double())
        found = E().double() - E.start.double()
        mostly = E.start == 0  # where an average stands, E is rounded to the precision of the average
    assert (found - learnt)[mostly].norm() / learnt[mostly].norm() < most
    E().sum().backward()
    assert torch.equal(E.weight.grad, torch.ones_like(E.weight))
