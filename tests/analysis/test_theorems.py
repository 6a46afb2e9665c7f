"""The experiments on the theorems, against slow loops, closed forms and what can be proved."""

import json
import math
import statistics

import pytest
import torch

from fairseq_linformer.analysis import rank_k, theorem1, theorem2
from fairseq_linformer.analysis.heads import Head, model_heads, random_head
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.samples import median, summary
from fairseq_linformer.analysis.theorems import powers, run

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
    assert theorem1.norm_bound(64, 0.5) == pytest.approx(1 - math.exp(-0.125 * 16))
    # Theorem 2: k = min{9 d log(d) / eps^2, 5 log(n) / eps^2}.
    stated = theorem2.stated_k(512, 64, 0.5)
    assert (stated.of_d, stated.of_n) == (pytest.approx(9 * 64 * math.log(64) * 4), pytest.approx(20 * math.log(512)))
    assert [round(theorem2.stated_k(n, 64, 0.5).k) for n in (128, 512, 2048)] == [97, 125, 152]
    # The branches meet at n = exp(9 d log(d) / 5): 2 log(2) 9 / 5 = 2.495, n = 12.1 for d = 2, and e^30 for d = 8.
    assert theorem2.stated_k(12, 2, 0.5).k == theorem2.stated_k(12, 2, 0.5).of_n < theorem2.stated_k(12, 2, 0.5).of_d
    assert theorem2.stated_k(13, 2, 0.5).k == theorem2.stated_k(13, 2, 0.5).of_d < theorem2.stated_k(13, 2, 0.5).of_n
    assert theorem2.stated_k(10**12, 8, 0.5).k == theorem2.stated_k(10**12, 8, 0.5).of_n
    for epsilon in (0, 1, 1.5):
        with pytest.raises(ValueError, match="must be above 0 and below 1"):
            theorem1.exponent(epsilon)


def test_probabilities_are_those_of_a_slow_loop():
    """One draw for each k alone, the same numbers, one column and one row at a time."""
    head = random_head(10, 3, generator())
    ks, epsilons = [2, 5], [0.3, 0.6, 0.9]
    found = theorem1.probabilities(head.P, head.V, ks, epsilons, 4, generator(7))
    again, P = generator(7), head.P
    held = torch.zeros(5, 4, 2, 3, dtype=torch.float64)
    for draw in range(4):
        rows = torch.cat([torch.randn(2, 10, generator=again, dtype=torch.float64), torch.randn(3, 10, generator=again, dtype=torch.float64)])
        for i, k in enumerate(ks):
            R = rows[:k] / math.sqrt(k)
            for w in head.V.T:
                error = P @ R.T @ R @ w - P @ w
                for j, eps in enumerate(epsilons):
                    held[4, draw, i, j] += ((R @ w).norm() <= (1 + eps) * w.norm()) / 3
                    held[0, draw, i, j] += (error.norm() <= eps * (P @ w).norm()) / 3
                    held[1, draw, i, j] += (error.norm() <= eps * P.norm() * w.norm()) / 3
                    for u in P:
                        one = abs(u @ R.T @ R @ w - u @ w)
                        held[2, draw, i, j] += (one <= eps * abs(u @ w)) / 30
                        held[3, draw, i, j] += (one <= eps * u.norm() * w.norm()) / 30
    for i, name in enumerate(theorem1.MEASURED):
        torch.testing.assert_close(getattr(found, name), held[i])


def test_the_expected_error_is_what_is_measured():
    head = random_head(12, 4, generator(1))
    found = theorem1.probabilities(head.P, head.V, [4, 12], [0.5], 800, generator(2))
    torch.testing.assert_close(found.squared_error.mean(0), found.expected_error, rtol=0.1, atol=0)
    # The lemma with lengths, and the one on norms, hold as often as they promise; the printed one does not.
    far = theorem1.probabilities(head.P, head.V, [16, 64], [0.5], 300, generator(3))
    for i, k in enumerate((16, 64)):
        assert far.norms[:, i].mean().item() >= theorem1.norm_bound(k, 0.5)
    assert 0.9 < far.norms[:, 0].mean().item() < far.norms[:, 1].mean().item()  # for k = 16 it is not certain
    assert far.pair_lengths[:, 1].mean().item() >= theorem1.lemma_bound(64, 0.5) > far.pair[:, 1].mean().item()


def test_the_printed_lemma_fails_for_vectors_at_right_angles():
    """u w = 0: no error is allowed, and there always is one, whatever k."""
    P = torch.zeros(2, 6, dtype=torch.float64)
    P[:, 0] = 1  # u = e_1
    W = torch.zeros(6, 1, dtype=torch.float64)
    W[0], W[1] = 1e-9, 1  # w = e_2, all but
    found = theorem1.probabilities(P, W, [6], [0.9], 50, generator())
    assert found.pair.mean().item() == found.theorem.mean().item() == 0 and found.pair_lengths.mean().item() > 0.8
    # Where P w is as long as ||P|| ||w||, both are the same.
    same = theorem1.probabilities(P, torch.eye(6, 1, dtype=torch.float64), [6], [0.9], 50, generator())
    assert same.theorem.mean().item() == same.lengths.mean().item() > 0.5


def test_the_construction_of_theorem_2_answers_every_query_alike():
    """delta = 2^-n: exp(x E^T) is 1 everywhere, softmax is 1/k, and the output the mean of the rows of R V."""
    head, R = random_head(40, 4, generator()), theorem2.draw(8, 40, generator(1))
    X = theorem2.construction(head, R, theorem2.proof_delta(40)) @ head.V
    torch.testing.assert_close(X, (R @ head.V).mean(0).expand(40, -1), rtol=0, atol=1e-9)
    found = theorem2.errors([head], 8, 0.5, 3, generator(2))
    assert max(found["proof, delta = 2^-n"]["same rows"]) < 1e-8 < 0.1 < min(found["P V itself"]["same rows"])
    assert len(found["proof, delta = 2^-n"]["spectral"]) == 3 and len(found["P V itself"]["same rows"]) == 1  # draws
    # F = 0 is within the theorem's right side by Cauchy and Schwarz, and of relative error 1.
    assert max(found["F = 0"]["spectral"]) <= 1 and found["F = 0"]["true"] == pytest.approx([1, 1, 1])
    by_hand = []
    P = torch.softmax(head.Q @ head.K.T / 2, -1)
    for i in range(40):
        by_hand.append(float((X[i] - P[i] @ head.V).norm() / (P[i].norm() * head.V.norm())))
    torch.testing.assert_close(theorem2.row_errors(head, X)["frobenius"], torch.tensor(by_hand, dtype=torch.float64))


def test_the_steps_of_the_proof():
    head, R = random_head(30, 3, generator()), theorem2.draw(12, 30, generator(1))
    E = 0.01 * R
    A = head.Q @ head.K.T / math.sqrt(3)
    needed = [float((torch.exp(x @ E.T) - torch.exp(x) @ R.T).norm() / torch.exp(x).norm()) for x in A]
    printed = [float((torch.exp(x @ E.T) - torch.exp(0.01 * x) @ R.T).norm() / torch.exp(x).norm()) for x in A]
    V, F = head.V, math.exp(-0.01) * R
    whole = [float((torch.exp(x @ E.T) @ F @ V - torch.exp(x) @ V).norm() / (torch.exp(x).norm() * V.norm())) for x in A]
    sums = [float(torch.exp(x @ E.T).sum() / torch.exp(x).sum()) for x in A]
    for name, values in (("needed", needed), ("printed", printed), ("whole", whole), ("sums", sums)):
        assert theorem2.step1(head, R, 0.01)[name] == pytest.approx(statistics.median(values), rel=1e-9)
    found = theorem2.step3(head, R, 1.0, generator())
    assert found["rank"] == 6 and found["limit"] == 0 and 1 <= found["longest"] < math.inf
    # Rank 1 of 3 in the second block, whatever delta: V has one direction.
    flat = Head(head.Q, head.K, head.V[:, :1].expand(-1, 3).clone())
    assert theorem2.step3(flat, R, 1.0, generator()) == {"rank": 2, "wanted": 6, "limit": 0, "longest": math.inf, "longest_random": math.inf}
    assert theorem2.needed_k(head, [1, 4000], 0.5, 3, generator())["spectral"] == 4000


def exact_gamma(head, R, delta, rows):
    """Gamma with 80 digits: exp(delta A R^T) R V and exp(A) V, and Gauss' elimination."""
    from decimal import Decimal, localcontext

    def numbers(matrix):
        return [[Decimal(value) for value in row] for row in matrix.tolist()]

    def times(one, other):
        return [[sum(a * b for a, b in zip(row, column)) for column in zip(*other)] for row in one]

    with localcontext() as context:
        context.prec = 80
        A, RV, V = numbers(head.A), times(numbers(R), numbers(head.V)), numbers(head.V)
        scores = times(A, numbers(R.T))
        first = times([[(delta * value).exp() for value in row] for row in scores], RV)
        second = times([[value.exp() for value in row] for row in A], V)
        M = [one + other for one, other in zip(first, second)]
        # Gamma's row i solves x M_s = M_i: eliminate in M_s^T with all right sides beside it.
        table = [[M[r][c] for r in rows] + [row[c] for row in M] for c in range(len(rows))]
        for i in range(len(rows)):
            pivot = max(range(i, len(rows)), key=lambda j: abs(table[j][i]))
            table[i], table[pivot] = table[pivot], table[i]
            table[i] = [value / table[i][i] for value in table[i]]
            for j in range(len(rows)):
                if j != i:
                    table[j] = [a - table[j][i] * b for a, b in zip(table[j], table[i])]
        return torch.tensor([[float(row[len(rows) + i]) for row in table] for i in range(len(M))], dtype=torch.float64)


@pytest.mark.parametrize("delta", [2.0**-60, 2.0**-40, 1e-4, 1.0])
def test_gamma_is_that_of_exact_numbers(delta):
    """With delta = 2^-60 too, where exp(delta A R^T) rounds to 1 and the matrix as it stands to a lower rank: its limit does not."""
    from decimal import Decimal

    head, R = random_head(9, 2, generator(3)), theorem2.draw(5, 9, generator(4))
    M, limit = theorem2.gamma_columns(head, R, delta)
    assert limit == (delta < 1e-8) and M.shape == (9, 4)
    rows = torch.tensor([1, 4, 6, 7])
    torch.testing.assert_close(theorem2.gamma(M, rows), exact_gamma(head, R, Decimal(delta), rows.tolist()), rtol=1e-6, atol=1e-7)
    found = theorem2.step3(head, R, delta, generator())
    assert found["rank"] == 4 and 1 <= found["longest"] <= found["longest_random"] < math.inf


def test_best_rank_k():
    """Eckart and Young: nothing of rank k is nearer, the error is that of the singular values left out."""
    head = random_head(16, 3, generator())
    head.E, head.F = (torch.randn(4, 16, generator=generator(5), dtype=torch.float64) for _ in range(2))
    found = rank_k.errors([head], [2, 4, 16], generator(1))
    s = torch.linalg.svdvals(head.P)
    for k in (2, 4):
        (best,) = found[k][rank_k.BEST]["map"]
        assert best == pytest.approx(float(s[k:].norm() / s.norm()), abs=1e-9)
        assert all(cell["map"][0] >= best - 1e-9 for cell in found[k].values() if "map" in cell)
        assert all(cell["output"][0] >= found[k][rank_k.BEST_OUTPUT]["output"][0] - 1e-9 for cell in found[k].values())
    assert found[4][rank_k.BEST_OUTPUT]["output"][0] < 1e-9 < found[2][rank_k.BEST_OUTPUT]["output"][0]  # d = 3
    assert rank_k.LEARNED in found[4] and rank_k.LEARNED not in found[2]
    assert found[16]["mean pooling"]["map"][0] < 1e-9  # k = n: windows of one
    for k, name, S in rank_k.approximations(head, [4], generator()):
        assert torch.linalg.matrix_rank(S) <= k, name
    for i in range(2):  # equation (7), one query
        keys = [sum(head.E[c, p] * head.K[p] for p in range(16)) for c in range(4)]
        weights = [math.exp(head.Q[i] @ key / math.sqrt(3)) for key in keys]
        expected = sum(weight * row for weight, row in zip(weights, head.F)) / sum(weights)
        torch.testing.assert_close(rank_k.linformer_map(head, head.E, head.F)[i], expected)
    with pytest.raises(ValueError, match="k is 17; it must be between 1 and n, which is 16"):
        rank_k.errors([head], [17], generator())


def test_learned_matrices_of_different_k_count_where_they_are():
    heads = [random_head(16, 3, generator(seed)) for seed in (0, 1, 2)]
    for head, k in zip(heads, (4, 8, 4)):
        head.E, head.F = (torch.randn(k, 16, generator=generator(k), dtype=torch.float64) for _ in range(2))
    found = rank_k.errors(heads, [4, 8], generator())
    for k, those in ((4, [heads[0], heads[2]]), (8, [heads[1]])):
        by_hand = [float((rank_k.linformer_map(head, head.E, head.F) - head.P).norm() / head.P.norm()) for head in those]
        assert found[k][rank_k.LEARNED]["map"] == pytest.approx(by_hand)
        assert len(found[k][rank_k.BEST]["map"]) == 3


def test_a_summary_says_of_how_many_it_is():
    assert summary([3.0, 1.0, math.inf, 2.0]) == {"value": 2.0, "least": 1.0, "most": 3.0, "count": 3, "of": 4}
    assert summary([1.0, 2.0, 4.0, 9.0])["value"] == median(torch.tensor([9.0, 1.0, 4.0, 2.0])) == 3.0
    assert summary([1.0, 2.0, 6.0], "mean")["value"] == 3.0
    assert summary([math.inf, math.nan]) == {"value": None, "least": None, "most": None, "count": 0, "of": 2}
    assert summary([0.1] * 3, "mean")["value"] == 0.1  # their mean in floating point is above the largest


def test_short_heads_and_scores_beyond_double_precision(tmp_path):
    """n from 8 on, n below refused before anything is computed; exp(delta A R^T) above what a double can be has no value in JSON."""
    for n in (8, 15):
        found = run([[random_head(n, 2, generator())]], tmp_path / str(n), 1, 0.5, 1, {"heads": "random"})
        assert [row["k"] for row in found["theorem2"]["errors"]] == [8]
    with pytest.raises(ValueError, match="heads have n = 7 and d = 2; n must be at least 8"):
        run([[random_head(7, 2, generator())]], tmp_path / "7", 1, 0.5, 1, {"heads": "random"})
    assert not (tmp_path / "7").exists()
    head = random_head(8, 2, generator())
    found = run([[Head(-1e4 * head.Q, 1e4 * head.K, head.V)]], tmp_path / "large", 1, 0.5, 1, {"heads": "random"})
    cell = found["theorem2"]["step1"][-1]["needed"]
    assert found["theorem2"]["step1"][-1]["delta"] == "1" and cell["count"] < cell["of"] == 3
    assert json.loads((tmp_path / "large" / "theorems.json").read_text()) == found


@pytest.mark.parametrize("sharing", ["headwise", "layerwise", "none", "roberta", "uneven"])
def test_heads_of_a_model_give_its_own_maps(roberta, linformer, sharing):
    """P of a RoBERTa, and softmax(Q (E K)^T) of a Linformer, are what the model computes."""
    path = roberta if sharing == "roberta" else linformer(projected_dim="3/4,4/4" if sharing == "uneven" else 4,
                                                          sharing="none" if sharing == "uneven" else sharing)  # fmt: skip
    model = load_model(path)
    sentence = [0, *torch.randint(4, 20, (N - 2,), generator=generator()).tolist(), 2]
    heads = model_heads(model, [sentence])
    assert [(h.layer, h.head) for h in heads] == [(i, j) for i in range(LAYERS) for j in range(HEADS)]
    maps = {}
    model.maps(torch.tensor([sentence]), lambda layer, weights: maps.update({layer: weights[0]}))
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
        assert (found["heads"], found.get("text")) == (("random", None) if name == "random" else (f"{roberta.parent.name}/{roberta.name}", "text.txt"))
        assert all((tmp_path / name / f"{figure}.png").stat().st_size > 5000 for figure in ("theorem1", "theorem2", "rank_k"))
    capsys.readouterr()
    for arguments, sentence in (
        ([str(tmp_path / "model")], "has files in it"),
        ([str(tmp_path / "new"), "--model", str(roberta)], "--model is given and no --text"),
        ([str(tmp_path / "new"), "--text", str(text)], "--text is given, which is for a --model"),
        ([str(tmp_path / "new"), "--model", str(roberta), "--text", str(text), "--width", "4"], "--width is given, which is for random heads"),
        ([str(tmp_path / "new"), "--model", str(roberta), "--text", str(text), "--sentences", "900"], "900 are asked for"),
        ([str(tmp_path / "new"), "--model", str(roberta), "--text", str(text), "--length", "7"], "n = 7 and d = 8; n must be at least 8"),
        ([str(tmp_path / "new"), "--lengths", "7,16"], "rising numbers from 8 on are wanted"),
        ([str(tmp_path / "new"), "--lengths", "16,8"], "rising numbers from 8 on are wanted"),
        ([str(tmp_path / "new"), "--epsilon", "1"], "epsilon is 1; it must be at least 0.001 and below 1"),
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
