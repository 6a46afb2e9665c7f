"""Groups of similar length: the cheapest ones, and the same features and gradients as those of the whole batch."""

from copy import deepcopy
from itertools import combinations, pairwise

import pytest
import torch

from fairseq_linformer.modules import length_groups
from fairseq_linformer.modules.length_groups import MAX_LENGTHS, cheapest_groups, group_by_length

from .test_encoder import build

LENGTHS = (12, 3, 1, 7, 3, 2, 12, 8)


def batch(lengths=LENGTHS, n=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(2, 20, (len(lengths), n), generator=generator)
    return tokens.masked_fill(torch.arange(n) >= torch.tensor(lengths).unsqueeze(1), 1)


@pytest.mark.parametrize("group_positions", [1, 10, 100])
@pytest.mark.parametrize("seed", range(5))
def test_no_other_groups_are_cheaper(seed, group_positions):
    generator = torch.Generator().manual_seed(seed)
    lengths = sorted({*torch.randint(1, 60, (7,), generator=generator).tolist()})
    counts = torch.randint(1, 9, (len(lengths),), generator=generator).tolist()
    found = cheapest_groups(lengths, counts, group_positions)
    assert sum(rows for _, rows in found) == sum(counts)
    every = []
    for number in range(len(lengths)):
        for cuts in combinations(range(1, len(lengths)), number):
            bounds = [0, *cuts, len(lengths)]
            every.append([(lengths[end - 1], sum(counts[start:end])) for start, end in pairwise(bounds)])
    costs = [sum(length * rows + group_positions for length, rows in groups) for groups in every]
    assert costs[every.index(found)] == min(costs)


@pytest.mark.parametrize("n", [1, 5, MAX_LENGTHS, 1000])
def test_each_sentence_is_in_a_group_that_holds_it(n):
    mask = torch.rand(40, n, generator=torch.Generator().manual_seed(n)) < 0.9
    mask[0], mask[1] = True, False
    ends = [max([1, *((~row).nonzero().flatten() + 1).tolist()]) for row in mask]
    groups = group_by_length(mask, 1)
    assert sorted(torch.cat([group.rows for group in groups]).tolist()) == list(range(40))
    assert groups[-1].length == n and len(groups) <= MAX_LENGTHS
    step = -(-n // MAX_LENGTHS)
    for rows, length in groups:
        assert all(ends[row] <= length for row in rows) and max(ends[row] for row in rows) > length - step


def whole(encoder):
    """The encoder without groups."""
    copied = deepcopy(encoder)
    copied.use_length_groups = False
    return copied


def count_calls(encoder, tokens, **options):
    calls = []
    hook = encoder.layers[0].register_forward_hook(lambda *_: calls.append(1))
    encoder(tokens, **options)
    hook.remove()
    return len(calls)


def run(encoder, tokens, positions):
    """Features of real tokens and their gradients."""
    features, _ = encoder(tokens, positions)
    is_read = tokens.ne(1) if positions is None else torch.ones(positions.shape, dtype=torch.bool)
    features = features * is_read.unsqueeze(-1)
    return features, torch.autograd.grad(features.square().sum(), [*encoder.parameters()], allow_unused=True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(local_window=2),
        dict(sharing="layerwise", normalize_before=True),
        dict(sharing="none", projection="conv"),
        dict(projection="max-pool"),
        dict(checkpoint_activations=True, dropout=0, attention_dropout=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("reads_all", [True, False])
def test_features_and_gradients_are_those_of_the_whole_batch(options, reads_all, monkeypatch):
    monkeypatch.setattr(length_groups, "GROUP_POSITIONS", 4)
    encoder, tokens = build(**options).train("dropout" in options), batch()
    positions = None if reads_all else torch.tensor([[0, length - 1] for length in LENGTHS])
    assert count_calls(encoder, tokens) > 1
    ours, gradients = run(encoder, tokens, positions)
    theirs, expected = run(whole(encoder), tokens, positions)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(gradients, expected):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)


def test_positions_after_the_end_of_a_group(monkeypatch):
    """They are padding; the features of other positions do not change."""
    monkeypatch.setattr(length_groups, "GROUP_POSITIONS", 1)
    encoder, tokens = build().eval(), batch()
    positions = torch.tensor([[0, 11]] * len(LENGTHS))
    torch.testing.assert_close(encoder(tokens, positions)[0][:, 0], whole(encoder)(tokens, positions)[0][:, 0])


def test_when_a_batch_runs_whole(monkeypatch):
    """With hidden states, on other devices, without padding or sentences, traced or with several ranks, and when
    another group costs more than it saves, be it because E and F are large."""
    encoder, tokens = build().eval(), batch()
    assert count_calls(encoder, tokens) == 1
    monkeypatch.setattr(length_groups, "GROUP_POSITIONS", 1)
    monkeypatch.setattr(length_groups, "ENTRY_COST", 0)
    assert count_calls(encoder, tokens) > 1
    assert count_calls(encoder, batch([12] * 8)) == count_calls(encoder, tokens, return_all_hiddens=True) == 1
    assert count_calls(encoder, tokens[:0], padded=True) == 1
    assert count_calls(build().to("meta"), tokens.to("meta"), padded=True) == 1
    monkeypatch.setattr(length_groups, "ENTRY_COST", 8 * 8)  # times 12 k entries and d^2 = 8^2, d = 8
    assert count_calls(encoder, tokens) == 1
    layerwise = build(sharing="layerwise").eval()  # whose E is computed once for all layers
    assert count_calls(layerwise, tokens) > 1
    with monkeypatch.context() as trace:
        trace.setattr(torch.jit, "is_tracing", lambda: True)
        assert count_calls(layerwise, tokens) == 1
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    assert count_calls(layerwise, tokens) == 1
