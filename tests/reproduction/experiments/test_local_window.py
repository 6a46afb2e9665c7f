"""Local window: near RoBERTa, and E and F against the same window without them."""

import math

import pytest

from fairseq_linformer.reproduction.experiments.local_window import cost_chart, label, models_by_window, operations
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import outcome, three, trained

CONTROL, *MODELS = (label(k, 16) for k in (1, 8, 16, 32))
NEAR = math.log2(1.10)


def local_window(name="local-window", fall=0.0, **changed):
    models = {"roberta": 4.8, CONTROL: 5.0, **dict.fromkeys(MODELS, 4.9), **changed}
    return trained(name, {model: three(bits) for model, bits in models.items() if bits}, fall=fall)


def test_each_window_has_its_control():
    assert [*models_by_window(64)] == [
        "roberta",
        *(label(k, local_window) for k in (1, 8, 16, 32) for local_window in (0, 4, 16)),
    ]
    assert label(1, 16) not in models_by_window(16)  # that is full attention


@pytest.mark.parametrize("name", ["local-window", "local-window-long"])
@pytest.mark.parametrize(
    "bits, expected", [(4.8 + NEAR - 1e-6, HOLDS), (4.8 + NEAR + 1e-6, FAILS), (4.5, HOLDS), (None, UNDECIDED)]
)
def test_a_quarter_is_near_roberta(name, bits, expected):
    assert outcome(f"{name}-par", local_window(name, **{MODELS[1]: bits})) == expected


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("bits, expected", [(5.0, HOLDS), (5.001, FAILS), (None, UNDECIDED)])
def test_projections_lower_the_perplexity(model, bits, expected):
    assert outcome("local-window-projections", local_window(**{model: bits})) == expected


@pytest.mark.parametrize("roberta, expected", [(5.8, HOLDS), (5.81, UNDECIDED)])
def test_roberta_has_learned_and_need_not_have_converged(roberta, expected):
    assert outcome("local-window-par", local_window(fall=0.5, roberta=roberta)) == expected


SIZES = {"layers": 2, "width": 128, "heads": 4}


@pytest.mark.slow
def test_chart_of_perplexity_over_operations():
    bits = {"roberta": (4.0, 4.1), label(8, 0): (5.0, 5.1), label(16, 0): (4.0, 4.6), label(8, 4): (4.5, 4.1)}
    found = trained("local-window", bits, configuration={"n": 64, "sizes": SIZES})
    (chart,) = find("local-window").charts([found])
    costs = {(k, w): operations(SIZES, 64, k, w) / operations(SIZES, 64) for k in (8, 16) for w in (0, 4)}
    assert chart.identifier == "cost-local-window-cpu" and chart.levels == [("RoBERTa", 1.0)]
    assert {s.name: s.runs for s in chart.series} == {
        "W = 0": [
            [(costs[8, 0], 2.0), (costs[16, 0], 1.0)],
            [(costs[8, 0], 2.0), (costs[16, 0], pytest.approx(2**0.5))],
        ],
        "W = 4": [[(costs[8, 4], pytest.approx(2**0.5))], [(costs[8, 4], 1.0)]],
    }
    assert cost_chart(trained("local-window", {"roberta": (4.0,)}, configuration={"n": 64, "sizes": SIZES}), "t") == []


def test_operations_grow_linearly_with_a_window_and_quadratically_without():
    linear, full = ([operations(SIZES, n, *arguments) for n in (1024, 4096)] for arguments in ((32, 16), ()))
    assert linear[1] == pytest.approx(linear[0], rel=0.01) and full[1] > 2 * full[0]
