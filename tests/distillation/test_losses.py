"""The losses against slow references in double precision."""

import math

import pytest
import torch

from fairseq_linformer.linearization.explained_variance import ExplainedVariance
from fairseq_linformer.models.distillation import hidden_loss, logits_loss


def random_states(layers, sentences, n, width, generator):
    return [torch.randn(sentences, n, width, generator=generator) for _ in range(layers)]


@pytest.mark.parametrize("seed", range(5))
def test_hidden_loss(seed):
    generator = torch.Generator().manual_seed(seed)
    layers, sentences, n, width = (int(torch.randint(1, 6, (), generator=generator)) for _ in range(4))
    ours, theirs = (random_states(layers, sentences, n, width, generator) for _ in range(2))
    real = torch.rand(sentences, n, generator=generator) < 0.7
    real[0, 0] = True
    total, count = 0.0, 0
    for a, b in zip(ours, theirs):
        for i in range(sentences):
            for j in range(n):
                for c in range(width):
                    if real[i, j]:
                        total += (float(a[i, j, c]) - float(b[i, j, c])) ** 2
                        count += 1
    assert float(hidden_loss(ours, theirs, real)) == pytest.approx(total / count, rel=1e-5)
    hidden = [a.clone().masked_fill(~real.unsqueeze(-1), math.nan) for a in ours]
    assert float(hidden_loss(hidden, theirs, real)) == pytest.approx(total / count, rel=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_logits_loss(temperature):
    generator = torch.Generator().manual_seed(0)
    ours, theirs = (3 * torch.randn(4, 7, generator=generator) for _ in range(2))
    total = 0.0
    for a, b in zip(ours.tolist(), theirs.tolist()):
        p, q = ([math.exp(x / temperature) for x in row] for row in (b, a))
        p, q = ([x / sum(row) for x in row] for row in (p, q))
        total += sum(x * math.log(x / y) for x, y in zip(p, q))
    expected = total / 4 * temperature**2
    assert float(logits_loss(ours, theirs, temperature)) == pytest.approx(expected, rel=1e-5)
    assert float(logits_loss(theirs, theirs, temperature)) == pytest.approx(0, abs=1e-6)


def test_explained_variance():
    generator = torch.Generator().manual_seed(0)
    measured = ExplainedVariance(3, 4)
    rows = []
    for sentences in (2, 5):
        theirs = random_states(3, sentences, 6, 4, generator)
        ours = [
            theirs[0],
            torch.zeros_like(theirs[1]),
            theirs[2] + 0.1 * torch.randn(theirs[2].shape, generator=generator),
        ]
        real = torch.rand(sentences, 6, generator=generator) < 0.7
        measured.add(ours, theirs, real)
        rows.append([(a[real].double(), b[real].double()) for a, b in zip(ours, theirs)])
    expected = []
    for layer in range(3):
        a, b = (torch.cat([batch[layer][i] for batch in rows]) for i in (0, 1))
        expected.append(float(1 - (a - b).square().sum() / (b - b.mean(0)).square().sum()))
    shares = measured.compute_shares()
    assert shares == pytest.approx(expected, rel=1e-9) and shares[0] == 1 and shares[1] < 0.1 < 0.9 < shares[2] < 1


def test_student_that_outputs_the_mean_keeps_nothing():
    theirs = [torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0))]
    real = torch.ones(4, 5, dtype=torch.bool)
    measured = ExplainedVariance(1, 3)
    measured.add([theirs[0].mean((0, 1)).expand(4, 5, 3)], theirs, real)
    assert measured.compute_shares() == pytest.approx([0], abs=1e-6)
