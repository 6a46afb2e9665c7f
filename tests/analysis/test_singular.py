"""Known singular values: permutations, identity, uniform attention, matrices built from their values, padding."""

import pytest
import torch

from fairseq_linformer.analysis.singular import (
    cumulative_shares,
    longer_side,
    numerical_rank,
    singular_values,
    smallest_dimension,
    zero_padding,
)
from fairseq_linformer.analysis.spectrum import SpectrumSums


def reference_curve(matrix):
    """The curve from the eigenvalues of P^T P, in double precision."""
    eigenvalues = sorted(torch.linalg.eigvalsh(matrix.double().T @ matrix.double()).clamp(min=0).tolist(), reverse=True)
    values = [value**0.5 for value in eigenvalues]
    return torch.tensor([sum(values[: i + 1]) / sum(values) for i in range(len(values))], dtype=torch.float64)


@pytest.mark.parametrize(
    "matrix", [torch.eye(8), torch.eye(8)[torch.randperm(8, generator=torch.Generator().manual_seed(3))]]
)
def test_identity_and_permutations_have_a_straight_curve(matrix):
    values = singular_values(matrix[None, None])
    torch.testing.assert_close(cumulative_shares(values)[0, 0], torch.arange(1, 9).double() / 8)
    assert numerical_rank(values, 8).item() == 8


def test_uniform_and_one_hot_attention_have_rank_one():
    for matrix in (torch.full((8, 8), 1 / 8), torch.eye(8)[torch.zeros(8, dtype=torch.long)]):
        values = singular_values(matrix[None, None])
        torch.testing.assert_close(cumulative_shares(values)[0, 0], torch.ones(8).double(), rtol=0, atol=1e-6)
        assert numerical_rank(values, 8).item() == 1


def test_matrix_with_known_singular_values():
    generator = torch.Generator().manual_seed(0)
    known = torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0])
    U, V = (torch.linalg.qr(torch.randn(size, 5, generator=generator)).Q for size in (9, 5))
    values = singular_values((U * known @ V.T)[None, None])[0, 0]
    torch.testing.assert_close(values, known, rtol=0, atol=1e-5)
    torch.testing.assert_close(
        cumulative_shares(values), torch.tensor([0.4, 0.7, 0.9, 1.0, 1.0]).double(), rtol=0, atol=1e-5
    )
    torch.testing.assert_close(
        cumulative_shares(values**2), torch.tensor([16, 25, 29, 30, 30]).double() / 30, rtol=0, atol=1e-5
    )
    assert numerical_rank(values, 9).item() == 4
    for share, k in ((0.1, 1), (0.4 - 1e-4, 1), (0.5, 2), (0.89, 3), (0.999, 4)):
        assert smallest_dimension(cumulative_shares(values), share).item() == k


def test_random_attention_agrees_with_the_reference():
    generator = torch.Generator().manual_seed(1)
    maps = torch.softmax(3 * torch.randn(3, 2, 12, 12, generator=generator), -1)
    curves = cumulative_shares(singular_values(maps))
    for b in range(3):
        for h in range(2):
            torch.testing.assert_close(curves[b, h], reference_curve(maps[b, h]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("columns, are_positions", [(10, True), (4, False), (10, False)])
def test_padding_does_not_count(columns, are_positions):
    """A Linformer's columns are projected positions, never padding, even if there are as many as rows (10)."""
    generator = torch.Generator().manual_seed(2)
    maps = torch.rand(2, 3, 10, columns, generator=generator)
    padding = torch.arange(10) >= torch.tensor([10, 6]).unsqueeze(1)
    block = maps[1, :, :6, : 6 if are_positions else columns]
    masked = zero_padding(maps, padding, are_positions)
    values = singular_values(masked)
    expected = torch.zeros(3, columns)
    expected[:, : min(block.shape[-2:])] = torch.linalg.svdvals(block)
    torch.testing.assert_close(values[1], expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(values[0], torch.linalg.svdvals(maps[0]), rtol=0, atol=1e-5)
    assert longer_side(masked).tolist() == [[10] * 3, [max(block.shape[-2:])] * 3]
    maps[1, :, 6:] = 1e6  # the content of padding is arbitrary
    torch.testing.assert_close(singular_values(zero_padding(maps, padding, are_positions)), values)


def test_rank_threshold_uses_the_block_of_real_tokens():
    """The threshold grows with the longer side: 3e-7 is above 2 and below 8 times float32's epsilon of 1.2e-7."""
    values = torch.tensor([1.0, 3e-7])
    assert numerical_rank(values, 2).item() == 2 and numerical_rank(values, 8).item() == 1
    map_ = torch.zeros(1, 1, 8, 8)
    map_[0, 0, 0, 0], map_[0, 0, 1, 1] = values
    unpadded, padded = SpectrumSums.empty(1, 1, 8), SpectrumSums.empty(1, 1, 8)
    unpadded.add(0, map_[..., :2, :2])
    padded.add(0, zero_padding(map_, torch.arange(8).unsqueeze(0) >= 2))
    assert unpadded.ranks.item() == padded.ranks.item() == 2
    # A Linformer's columns that the sentence does not reach are zero.
    padded = SpectrumSums.empty(1, 1, 8)
    padded.add(0, zero_padding(map_, torch.arange(8).unsqueeze(0) >= 2, columns_are_positions=False))
    assert padded.ranks.item() == 2


def test_curves_that_differ_in_double_precision_are_rejected():
    maps = torch.softmax(torch.randn(2, 1, 5, 5, generator=torch.Generator().manual_seed(6)), -1)
    sums = SpectrumSums.empty(1, 1, 5)
    curve = sums.add(0, maps)
    sums.check(maps, curve)
    assert 0 < sums.difference < 1e-5
    curve[1, 0, 2] += 2e-3
    with pytest.raises(ValueError, match="2.0e-03"):
        sums.check(maps, curve)


def test_sums_of_a_batch_equal_those_of_single_sentences():
    """For sentences of different lengths, and against a loop."""
    generator = torch.Generator().manual_seed(4)
    maps = torch.softmax(torch.randn(3, 2, 6, 6, generator=generator), -1)
    lengths = [6, 4, 6]
    padding = torch.arange(6) >= torch.tensor(lengths).unsqueeze(1)
    batched, single = SpectrumSums.empty(1, 2, 8), SpectrumSums.empty(1, 2, 8)
    batched.add(0, zero_padding(maps, padding))
    expected = torch.ones(3, 2, 8).double()
    for b, length in enumerate(lengths):
        single.add(0, zero_padding(maps[b : b + 1], padding[b : b + 1]))
        for h in range(2):
            expected[b, h, :length] = reference_curve(maps[b, h, :length, :length])
    for sums in (batched, single):
        torch.testing.assert_close(torch.from_numpy(sums.curve[0]), expected.sum(0), rtol=0, atol=1e-5)
        torch.testing.assert_close(torch.from_numpy(sums.curve_squares[0]), (expected**2).sum(0), rtol=0, atol=1e-5)
        assert (
            sums.ranks.tolist() == [[16, 16]]
            and sums.rank_least.tolist() == [[4, 4]]
            and sums.rank_most.tolist() == [[6, 6]]
        )
        assert sums.values == 6


def test_zero_and_nan_maps_are_rejected():
    for maps, message in ((torch.zeros(1, 1, 3, 3), "all zero"), (torch.full((1, 1, 3, 3), float("nan")), "NaN")):
        with pytest.raises(ValueError, match=message):
            cumulative_shares(singular_values(maps))
    with pytest.raises(ValueError, match="share must .* 1"):
        smallest_dimension(torch.ones(3), 1.0)
