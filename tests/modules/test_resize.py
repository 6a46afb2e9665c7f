"""E, F and position embeddings for other lengths and another k."""

import pytest
import torch

from fairseq_linformer.config import SHARING, LinformerConfig
from fairseq_linformer.modules import LinformerEncoder
from fairseq_linformer.modules.projection import NO_WINDOWS, LearnedProjection
from fairseq_linformer.modules.resize import resize_kernel, resize_matrix, resize_positions, same_ratio
from fairseq_linformer.modules.windows import window_average

ALIGNED, NONE = 0.0, NO_WINDOWS


def test_positions_are_repeated_or_cut():
    table = torch.arange(6.0).unsqueeze(1)  # two rows before four positions
    assert resize_positions(table, 7, padding_idx=1).flatten().tolist() == [0, 1, 2, 3, 4, 5, 2, 3, 4]
    assert resize_positions(table, 2, padding_idx=1).flatten().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("k, n", [(k, n) for n in (1, 5, 8, 12, 16, 24, 30) for k in (1, 2, 4, 5, 8) if k <= n])
def test_an_average_is_the_average_of_the_new_windows(n, k):
    torch.testing.assert_close(resize_matrix(window_average(6, 12), k, n, delay=ALIGNED), window_average(k, n))
    late = resize_matrix(window_average(3, 12, 2), k, n, delay=0.5)
    torch.testing.assert_close(late, window_average(k, n, n // k // 2))


def test_what_is_learnt_is_repeated_block_by_block_and_merged():
    E = window_average(2, 4) + torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
    long = resize_matrix(E, 4, 8, delay=ALIGNED)
    torch.testing.assert_close(long, torch.block_diag(E, E))
    merged = resize_matrix(E, 1, 4, delay=ALIGNED)
    torch.testing.assert_close(merged, E.mean(0, keepdim=True))
    split = resize_matrix(E, 4, 4, delay=ALIGNED) - torch.eye(4)
    torch.testing.assert_close(split, (E - window_average(2, 4)).repeat_interleave(2, 0))
    torch.testing.assert_close(resize_matrix(long, 2, 4, delay=ALIGNED), E)


def test_without_windows_rows_see_the_whole_input():
    E = torch.randn(3, 4)
    torch.testing.assert_close(resize_matrix(E, 3, 10, delay=NONE), torch.cat([E, E, E[:, :2]], 1))
    torch.testing.assert_close(resize_matrix(E, 6, 8, delay=NONE)[:, :4], E.repeat_interleave(2, 0))
    assert (same_ratio(3, 4, 8, False), same_ratio(3, 4, 8, True), same_ratio(3, 9, 2, True)) == (3, 6, 1)


def test_kernels_keep_their_sum():
    kernel = torch.tensor([[1.0, 2.0, 3.0], [0.0, 6.0, 0.0]])
    assert torch.equal(resize_kernel(kernel, 3), kernel)
    torch.testing.assert_close(resize_kernel(kernel, 6)[0], torch.tensor([0.5, 0.5, 1, 1, 1.5, 1.5]))
    torch.testing.assert_close(resize_kernel(kernel, 1), kernel.sum(1, keepdim=True))
    torch.testing.assert_close(resize_kernel(kernel, 2).sum(1), kernel.sum(1))


@pytest.mark.parametrize("windowed", [True, False])
@pytest.mark.parametrize("sharing", SHARING)
def test_short_inputs_have_the_features_that_they_had(sharing, windowed):
    """Lengthened, with windows as long as before or without windows with the k that it had."""
    torch.manual_seed(0)
    options = dict(vocab_size=20, sharing=sharing, layers=2, embed_dim=8, ffn_embed_dim=16, attention_heads=2,
                   projection_init="average" if windowed else "normal")  # fmt: skip
    old = LinformerEncoder(LinformerConfig(max_positions=12, projected_dim=4, **options)).eval()
    for p in old.parameters():
        torch.nn.init.normal_(p, std=0.5)
    k = same_ratio(4, 12, 30, windowed)
    new = LinformerEncoder(LinformerConfig(max_positions=30, projected_dim=k, **options)).eval()
    state = old.state_dict()
    state["embed_positions.weight"] = resize_positions(state["embed_positions.weight"], 30, old.config.padding_idx)
    pairs = [(a, b) for a, b in zip(old.modules(), new.modules()) if isinstance(a, LearnedProjection)]
    new.load_state_dict(
        {key: v for key, v in state.items() if ".E." not in key and ".F." not in key and not key.startswith("E.")},
        strict=False,
    )
    for theirs, ours in pairs:
        E = theirs().detach()
        ours.set_(
            torch.stack([resize_matrix(m, k, 30, ALIGNED if windowed else NONE) for m in E.reshape(-1, 4, 12)]).reshape(
                *E.shape[:-2], k, 30
            )
        )
    for length in (12, 7, 1):
        tokens = torch.randint(2, 20, (2, length))
        torch.testing.assert_close(new(tokens)[0], old(tokens)[0], rtol=0, atol=1e-5)
