"""E and F: their start, their scale, their columns."""

import pytest
import torch

from fairseq_linformer.modules.projection import Projection, window_average


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
    with pytest.raises(ValueError, match="k is 5; it must be between 1 and n, which is 4"):
        window_average(5, 4)


def test_columns_and_heads():
    E = Projection(6, 3, heads=2, lr_scale=0.25)
    assert E().shape == (2, 3, 6)
    assert torch.equal(E()[1], window_average(3, 6))
    matrix = torch.randn(3, 6)
    E.set_(matrix)
    assert torch.equal(E(), matrix.expand(2, 3, 6))


def test_frozen():
    assert not Projection(6, 3, frozen=True).weight.requires_grad


@pytest.mark.parametrize("mine, theirs", [(0.0625, 1.0), (1.0, 0.0625), (0.1, 0.3)])
def test_loading_keeps_the_matrix_whatever_the_scale(mine, theirs):
    saved, loaded = Projection(6, 3, lr_scale=theirs), Projection(6, 3, lr_scale=mine)
    saved.set_(torch.randn(3, 6))
    state = {key: value.clone() for key, value in saved.state_dict().items()}
    loaded.load_state_dict(state)
    torch.testing.assert_close(loaded(), saved())
    assert float(loaded.scale) == pytest.approx(mine)
    # The checkpoint is left as it was.
    assert torch.equal(state["weight"], saved.weight) and state["scale"] == saved.scale


def test_a_plain_matrix_without_a_scale_loads_as_itself():
    E = Projection(6, 3, lr_scale=0.0625)
    matrix = torch.randn(3, 6)
    E.load_state_dict({"weight": matrix})
    assert torch.equal(E(), matrix)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "Adagrad", "Adamax", "RMSprop"])
@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_the_scale_is_a_learning_rate_for_every_optimizer(optimizer, size):
    """However small the gradients, with RoBERTa's eps: E moves scale times as far, in every update."""
    options = {"eps": 1e-6} if optimizer != "SGD" else {"momentum": 0.9}
    matrices = []
    for scale in (1.0, 0.0625):
        E = Projection(6, 3, lr_scale=scale).double()
        trainer = getattr(torch.optim, optimizer)(E.parameters(), lr=0.01, **options)
        generator = torch.Generator().manual_seed(0)
        start = E().detach()
        for _ in range(3):
            trainer.zero_grad()
            # Linear in E: the gradients do not depend on how far it has moved.
            (size * torch.randn(3, 6, generator=generator, dtype=torch.float64) * E()).sum().backward()
            trainer.step()
        matrices.append(E().detach() - start)
    torch.testing.assert_close(matrices[1], 0.0625 * matrices[0], rtol=1e-9, atol=1e-15)
