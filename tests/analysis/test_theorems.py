"""The experiments on the theorems, against slow loops, closed forms and what can be proved."""

import json
import math

import pytest
import torch

from fairseq_linformer.analysis import rank_k, theorem1, theorem2
from fairseq_linformer.analysis.heads import Head, model_heads, random_head
from fairseq_linformer.analysis.opening import open_model
from fairseq_linformer.analysis.theorems import powers

from .conftest import HEADS, LAYERS, N


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_bounds_are_those_of_the_paper():
    assert theorem1.lemma_bound(256, 0.5) == pytest.approx(1 - 2 * math.exp(-0.125 * 256 / 4))
    assert theorem1.theorem_bound(512, 400, 0.5) == pytest.approx(1 - 1024 * math.exp(-12.5))
    assert theorem1.theorem_bound(512, 8, 0.5) == 0
    # With its own k the bound is 1 - 2 n^(-1/4).
    k = theorem1.stated_k(512, 0.5)
    assert 1 - 1024 * math.exp(-0.125 * k / 4) == pytest.approx(1 - 2 * 512**-0.25)
    assert theorem2.stated_k(64, 0.5) == pytest.approx(9 * 64 * math.log(64) * 4)
    for epsilon in (0, 1, 1.5):
        with pytest.raises(ValueError, match="must be above 0 and below 1"):
            theorem1.exponent(epsilon)


def test_probabilities_are_those_of_a_slow_loop():
    """One draw for each k alone, the same numbers, one column and one row at a time."""
    head = random_head(10, 3, generator())
    ks, epsilons = [2, 5], [0.3, 0.6, 0.9]
    found = theorem1.probabilities(head.P, head.V, ks, epsilons, 4, generator(7))
    again, P = generator(7), head.P
    held = torch.zeros(4, 2, 3, dtype=torch.float64)
    for _ in range(4):
        rows = torch.cat([torch.randn(2, 10, generator=again, dtype=torch.float64), torch.randn(3, 10, generator=again, dtype=torch.float64)])
        for i, k in enumerate(ks):
            R = rows[:k] / math.sqrt(k)
            for w in head.V.T:
                error = P @ R.T @ R @ w - P @ w
                for j, eps in enumerate(epsilons):
                    held[0, i, j] += (error.norm() <= eps * (P @ w).norm()) / 12
                    held[1, i, j] += (error.norm() <= eps * P.norm() * w.norm()) / 12
                    for u in P:
                        one = abs(u @ R.T @ R @ w - u @ w)
                        held[2, i, j] += (one <= eps * abs(u @ w)) / 120
                        held[3, i, j] += (one <= eps * u.norm() * w.norm()) / 120
    for i, name in enumerate(("theorem", "lengths", "pair", "pair_lengths")):
        torch.testing.assert_close(getattr(found, name), held[i])


def test_the_expected_error_is_what_is_measured():
    head = random_head(12, 4, generator(1))
    found = theorem1.probabilities(head.P, head.V, [4, 12], [0.5], 800, generator(2))
    torch.testing.assert_close(found.squared_error, found.expected_error, rtol=0.1, atol=0)
    # The lemma with lengths, and the one on norms, hold as often as they promise; the printed one does not.
    far = theorem1.probabilities(head.P, head.V, [64], [0.5], 300, generator(3))
    assert far.pair_lengths.item() >= theorem1.lemma_bound(64, 0.5) > far.pair.item()


def test_the_printed_lemma_fails_for_vectors_at_right_angles():
    """u w = 0: no error is allowed, and there always is one, whatever k."""
    P = torch.zeros(2, 6, dtype=torch.float64)
    P[:, 0] = 1  # u = e_1
    W = torch.zeros(6, 1, dtype=torch.float64)
    W[0], W[1] = 1e-9, 1  # w = e_2, all but
    found = theorem1.probabilities(P, W, [6], [0.9], 50, generator())
    assert found.pair.item() == found.theorem.item() == 0 and found.pair_lengths.item() > 0.8
    # Where P w is as long as ||P|| ||w||, both are the same.
    same = theorem1.probabilities(P, torch.eye(6, 1, dtype=torch.float64), [6], [0.9], 50, generator())
    assert same.theorem.item() == same.lengths.item() > 0.5


def test_the_construction_of_theorem_2_answers_every_query_alike():
    """delta = 2^-n: exp(x E^T) is 1 everywhere, softmax is 1/k, and the output the mean of the rows of R V."""
    head, R = random_head(40, 4, generator()), theorem2.draw(8, 40, generator(1))
    X = theorem2.construction(head, R, theorem2.proof_delta(40)) @ head.V
    torch.testing.assert_close(X, (R @ head.V).mean(0).expand(40, -1), rtol=0, atol=1e-9)
    found = theorem2.errors([head], 8, 0.5, 3, generator(2))
    assert found["proof, delta = 2^-n"]["same rows"] < 1e-8 < 0.1 < found["P V itself"]["same rows"]
    # F = 0 is within the theorem's right side by Cauchy and Schwarz, and of relative error 1.
    assert found["F = 0"]["spectral"] <= 1 and found["F = 0"]["true"] == pytest.approx(1)
    by_hand = []
    P = torch.softmax(head.Q @ head.K.T / 2, -1)
    for i in range(40):
        by_hand.append(float((X[i] - P[i] @ head.V).norm() / (P[i].norm() * head.V.norm())))
    torch.testing.assert_close(theorem2.row_errors(head, X).frobenius, torch.tensor(by_hand, dtype=torch.float64))


def test_the_steps_of_the_proof():
    head, R = random_head(30, 3, generator()), theorem2.draw(12, 30, generator(1))
    E = 0.01 * R
    A = head.Q @ head.K.T / math.sqrt(3)
    needed = [float((torch.exp(x @ E.T) - torch.exp(x) @ R.T).norm() / torch.exp(x).norm()) for x in A]
    printed = [float((torch.exp(x @ E.T) - torch.exp(0.01 * x) @ R.T).norm() / torch.exp(x).norm()) for x in A]
    V, F = head.V, math.exp(-0.01) * R
    whole = [float((torch.exp(x @ E.T) @ F @ V - torch.exp(x) @ V).norm() / (torch.exp(x).norm() * V.norm())) for x in A]
    for name, values in (("needed", needed), ("printed", printed), ("whole", whole)):
        assert theorem2.step1(head, R, 0.01)[name] == pytest.approx(sorted(values)[14], rel=1e-9)
    # Gamma exists with 2 d rows that span, and does not where delta x is below the last digit of 1: the first block has rank one.
    assert theorem2.step3(head, R, 2.0**-60, generator()) == {"rank": 4, "wanted": 6, "longest": math.inf, "longest_random": math.inf}
    found = theorem2.step3(head, R, 1.0, generator())
    assert found["rank"] == 6 and 1 <= found["longest"] < math.inf
    assert theorem2.needed_k(head, [1, 4000], 0.5, 3, generator())["spectral"] == 4000


def test_best_rank_k():
    """Eckart and Young: nothing of rank k is nearer, the error is that of the singular values left out."""
    head = random_head(16, 3, generator())
    head.E, head.F = (torch.randn(4, 16, generator=generator(5), dtype=torch.float64) for _ in range(2))
    found = rank_k.errors([head], [2, 4, 16], generator(1))
    s = torch.linalg.svdvals(head.P)
    for k in (2, 4):
        best = found[k][rank_k.BEST]["map"]
        assert best == pytest.approx(float(s[k:].norm() / s.norm()), abs=1e-9)
        assert all(cell["map"] >= best - 1e-9 for cell in found[k].values() if "map" in cell)
        assert all(cell["output"] >= found[k][rank_k.BEST_OUTPUT]["output"] - 1e-9 for cell in found[k].values())
    assert found[4][rank_k.BEST_OUTPUT]["output"] < 1e-9 < found[2][rank_k.BEST_OUTPUT]["output"]  # d = 3
    assert rank_k.LEARNED in found[4] and rank_k.LEARNED not in found[2]
    assert found[16]["mean pooling"]["map"] < 1e-9  # k = n: windows of one
    for k, name, S in rank_k.approximations(head, [4], generator()):
        assert torch.linalg.matrix_rank(S) <= k, name
    for i in range(2):  # equation (7), one query
        keys = [sum(head.E[c, p] * head.K[p] for p in range(16)) for c in range(4)]
        weights = [math.exp(head.Q[i] @ key / math.sqrt(3)) for key in keys]
        expected = sum(weight * row for weight, row in zip(weights, head.F)) / sum(weights)
        torch.testing.assert_close(rank_k.linformer_map(head, head.E, head.F)[i], expected)
    with pytest.raises(ValueError, match="k is 17; it must be between 1 and n, which is 16"):
        rank_k.errors([head], [17], generator())


@pytest.mark.parametrize("sharing", ["headwise", "layerwise", "none", "roberta", "uneven"])
def test_heads_of_a_model_give_its_own_maps(roberta, linformer, sharing):
    """P of a RoBERTa, and softmax(Q (E K)^T) of a Linformer, are what the model computes."""
    path = roberta if sharing == "roberta" else linformer(projected_dim="3/4,4/4" if sharing == "uneven" else 4,
                                                          sharing="none" if sharing == "uneven" else sharing)  # fmt: skip
    model = open_model(path)
    sentence = [0, *torch.randint(4, 20, (N - 2,), generator=generator()).tolist(), 2]
    heads = model_heads(model, [sentence])
    assert [(h.layer, h.head) for h in heads] == [(i, j) for i in range(LAYERS) for j in range(HEADS)]
    maps = {}
    model.maps(torch.tensor([sentence]), torch.zeros(1, N, dtype=torch.bool), lambda layer, weights: maps.update({layer: weights[0]}))
    for head in heads:
        own = maps[head.layer][head.head].double()
        if sharing == "roberta":
            assert head.E is None
            torch.testing.assert_close(head.P, own, rtol=0, atol=1e-5)
        elif sharing == "uneven" and head.layer == 0:
            assert head.E is None  # of another k in each head
        else:
            torch.testing.assert_close(rank_k.linformer_map(head, head.E, torch.eye(4).double()), own, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_command(roberta, text, tmp_path, capsys):
    from fairseq_linformer.cli import main

    main(["analyze", "theorems", str(tmp_path / "random"), "--lengths", "8,16", "--width", "3", "--draws", "2"])
    main(["analyze", "theorems", str(tmp_path / "model"), "--model", str(roberta), "--text", str(text), "--sentences", "1", "--draws", "2"])
    for name, lengths in (("random", [8, 16]), ("model", [16])):
        found = json.loads((tmp_path / name / "theorems.json").read_text())
        assert [row["n"] for row in found["theorem1"]] == lengths and found["theorem1"][-1]["k"] == powers(8, 16) == [8, 16]
        assert {row["k"] for row in found["rank_k"]} == {8, 16} and found["theorem2"]["step1"]
        assert all((tmp_path / name / f"{figure}.png").stat().st_size > 5000 for figure in ("theorem1", "theorem2", "rank_k"))
    capsys.readouterr()
    for arguments, sentence in (
        ([str(tmp_path / "model")], "has files in it"),
        ([str(tmp_path / "new"), "--model", str(roberta)], "--model is given and no --text"),
        ([str(tmp_path / "new"), "--text", str(text)], "--text is given, which is for a --model"),
        ([str(tmp_path / "new"), "--model", str(roberta), "--text", str(text), "--width", "4"], "--width is given, which is for random heads"),
        ([str(tmp_path / "new"), "--model", str(roberta), "--text", str(text), "--sentences", "900"], "900 are asked for"),
        ([str(tmp_path / "new"), "--lengths", "16,8"], "rising numbers from 8 on are wanted"),
        ([str(tmp_path / "new"), "--epsilon", "1"], "eps is 1; it must be above 0 and below 1"),
        ([str(tmp_path / "new"), "--draws", "0"], "draws is 0; it must be at least 1"),
    ):
        with pytest.raises(SystemExit) as end:
            main(["analyze", "theorems", *arguments])
        assert sentence in end.value.code
    assert not (tmp_path / "new").exists()


def test_a_head_is_of_double_precision():
    head = random_head(8, 2, generator())
    assert isinstance(head, Head) and head.P.dtype == torch.float64
    torch.testing.assert_close(head.P.sum(1), torch.ones(8, dtype=torch.float64))
