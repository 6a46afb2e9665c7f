"""Heads of a model, summaries, and the folder of ``analyze theorems``."""

import json
import math

import pytest
import torch

from fairseq_linformer.analysis import rank_k
from fairseq_linformer.analysis.heads import Head, model_heads, random_head
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.samples import median, summary
from fairseq_linformer.analysis.theorems import random_groups, run

from .conftest import HEADS, LAYERS, N


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_summary_says_of_how_many_it_is():
    assert summary([3.0, 1.0, math.inf, 2.0]) == {"value": 2.0, "least": 1.0, "most": 3.0, "count": 3, "of": 4}
    assert summary([1.0, 2.0, 4.0, 9.0])["value"] == median(torch.tensor([9.0, 1.0, 4.0, 2.0])) == 3.0
    assert summary([1.0, 2.0, 6.0], "mean")["value"] == 3.0
    assert summary([math.inf, math.nan]) == {"value": None, "least": None, "most": None, "count": 0, "of": 2}
    assert summary([0.1] * 3, "mean")["value"] == 0.1  # their mean in floating point is above the largest


def test_short_heads_and_scores_beyond_double_precision(tmp_path):
    """n from 8 on; n below is refused before anything is computed. exp(delta A R^T) beyond double precision has no
    value in JSON."""
    for n in (8, 15):
        found = run([[random_head(n, 2, generator())]], tmp_path / str(n), 1, 0.5, 1, {"heads": "random"})
        assert [row["k"] for row in found["theorem2"]["errors"]] == [8]
    with pytest.raises(ValueError, match="n = 7"):
        run([[random_head(7, 2, generator())]], tmp_path / "7", 1, 0.5, 1, {"heads": "random"})
    assert not (tmp_path / "7").exists()
    head = random_head(8, 2, generator())
    found = run([[Head(-1e4 * head.Q, 1e4 * head.K, head.V)]], tmp_path / "large", 1, 0.5, 1, {"heads": "random"})
    cell = found["theorem2"]["step1"][-1]["needed"]
    assert found["theorem2"]["step1"][-1]["delta"] == "1" and cell["count"] < cell["of"] == 3
    assert json.loads((tmp_path / "large" / "theorems.json").read_text()) == found


@pytest.mark.parametrize(
    "options, named", [(dict(draws=0), "draws is 0"), (dict(epsilon=0.0001), "epsilon"), (dict(seed=-1), "seed is -1")]
)
def test_refusals(options, named, tmp_path):
    with pytest.raises(ValueError, match=named):
        run(
            random_groups([8], 2, 1),
            tmp_path / "out",
            **{"draws": 1, "epsilon": 0.5, "seed": 1, "facts": {}, **options},
        )
    head = random_head(8, 2, generator())
    with pytest.raises(ValueError, match="all 0"):
        run([[Head(head.Q, head.K, 0 * head.V)]], tmp_path / "out", 1, 0.5, 1, {})
    for lengths, d in (([7, 16], 2), ([16, 8], 2), ([], 2), ([8], 1)):
        with pytest.raises(ValueError, match="width is 1" if d == 1 else "lengths are"):
            random_groups(lengths, d, 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("sharing", ["headwise", "layerwise", "none", "roberta", "uneven"])
def test_heads_of_a_model_give_its_own_maps(roberta, linformer, sharing):
    """P of a RoBERTa, and softmax(Q (E K)^T) of a Linformer, are what the model computes."""
    path = (
        roberta
        if sharing == "roberta"
        else linformer(
            projected_dim="3/4,4/4" if sharing == "uneven" else 4, sharing="none" if sharing == "uneven" else sharing
        )
    )
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
            torch.testing.assert_close(
                rank_k.linformer_map(head, head.E, torch.eye(4).double()), own, rtol=0, atol=1e-5
            )


def test_a_head_is_of_double_precision():
    head = random_head(8, 2, generator())
    assert isinstance(head, Head) and head.P.dtype == torch.float64
    torch.testing.assert_close(head.P.sum(1), torch.ones(8, dtype=torch.float64))
