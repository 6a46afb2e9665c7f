"""E, F and position embeddings for other lengths and another k."""

from dataclasses import replace

import pytest
import torch

from fairseq_linformer.config import SHARING, LinformerConfig
from fairseq_linformer.modules import LinformerEncoder
from fairseq_linformer.modules.projection import Projection
from fairseq_linformer.modules.resize import (
    resize_kernel,
    resize_matrix,
    resize_positions,
    resize_projection,
    resize_windows,
    scale_projected_dim,
)
from fairseq_linformer.modules.windows import Windows


def test_positions_are_repeated_or_cut():
    table = torch.arange(6.0).unsqueeze(1)  # two rows before four positions
    assert resize_positions(table, 7, padding_idx=1).flatten().tolist() == [0, 1, 2, 3, 4, 5, 2, 3, 4]
    assert resize_positions(table, 2, padding_idx=1).flatten().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("singletons", [0, 1, 2])
@pytest.mark.parametrize("k, n", [(k, n) for n in (1, 5, 8, 12, 16, 24, 30) for k in (1, 2, 4, 5, 8) if k <= n])
def test_an_average_is_the_average_of_the_new_windows(n, k, singletons):
    for old in (Windows(6, 12, 0, singletons), Windows(3, 12, 2, singletons)):
        new = resize_windows(old, 0.5 if old.offset else 0.0, k, n)
        torch.testing.assert_close(resize_matrix(old.average(), k, n, old, new), new.average())


def test_what_is_learned_is_repeated_block_by_block_and_merged():
    old = Windows(2, 4)
    E = old.average() + torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
    long = resize_matrix(E, 4, 8, old, Windows(4, 8))
    torch.testing.assert_close(long, torch.block_diag(E, E))
    merged = resize_matrix(E, 1, 4, old, Windows(1, 4))
    torch.testing.assert_close(merged, E.mean(0, keepdim=True))
    split = resize_matrix(E, 4, 4, old, Windows(4, 4)) - torch.eye(4)
    torch.testing.assert_close(split, (E - old.average()).repeat_interleave(2, 0))
    torch.testing.assert_close(resize_matrix(long, 2, 4, Windows(4, 8), old), E)


def test_the_row_of_a_separate_first_position_is_not_repeated():
    old, new = Windows(2, 4, 0, 1), Windows(4, 8, 0, 1)
    E = old.average() + torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
    learned = resize_matrix(E, 4, 8, old, new) - new.average()
    expected = torch.zeros(4, 8)
    expected[:2, :4], expected[3, 4:] = E - old.average(), (E - old.average())[1]
    torch.testing.assert_close(learned, expected)
    # Windows of 1 and 3 positions split into 1, 1, 1 and 1.
    split = resize_matrix(E, 4, 4, old, Windows(4, 4, 0, 1)) - torch.eye(4)
    torch.testing.assert_close(split, (E - old.average())[[0, 1, 1, 1]])


def test_without_windows_rows_see_the_whole_input():
    E = torch.randn(3, 4)
    torch.testing.assert_close(resize_matrix(E, 3, 10), torch.cat([E, E, E[:, :2]], 1))
    torch.testing.assert_close(resize_matrix(E, 6, 8)[:, :4], E.repeat_interleave(2, 0))
    torch.testing.assert_close(resize_matrix(E, 3, 16, fills=True), torch.cat([E, E, E, E], 1) / 2)
    assert scale_projected_dim(3, 4, 8, None) == 3
    assert scale_projected_dim(3, 4, 8, Windows(3, 4, 0, 1)) == 6
    assert scale_projected_dim(3, 9, 2, Windows(3, 9, 0, 1)) == 1


def test_singletons_stay_and_the_other_blocks_are_repeated():
    old = Windows(4, 6, 0, 2)  # 1, 1, 2 and 2 positions
    learned = torch.arange(1.0, 25.0).view(4, 6)
    k = scale_projected_dim(4, 6, 10, old)
    new = resize_windows(old, 0.0, k, 10)
    assert (k, new) == (6, Windows(6, 10, 0, 2))
    expected = torch.block_diag(learned, learned[2:, 2:])
    found = resize_matrix(old.average() + learned, k, 10, old, new) - new.average()
    torch.testing.assert_close(found, expected)
    assert [scale_projected_dim(4, 6, n, old) for n in (1, 2, 4, 5, 6, 7, 8)] == [1, 2, 3, 3, 4, 4, 5]
    # Another k has singletons in proportion.
    graded = Windows(128, 512, 0, 64)
    assert [resize_windows(graded, 0.0, k, 512).singletons for k in (1, 16, 64, 256)] == [1, 8, 32, 128]
    assert resize_windows(graded, 0.0, 201, 1024) == Windows(201, 1024, 0, 64)


@pytest.mark.parametrize("k, N", [(4, 6), (128, 512), (256, 512), (11, 64), (9, 30)])
@pytest.mark.parametrize("factor", [2, 3.5])
def test_shorter_regular_windows_stay_in_a_longer_model(k, N, factor):
    old, n = Windows(k, N, 0, k // 2), int(factor * N)
    new = resize_windows(old, 0.0, scale_projected_dim(k, N, n, old), n)
    lengths = old.edges().diff().tolist()
    same = lengths.count(1) + lengths.count(old.shortest) if old.shortest > 1 else len(lengths)
    assert new.singletons == k // 2 and new.edges()[:same].tolist() == old.edges()[:same].tolist()


def test_kernels_keep_their_sum():
    kernel = torch.tensor([[1.0, 2.0, 3.0], [0.0, 6.0, 0.0]])
    assert torch.equal(resize_kernel(kernel, 3), kernel)
    torch.testing.assert_close(resize_kernel(kernel, 6)[0], torch.tensor([0.5, 0.5, 1, 1, 1.5, 1.5]))
    torch.testing.assert_close(resize_kernel(kernel, 1), kernel.sum(1, keepdim=True))
    torch.testing.assert_close(resize_kernel(kernel, 2).sum(1), kernel.sum(1))


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
    torch.manual_seed(0)
    config = LinformerConfig(
        vocab_size=20,
        max_positions=12,
        projected_dim=4,
        sharing=sharing,
        projection=projection,
        projection_init=init,
        layers=2,
        embed_dim=8,
        ffn_embed_dim=16,
        attention_heads=2,
    )
    old = LinformerEncoder(config).eval()
    for p in old.parameters():
        torch.nn.init.normal_(p, std=0.5)
    if is_old:
        for module in old.modules():
            if isinstance(module, Projection):
                module.window_options.zero_()
                module.read_options()
    layout = next(m.layout for m in old.modules() if isinstance(m, Projection))
    k = scale_projected_dim(4, 12, 30, layout)
    new = LinformerEncoder(replace(config, max_positions=30, projected_dim=k)).eval()
    state = {key: v for key, v in old.state_dict().items() if not {"E", "F"} & set(key.split("."))}
    state["embed_positions.weight"] = resize_positions(state["embed_positions.weight"], 30, old.config.padding_idx)
    new.load_state_dict(state, strict=False)
    for theirs, ours in zip(old.modules(), new.modules()):
        if isinstance(theirs, Projection):
            resize_projection(theirs, ours)
            assert torch.equal(ours.window_options, theirs.window_options)
    for length in (12 if init == "normal" or is_old else 7, 5, 1):
        tokens = torch.randint(2, 20, (2, length))
        tokens[1, length // 2 + 1 :] = config.padding_idx
        real = tokens.ne(config.padding_idx)
        torch.testing.assert_close(new(tokens)[0][real], old(tokens)[0][real], rtol=0, atol=1e-5)
