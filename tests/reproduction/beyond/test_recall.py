"""Sequences, model and training of far-token recall."""

import pytest
import torch

from fairseq_linformer.reproduction.beyond import recall
from fairseq_linformer.reproduction.beyond.recall import (
    LAYERS,
    MASK,
    NUM_SPECIAL,
    START,
    RecallModel,
    RecallTask,
    count_recalled,
    train_model,
)
from fairseq_linformer.reproduction.run import AUTHORS, FIXED, Model

TASK = RecallTask(64, num_pairs=4, num_keys=6, num_noise=5)


def draw(task=TASK, batch=200, seed=1):
    return task.draw(batch, torch.Generator().manual_seed(seed))


def build(task=TASK, k=16, local_window=0, start=None, seed=1):
    start = "average" if k == task.n else start
    return RecallModel(task, Model(task.n, k, start=start, local_window=local_window), seed)


def pairs_of(task, tokens):
    """{key: value} of a sequence, and the positions of its values, read from the tokens alone."""
    is_value = (tokens >= NUM_SPECIAL) & (tokens < task.first_key)
    places = is_value.nonzero().flatten()
    return dict(zip(tokens[places - 1].tolist(), (tokens[places] - NUM_SPECIAL).tolist())), places


def test_every_answer_follows_its_key_in_the_text():
    tokens, targets = draw()
    assert tokens.shape == (200, 64) and targets.shape == (200, 4)
    for row, answers in zip(tokens, targets):
        pairs, _ = pairs_of(TASK, row)
        assert len(pairs) == 4 and all(TASK.first_key <= key < TASK.first_key + 6 for key in pairs)
        assert row[TASK.queries].eq(MASK).all() and row.eq(MASK).sum() == 4
        assert [pairs[key] for key in row[TASK.queries - 1].tolist()] == answers.tolist()
        assert row[0] == START and row.eq(START).sum() == 1
        assert (row >= TASK.first_key + 6).sum() == 64 - 1 - 8 - 8 and row.max() < TASK.vocab_size


def test_values_are_far_from_the_queries():
    places = torch.stack([pairs_of(TASK, row)[1] for row in draw(batch=2000)[0]])
    first_query = int(TASK.queries[0]) - 1
    assert first_query == 56 and first_query - int(places.max()) == TASK.distance  # reached, and never less
    assert int(places.min()) == 2
    # Pairs begin anywhere in the early part: no position, odd or even, is left out or preferred.
    counts = places.flatten().bincount(minlength=TASK.early + 1)[2 : TASK.early + 1]
    assert counts.min() > 0.5 * counts.float().mean() and counts.max() < 1.6 * counts.float().mean()


def test_the_tokens_of_a_text_say_nothing_about_an_answer():
    """Every sequence has every value once, and each is the answer to a key equally often."""
    tokens, targets = draw(batch=4000)
    assert targets.sort(1).values.eq(torch.arange(4)).all()
    asked = tokens[:, TASK.queries[-1] - 1]
    for key in asked.unique():
        shares = targets[asked == key, -1].bincount(minlength=4) / (asked == key).sum()
        assert (shares - TASK.chance).abs().max() < 0.07
    for constant in range(4):
        assert abs((targets[:, -1] == constant).float().mean() - TASK.chance) < 0.03


def test_sequences_depend_on_the_seed_only():
    first, again, other = draw(), draw(), draw(seed=2)
    assert all(a.equal(b) for a, b in zip(first, again)) and not first[0].equal(other[0])
    torch.manual_seed(5)
    before = torch.get_rng_state()
    weights = [build(seed=seed).left_neighbor.weight for seed in (1, 1, 2)]
    assert weights[0].equal(weights[1]) and not weights[0].equal(weights[2])
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize("sizes", recall.SIZES.values())
def test_tasks_have_room_and_distance(sizes):
    task = RecallTask(sizes["n"])
    assert task.early >= 2 * task.num_pairs
    assert LAYERS * max(sizes["windows"]) + 1 < task.distance


@pytest.mark.parametrize("k", [64, 16, 1])
@pytest.mark.parametrize("local_window", [0, 2])
def test_no_local_window_reaches_a_value(k, local_window):
    """Without projected positions (E = F = 0), an early token changes no answer; with them it does."""
    model, (tokens, _) = build(k=k, local_window=local_window), draw(batch=4)
    changed = tokens.clone()
    changed[:, 1 : TASK.early + 1] = TASK.first_key + 7
    answers, others = (model(x, TASK.queries) for x in (tokens, changed))
    assert not answers.allclose(others)
    with torch.no_grad():
        for layer in model.encoder.layers:
            for projection in (layer.self_attn.E, layer.self_attn.F):
                projection.set_(torch.zeros_like(projection.delta))
    answers, others = (model(x, TASK.queries) for x in (tokens, changed))
    assert answers.allclose(others, atol=1e-6)


def test_full_attention_is_the_identity_and_stays_it():
    model = build(k=64)
    train_model(model, 1, updates=3, batch=4)
    for layer in model.encoder.layers:
        assert layer.self_attn.E().equal(torch.eye(64)) and layer.self_attn.F().equal(torch.eye(64))
    fixed = build(k=16, start=FIXED)
    train_model(fixed, 1, updates=3, batch=4)
    assert not fixed.encoder.layers[0].self_attn.E.delta.any()
    assert build(start=AUTHORS).encoder.config.projection_lr_scale == 1.0  # as in their code
    linformer = build(k=16)
    before = linformer.encoder.layers[0].self_attn.E().clone()
    train_model(linformer, 1, updates=3, batch=4)
    assert not linformer.encoder.layers[0].self_attn.E().equal(before)


@pytest.mark.slow
def test_training_is_repeatable_and_learns():
    """Two pairs in a short sequence."""
    task = RecallTask(12, num_pairs=2, num_keys=2, num_noise=1)
    model, again = (build(task, 12, seed=2) for _ in range(2))
    assert count_recalled(model, seed=9, sequences=100) < 70
    train_model(model, 2, updates=150, batch=32)
    assert count_recalled(model, seed=9, sequences=100) > 90
    short = build(task, 12, seed=2)
    for each in (short, again):
        train_model(each, 2, updates=5, batch=4)
    assert short.output.weight.equal(again.output.weight)
