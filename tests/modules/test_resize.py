"""E, F and position embeddings for other lengths."""

from dataclasses import replace

import pytest
import torch

from fairseq_linformer.config import SHARING
from fairseq_linformer.modules import LinformerEncoder
from fairseq_linformer.modules.projection import Projection
from fairseq_linformer.modules.resize import (
    resize_kernel,
    resize_matrix,
    resize_positions,
    resize_projection,
    scale_projected_dim,
)
from fairseq_linformer.modules.windows import Layout, Windows

from .test_encoder import build


def test_positions_are_repeated_or_cut():
    table = torch.arange(6.0).unsqueeze(1)  # two rows before four positions
    assert resize_positions(table, 7, padding_idx=1).flatten().tolist() == [0, 1, 2, 3, 4, 5, 2, 3, 4]
    assert resize_positions(table, 2, padding_idx=1).flatten().tolist() == [0, 1, 2, 3]


def resized(E, n, old, new):
    """A matrix of other windows, or none."""
    layouts = (Layout(windows, False, False, False) for windows in (old, new))
    return resize_matrix(E, *layouts, new.k, n)


def test_what_is_learned_is_repeated_block_by_block():
    old = Windows(2, 4)
    E = old.average() + torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
    long = resized(E, 8, old, Windows(4, 8))
    torch.testing.assert_close(long, torch.block_diag(E, E))
    torch.testing.assert_close(resized(long, 4, Windows(4, 8), old), E)
    # One matrix per head.
    heads = torch.stack([E, E + 1])
    torch.testing.assert_close(resized(heads, 8, old, Windows(4, 8))[0], long)


def test_the_row_of_a_separate_first_position_is_not_repeated():
    old, new = Windows(2, 4, 0, 1), Windows(4, 8, 0, 1)
    E = old.average() + torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
    learned = resized(E, 8, old, new) - new.average()
    expected = torch.zeros(4, 8)
    expected[:2, :4], expected[3, 4:] = E - old.average(), (E - old.average())[1]
    torch.testing.assert_close(learned, expected)


def test_without_windows_rows_see_the_whole_input():
    E = torch.randn(3, 4)
    for fills, factor in ((False, 1), (True, 0.5)):
        none = Layout(None, fills, False, False)
        torch.testing.assert_close(resize_matrix(E, none, none, 3, 16), torch.cat([E, E, E, E], 1) * factor)
    torch.testing.assert_close(resize_matrix(E, none, none, 3, 10), torch.cat([E, E, E[:, :2]], 1) * 0.4**0.5)
    assert scale_projected_dim(3, 4, 8, None) == 3
    assert scale_projected_dim(3, 4, 8, Windows(3, 4, 0, 1)) == 6
    assert scale_projected_dim(3, 9, 2, Windows(3, 9, 0, 1)) == 1


def test_singletons_stay_and_the_other_blocks_are_repeated():
    old = Windows(4, 6, 0, 2)  # 1, 1, 2 and 2 positions
    learned = torch.arange(1.0, 25.0).view(4, 6)
    new = Windows(scale_projected_dim(4, 6, 10, old), 10, 0, 2)
    assert new.k == 6
    found = resized(old.average() + learned, 10, old, new) - new.average()
    torch.testing.assert_close(found, torch.block_diag(learned, learned[2:, 2:]))
    assert [scale_projected_dim(4, 6, n, old) for n in (1, 2, 4, 5, 6, 7, 8)] == [1, 2, 3, 3, 4, 4, 5]


@pytest.mark.parametrize("k, N", [(4, 6), (128, 512), (256, 512), (11, 64), (9, 30)])
@pytest.mark.parametrize("factor", [2, 3.5])
def test_shorter_regular_windows_stay_in_a_longer_model(k, N, factor):
    old, n = Windows(k, N, 0, k // 2), int(factor * N)
    new = replace(old, k=scale_projected_dim(k, N, n, old), N=n)
    lengths = old.edges().diff().tolist()
    same = lengths.count(1) + lengths.count(old.shortest) if old.shortest > 1 else len(lengths)
    assert new.edges()[:same].tolist() == old.edges()[:same].tolist()


def test_kernels_keep_their_mean_over_the_window():
    kernel = torch.tensor([[1.0, 2.0, 3.0], [0.0, 6.0, 0.0]])
    assert torch.equal(resize_kernel(kernel, 3), kernel)
    torch.testing.assert_close(resize_kernel(kernel, 6)[0], torch.tensor([0.5, 0.5, 1, 1, 1.5, 1.5]))
    torch.testing.assert_close(resize_kernel(kernel, 1), kernel.sum(1, keepdim=True))
    torch.testing.assert_close(resize_kernel(torch.full((4, 2, 3), 1 / 3), 2), torch.full((4, 2, 2), 1 / 2))


UNCHANGED = [
    *((sharing, "linear", init) for sharing in SHARING for init in ("average", "normal")),
    ("headwise", "conv", "average"),
    ("headwise", "mean-pool", None),
]


@pytest.mark.parametrize(
    "sharing, projection, init, is_old",
    [
        *((*case, is_old) for case in UNCHANGED for is_old in (False, True)),
        *((sharing, "linear", "graded", False) for sharing in SHARING),
    ],
)
def test_short_inputs_keep_their_features(sharing, projection, init, is_old):
    """Lengthened, with windows as long as before or, without windows, the same k; also for checkpoints of version 0.2,
    without a window of the first position. Inputs that reach the last window are excepted."""
    old = build(sharing=sharing, projection=projection, projection_init=init).eval()
    config = old.config
    if is_old:
        for module in old.modules():
            if isinstance(module, Projection):
                module.window_options.zero_()
                module.finish_loading()
    windows = next(m.layout.windows for m in old.modules() if isinstance(m, Projection))
    k = scale_projected_dim(4, 12, 30, windows)
    new = LinformerEncoder(replace(config, max_positions=30, projected_dim=k)).double().eval()
    state = {key: v for key, v in old.state_dict().items() if not {"E", "F"} & set(key.split("."))}
    state["embed_positions.weight"] = resize_positions(state["embed_positions.weight"], 30, old.config.padding_idx)
    new.load_state_dict(state, strict=False)
    for theirs, ours in zip(old.modules(), new.modules()):
        if isinstance(theirs, Projection):
            resize_projection(theirs, ours)
            assert (ours.layout.fills, ours.layout.proportional) == (theirs.layout.fills, theirs.layout.proportional)
    for length in (12 if init == "normal" or is_old else 7, 5, 1):
        tokens = torch.randint(2, 20, (2, length))
        tokens[1, length // 2 + 1 :] = config.padding_idx
        real = tokens.ne(config.padding_idx)
        torch.testing.assert_close(new(tokens)[0][real], old(tokens)[0][real], rtol=0, atol=1e-5)
