"""Heads of a model, summaries, and the folder of ``analyze theorems``."""

import json
import math

import pytest
import torch

from fairseq_linformer.analysis import rank_k
from fairseq_linformer.analysis.heads import Head, model_heads, random_head
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.samples import median, summarize
from fairseq_linformer.analysis.theorems import _measure_rank_k, build_random_heads, measure_theorems

from .conftest import HEADS, LAYERS, N


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_summary_counts_finite_values():
    assert summarize([3.0, 1.0, math.inf, 2.0]) == {"value": 2.0, "least": 1.0, "most": 3.0, "count": 3, "of": 4}
    assert summarize([1.0, 2.0, 4.0, 9.0])["value"] == median(torch.tensor([9.0, 1.0, 4.0, 2.0])) == 3.0
    assert summarize([1.0, 2.0, 6.0], "mean")["value"] == 3.0
    assert summarize([math.inf, math.nan]) == {"value": None, "least": None, "most": None, "count": 0, "of": 2}
    assert summarize([0.1] * 3, "mean")["value"] == 0.1  # their floating-point mean is above the largest


@pytest.mark.slow
def test_n_is_at_least_8(tmp_path):
    facts = {"heads": "random"}
    for n in (8, 15):
        results = measure_theorems([[random_head(n, 2, generator())]], tmp_path / str(n), 1, 0.5, 1, facts)
        assert [row["k"] for row in results["theorem2"]["errors"]] == [8]
    with pytest.raises(ValueError, match="n = 7"):
        measure_theorems([[random_head(7, 2, generator())]], tmp_path / "7", 1, 0.5, 1, facts)
    assert not (tmp_path / "7").exists()


def test_overflow_is_counted_as_missing(tmp_path):
    """exp(delta A R^T) beyond double precision; the file is valid JSON."""
    head = random_head(8, 2, generator())
    heads = [Head(-1e4 * head.Q, 1e4 * head.K, head.V)]
    results = measure_theorems([heads], tmp_path / "large", 1, 0.5, 1, {"heads": "random"})
    row = results["theorem2"]["step1"][-1]
    assert row["delta"] == "1" and row["needed"]["count"] < row["needed"]["of"] == 3
    assert json.loads((tmp_path / "large" / "theorems.json").read_text()) == results


@pytest.mark.parametrize(
    "options, message",
    [(dict(draws=0), "draws.* 0"), (dict(epsilon=0.0001), "epsilon.* 0.0001"), (dict(seed=-1), "seed.* -1")],
)
def test_rejected_arguments(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        measure_theorems(
            build_random_heads([8], 2, 1),
            tmp_path / "out",
            **{"draws": 1, "epsilon": 0.5, "seed": 1, "facts": {}, **options},
        )
    head = random_head(8, 2, generator())
    with pytest.raises(ValueError, match="all zeros"):
        measure_theorems([[Head(head.Q, head.K, 0 * head.V)]], tmp_path / "out", 1, 0.5, 1, {})
    for lengths, d in (([7, 16], 2), ([16, 8], 2), ([], 2), ([8], 1)):
        with pytest.raises(ValueError, match="head_dim.* 1" if d == 1 else "lengths must"):
            build_random_heads(lengths, d, 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("sharing", ["headwise", "layerwise", "none", "roberta", "uneven", "mean-pool"])
def test_heads_reproduce_the_models_maps(roberta, linformer, sharing):
    """P of a RoBERTa, and softmax(Q (E K)^T) of a Linformer."""
    if sharing == "roberta":
        path = roberta
    elif sharing == "mean-pool":
        path = linformer(projected_dim=4, projection="mean-pool")
    else:
        uneven = sharing == "uneven"
        path = linformer(projected_dim="3/4,4/4" if uneven else 4, sharing="none" if uneven else sharing)
    model = load_model(path)
    sentence = [0, *torch.randint(4, 20, (N - 2,), generator=generator()).tolist(), 2]
    heads = model_heads(model, [sentence])
    assert [(h.layer, h.head) for h in heads] == [(i, j) for i in range(LAYERS) for j in range(HEADS)]
    maps = {}
    model.read_maps(torch.tensor([sentence]), lambda layer, weights: maps.update({layer: weights[0]}))
    for head in heads:
        expected = maps[head.layer][head.head].double()
        if sharing == "roberta":
            assert head.E is None
            torch.testing.assert_close(head.P, expected, rtol=0, atol=1e-5)
        elif sharing == "uneven" and head.layer == 0:
            assert head.E is None  # k differs between heads
        else:
            linformer_map = rank_k.linformer_map(head, head.E, torch.eye(4).double(), head.bias)
            torch.testing.assert_close(linformer_map, expected, rtol=0, atol=1e-5)


def test_sentences_shorter_than_k():
    """Random E and F have no windows, so a short sentence has more projected positions than tokens."""
    head = random_head(8, 2, generator())
    head = Head(head.Q, head.K, head.V, E=torch.randn(12, 8).double(), F=torch.randn(12, 8).double())
    (row,) = _measure_rank_k([head], generator())
    assert (row["n"], row["k"]) == (8, 8)


def test_heads_have_double_precision():
    head = random_head(8, 2, generator())
    assert isinstance(head, Head) and head.P.dtype == torch.float64
    torch.testing.assert_close(head.P.sum(1), torch.ones(8, dtype=torch.float64))
