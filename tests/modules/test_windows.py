"""Windows against their definition, and those of each initialization."""

import itertools
from dataclasses import replace

import pytest
import torch

from fairseq_linformer.config import SHARING, LinformerConfig
from fairseq_linformer.modules.encoder_layer import build_projection
from fairseq_linformer.modules.reference import windows
from fairseq_linformer.modules.windows import Layout, Windows, round_singletons


def test_window_averages_by_hand():
    # Windows of one and of two positions.
    expected = torch.tensor([[1, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0, 0.5, 0.5]])
    assert torch.equal(Windows(3, 5).average(), expected)
    # The first position alone: regular windows follow, and the last one takes the rest.
    assert Windows(3, 6, 0, 1).edges().tolist() == [0, 1, 3, 6]
    assert Windows(3, 6, 1, 1).edges().tolist() == [0, 1, 4, 6]
    # The first three positions alone: two windows divide the other seven, the shorter one first.
    assert Windows(5, 10, 0, 3).edges().tolist() == [0, 1, 2, 3, 6, 10]
    assert Windows(5, 10, 2, 3).edges().tolist() == [0, 1, 2, 3, 8, 10]
    for singletons in range(5):
        assert torch.equal(Windows(4, 4, 0, singletons).average(), torch.eye(4))


@pytest.mark.parametrize("N", range(1, 8))
def test_windows_by_counting(N):
    """Against the definition, for every k, n, offset and padding."""
    every = itertools.product(range(1, N + 1), (0, 1, 2, N // 2), range(N))
    for k, singletons, offset in {(k, p, offset) for k, p, offset in every if offset < Windows(k, N, 0, p).shortest}:
        layout, expected = Windows(k, N, offset, singletons), windows(k, N, offset, singletons)
        assert layout.edges().diff().tolist() == [len(window) for window in expected]
        assert torch.equal((layout.average() > 0).sum(0), torch.ones(N, dtype=torch.long))
        torch.testing.assert_close(layout.average().sum(1), torch.ones(k))
        for n in range(1, N + 1):
            reached = [window for window in expected if window[0] < n]
            assert layout.num_reached(n) == len(reached)
            padding = torch.rand(2, n) < 0.4
            real = [[p for p in range(n) if not mask[p]] for mask in padding]
            counts = [[len({*window} & {*tokens}) for window in reached] for tokens in real]
            assert layout.counts(n, padding).tolist() == counts
            assert layout.counts(n, None).tolist() == [[len({*window} & {*range(n)}) for window in reached]]
            for reach in (1, 3):
                outside = layout.counts_outside(n, padding, reach, torch.arange(n).unsqueeze(0))
                far = [[{p for p in tokens if abs(p - t) > reach} for t in range(n)] for tokens in real]
                assert outside.tolist() == [[[len({*w} & each) for w in reached] for each in b] for b in far]


@pytest.mark.parametrize("N", range(1, 9))
def test_sums_and_maxima_over_windows(N):
    """Against the definition, for every k and n."""
    for k, singletons in itertools.product(range(1, N + 1), (0, 1)):
        layout, expected = Windows(k, N, 0, singletons), windows(k, N, 0, singletons)
        for n in range(1, N + 1):
            x = torch.randn(2, n, 3)
            held = [[p for p in window if p < n] for window in expected if window[0] < n]
            torch.testing.assert_close(layout.sum(x), torch.stack([x[:, each].sum(1) for each in held], 1))
            assert torch.equal(layout.max(x), torch.stack([x[:, each].amax(1) for each in held], 1))


def test_sums_of_half_precision_are_in_single_precision():
    layout, x = Windows(1, 4096, 0, 0), torch.full((1, 4096, 1), 1.01).bfloat16()
    torch.testing.assert_close(layout.sum(x).double(), x.double().sum(1, keepdim=True), rtol=1e-5, atol=0)


@pytest.mark.parametrize("sharing", ["none", "headwise", "key-value"])
def test_staggered(sharing):
    """In every second layer the windows are shifted by half a window; those of keys overlap where values have F."""
    config = LinformerConfig(10, 16, 4, sharing, projection_init="staggered", layers=2, attention_heads=2, embed_dim=8)
    for layer, offset in enumerate((0, 2)):
        held = Windows(4, 16, offset, 1)
        for which in "EF":
            E = build_projection(config, layer, which)
            overlaps = which == "E" and sharing != "key-value"
            start = held.triangle().float() if overlaps else held.average()
            assert E.layout == Layout(held, fills=True, overlaps=overlaps, proportional=True)
            assert torch.equal(E(), start.expand_as(E()))
        E = build_projection(config, layer)
        again = build_projection(replace(config, projection_init="average"), layer)
        again.load_state_dict(E.state_dict())
        assert again.layout == E.layout


@pytest.mark.parametrize("sharing", SHARING)
def test_graded(sharing):
    """k / 2 windows of one position, then staggered ones; a short input is not averaged."""
    config = LinformerConfig(10, 20, 6, sharing, projection_init="graded", layers=2, attention_heads=2, embed_dim=8)
    for layer, offset in enumerate((0, 0 if sharing == "layerwise" else 2)):
        E = build_projection(config, layer)
        assert E.layout.windows == Windows(6, 20, offset, 3)
        assert E.layout.windows.edges()[:4].tolist() == [0, 1, 2, 3]
        x = torch.randn(2, 3, 8)
        assert torch.equal(E.reduce(x, E(), None, E.row_scale(x, None)), x)
        loaded = build_projection(replace(config, projection_init=None), layer)
        loaded.load_state_dict(E.state_dict())
        assert loaded.layout == E.layout


@pytest.mark.parametrize("k", [1, 2, 3, 7, 512, 514, 1000, 8232])
def test_half_precision_holds_the_number_of_singletons(k):
    singletons = round_singletons(k // 2)
    assert max(1, (k // 2) * 127 / 128) <= singletons <= max(1, k // 2)
    for dtype in (torch.float16, torch.bfloat16):
        assert torch.tensor(singletons).to(dtype) == singletons


def test_overlapping_windows_by_hand():
    for singletons in range(4):
        assert torch.equal(Windows(3, 3, 0, singletons).triangle(), torch.eye(3).double())
    inner = torch.tensor([0, 1, 3, 3, 1, 0, 0, 0]).double() / 8
    torch.testing.assert_close(Windows(4, 8).triangle()[1], inner)
    separate = Windows(4, 8, 0, 1).triangle()
    torch.testing.assert_close(separate[2], inner.roll(1))
    assert separate[0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0] and separate[1:, 0].tolist() == [0, 0, 0]
    torch.testing.assert_close(separate.sum(1), torch.ones(4).double())
    graded = Windows(4, 8, 0, 2).triangle()  # windows of three positions from position 2 on
    assert graded[:2].tolist() == torch.eye(2, 8).tolist() and graded[2:, :2].eq(0).all()
    torch.testing.assert_close(graded[2], torch.tensor([0, 0, 2, 3, 2, 1, 0, 0]).double() / 8)


@pytest.mark.parametrize("k, N, offset, singletons", [(3, 17, 2, 1), (5, 31, 5, 0), (6, 16, 1, 3), (8, 64, 14, 4)])
def test_the_part_of_overlapping_windows_that_an_input_reaches(k, N, offset, singletons):
    layout = Windows(k, N, offset, singletons)
    for n in range(1, N + 1):
        assert torch.equal(layout.triangle(n=n), layout.triangle()[: layout.num_reached(n), :n])
