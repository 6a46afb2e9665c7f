"""The losses against slow references in double precision; blocks of several lengths."""

from collections import Counter

import pytest
import torch

from fairseq_linformer.models.distillation import draw_length, split_blocks

BOS, PAD, EOS = 0, 1, 2


def test_lengths_depend_on_the_masks_alone():
    generator = torch.Generator().manual_seed(0)
    batches = [torch.rand(2, 128, generator=generator) < 0.15 for _ in range(2000)]
    drawn = [draw_length(masked, 0.75) for masked in batches]
    assert drawn == [draw_length(masked, 0.75) for masked in batches]
    counts = Counter(drawn)
    assert counts.keys() == {128, 64, 32, 16}
    assert all(count == pytest.approx(500, abs=100) for count in counts.values())
    assert {draw_length(masked, 0.0) for masked in batches} == {128}
    assert {draw_length(masked[:, :31], 0.75) for masked in batches} == {31}
    assert {draw_length(masked[:, :99], 0.75) for masked in batches} == {99, 50, 25}


@pytest.mark.parametrize("n, length", [(64, 16), (64, 32), (50, 12)])
def test_split_blocks(n, length):
    """Blocks have no padding but at the end, and all tokens but those that bos and eos replace."""
    torch.manual_seed(0)
    real = torch.tensor([n, n - 5, 3])
    tokens = torch.randint(5, 50, (3, n)).masked_fill(torch.arange(n) >= real.unsqueeze(1), PAD)
    tokens[:, 0] = BOS
    blocks = split_blocks(tokens, length, BOS, EOS, PAD)
    assert (blocks[:, 0] == BOS).all() and blocks.ne(PAD).sum() == real.sum()
    lengths = blocks.ne(PAD).sum(1)
    for block, size in zip(blocks, lengths):
        assert (block[:size] != PAD).all() and (size == 1 or block[size - 1] == EOS)
    kept = [token for block, size in zip(blocks, lengths) for token in block[1 : size - 1].tolist()]
    expected = [
        token
        for row, size in zip(tokens.tolist(), real.tolist())
        for start in range(0, size, length)
        for token in row[start + 1 : min(start + length, size) - 1]
    ]
    assert kept == expected
