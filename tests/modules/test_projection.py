"""Projections: their start, their scale, their learning, and loading them."""

import pytest
import torch

from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinearProjection
from fairseq_linformer.modules.encoder_layer import build_projection
from fairseq_linformer.modules.linear import initial_matrix
from fairseq_linformer.modules.pooling import MeanPool
from fairseq_linformer.modules.projection import default_lr_scale
from fairseq_linformer.modules.windows import NO_WINDOWS, Layout, Windows


def trained(**options):
    """A projection that has gone some way from where it started."""
    E = LinearProjection(6, 3, **options)
    with torch.no_grad():
        E.delta.add_(torch.randn(3, 6))
    return E


@pytest.mark.parametrize("mine, theirs", [(0.0625, 1.0), (1.0, 0.0625), (0.1, 0.3), (0.1, 0.1)])
def test_loading_keeps_the_matrix_whatever_the_scale(mine, theirs):
    saved, loaded = trained(lr_scale=theirs), LinearProjection(6, 3, lr_scale=mine)
    state = {key: value.clone() for key, value in saved.state_dict().items()}
    loaded.load_state_dict(state)
    torch.testing.assert_close(loaded(), saved())
    assert float(loaded.scale) == pytest.approx(mine)
    # The checkpoint is left as it was.
    assert all(torch.equal(value, saved.state_dict()[key]) for key, value in state.items())
    if mine == theirs:  # every bit is as it was: training goes on as if it had not stopped
        assert all(torch.equal(value, loaded.state_dict()[key]) for key, value in state.items())


def test_a_plain_matrix_loads_as_itself_and_all_its_rows_are_attended_to():
    E = LinearProjection(6, 3, lr_scale=0.0625)
    assert E.layout.windows == Windows(3, 6, 0, 1) and E.num_reached(2) == 2
    matrix = torch.randn(3, 6)
    E.load_state_dict({"weight": matrix, "windows": torch.tensor(NO_WINDOWS)})
    assert torch.equal(E(), matrix)
    assert E.layout == Layout(None, False, False, False) and E.num_reached(2) == 3
    # And that is remembered.
    again = LinearProjection(6, 3)
    again.load_state_dict(E.state_dict())
    assert again.layout == E.layout


@pytest.mark.parametrize("init, std", [("normal", 0.02), ("jl", 50**-0.5), ("xavier", (1 / (50 + 400)) ** 0.5)])
def test_starts(init, std):
    matrix = initial_matrix(init, 50, 400)
    assert matrix.std().item() == pytest.approx(std, rel=0.05) and abs(matrix.mean()) < std / 20
    assert LinearProjection(400, 50, init=init).layout.windows is None


@pytest.mark.parametrize("kind", ["linear", "mean-pool", "max-pool", "conv"])
def test_a_checkpoint_of_version_02_keeps_its_windows(kind):
    """It has no ``window_options``: no separate first position, missing tokens are zero, sizes are not counted."""
    E = build_projection(LinformerConfig(10, 6, 3, projection=kind, layers=1, attention_heads=2, embed_dim=4))
    assert E.layout == Layout(Windows(3, 6, 0, 1), True, E.layout.overlaps, True)
    old = {key: value for key, value in E.state_dict().items() if not key.startswith("window")}
    if kind != "linear":
        old[kind.replace("-", "_")] = torch.empty(3, 0)
    else:
        old = {"weight": Windows(3, 6).average(), "windows": torch.tensor(0.0)}
    E.load_state_dict(old)
    assert E.layout == Layout(Windows(3, 6), False, False, False)
    assert E.window_options.tolist() == [0, 0, 0]


def test_the_scale_is_a_learning_rate():
    """With momentum and weight decay E moves scale times as far, in every update."""
    moved = []
    for scale in (1.0, 0.0625):
        E = LinearProjection(6, 3, lr_scale=scale).double()
        trainer = torch.optim.SGD(E.parameters(), 0.01, momentum=0.9, weight_decay=0.1)
        generator = torch.Generator().manual_seed(0)
        start = E().detach().clone()
        for _ in range(3):
            trainer.zero_grad()
            # Linear in E: the gradients do not depend on how far it has moved.
            (torch.randn(3, 6, generator=generator, dtype=torch.float64) * E()).sum().backward()
            trainer.step()
        moved.append(E().detach() - start)
    assert moved[0].abs().max() > 0
    torch.testing.assert_close(moved[1], 0.0625 * moved[0], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("n, scale", [(8, 1), (16, 1), (64, 1 / 4), (512, 1 / 32), (4096, 1 / 256)])
def test_the_rate_falls_with_the_fan_in(n, scale):
    assert default_lr_scale(n) == scale
    E = build_projection(LinformerConfig(10, n, 4, layers=1, attention_heads=2, embed_dim=8))
    assert E.scale == scale
    conv = build_projection(LinformerConfig(10, n, 4, projection="conv", layers=1, attention_heads=2, embed_dim=8))
    assert conv.scale == default_lr_scale(n // 4)


@pytest.mark.parametrize("dtype, most", [(torch.float16, 0.005), (torch.bfloat16, 0.03)])
def test_half_precision_keeps_what_a_slow_matrix_learned(dtype, most):
    """E differs from its start by 1/256 of delta; compared with double precision of the same numbers."""
    E = LinearProjection(4096, 256, lr_scale=1 / 256)
    with torch.no_grad():
        E.delta += 0.1 * torch.randn_like(E.delta)
        E.to(dtype)
        learned = E.scale.double() * E.delta.double()
        found = E().double() - E.start.double()
        mostly = E.start == 0  # where an average stands, E is rounded to the precision of the average
    assert (found - learned)[mostly].norm() / learned[mostly].norm() < most
    E().sum().backward()
    assert torch.equal(E.delta.grad, torch.ones_like(E.delta))


@pytest.mark.parametrize("sharing", ["none", "headwise"])
def test_parameters_in_half_precision_beside_buffers_in_single_precision(sharing):
    """As FSDP has them."""
    E = build_projection(LinformerConfig(10, 16, 4, layers=1, attention_heads=2, embed_dim=8, sharing=sharing))
    E.delta.data = E.delta.data.bfloat16()
    with torch.no_grad():
        assert E().dtype == torch.bfloat16
    assert E(8).dtype == torch.bfloat16


def test_sums_of_long_windows_exceed_half_precision():
    pool, x = MeanPool(2048, 2), torch.full((1, 2048, 1), 100.0).half()
    assert pool.reduce(x, None, None, pool.row_scale(x, None)).eq(100).all()


@pytest.mark.parametrize("n, k", [(512, 2), (728, 4)])
def test_half_precision_has_finite_scales_where_a_window_barely_reaches(n, k):
    """One sentence of each length in a batch: of some, a single token is at the tail of a window, or beside it. Then
    the window is masked, and has no scale."""
    E = build_projection(LinformerConfig(10, n, k, layers=1, attention_heads=2, embed_dim=8)).half()
    assert E.layout.overlaps
    padding_mask = torch.ones(n, n, dtype=torch.bool).triu(1)
    scale = E.row_scale(torch.zeros(n, n, 8).half(), padding_mask)
    assert scale.isfinite().all()
    assert scale[E.layout.windows.counts(n, padding_mask) == 0].eq(1).all()


def test_the_authors_matrix_is_all_delta():
    """At the full rate and without windows; weight decay pulls it to zero, as in their code."""
    E = LinearProjection(6, 3, init="normal")
    assert E.start.eq(0).all() and E.scale == 1 and torch.equal(E(), E.delta)
    slow = LinearProjection(6, 3, init="normal", lr_scale=0.25)
    assert slow.delta.eq(0).all() and torch.equal(slow(), slow.start)


def test_versions_before_03():
    """They stored start, scale and weight; delta is weight - start."""
    matrix, start = torch.randn(3, 6), torch.randn(3, 6)
    E = LinearProjection(6, 3, lr_scale=0.25)
    old = {"weight": matrix, "start": start, "scale": torch.tensor(0.25), "windows": torch.tensor(0.0)}
    E.load_state_dict(dict(old))
    assert torch.equal(E.delta, matrix - start) and torch.equal(E.start, start)
    torch.testing.assert_close(E(), start + 0.25 * (matrix - start))
    for options in ({"lr_scale": 0.5}, {"frozen": True}):
        other = LinearProjection(6, 3, **options)
        other.load_state_dict(dict(old))
        torch.testing.assert_close(other(), E())
