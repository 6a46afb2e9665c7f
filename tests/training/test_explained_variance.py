"""The explained variance against its definition."""

import pytest
import torch

from fairseq_linformer.training.explained_variance import explained_shares


def test_explained_variance():
    generator = torch.Generator().manual_seed(0)
    batches, rows = [], []
    for sentences in (2, 5):
        theirs = [torch.randn(sentences, 6, 4, generator=generator) for _ in range(3)]
        ours = [
            theirs[0],
            torch.zeros_like(theirs[1]),
            theirs[2] + 0.1 * torch.randn(theirs[2].shape, generator=generator),
        ]
        real = torch.rand(sentences, 6, generator=generator) < 0.7
        batches.append((ours, theirs, real))
        rows.append([(a[real].double(), b[real].double()) for a, b in zip(ours, theirs)])
    expected = []
    for layer in range(3):
        a, b = (torch.cat([batch[layer][i] for batch in rows]) for i in (0, 1))
        expected.append(float(1 - (a - b).square().sum() / (b - b.mean(0)).square().sum()))
    shares = explained_shares(batches)
    assert shares == pytest.approx(expected, rel=1e-9) and shares[0] == 1 and shares[1] < 0.1 < 0.9 < shares[2] < 1
