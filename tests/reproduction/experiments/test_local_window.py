"""Local window: near RoBERTa, and E and F against the same window without them."""

import math

import pytest

from fairseq_linformer.reproduction.experiments.local_window import by_reach, label
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import outcome, three, trained

CONTROL, *MODELS = (label(k, 16) for k in (1, 8, 16, 32))
NEAR = math.log2(1.10)


def local_window(name="local-window", fall=0.0, **changed):
    models = {"roberta": 4.8, CONTROL: 5.0, **dict.fromkeys(MODELS, 4.9), **changed}
    return trained(name, {model: three(bits) for model, bits in models.items() if bits}, fall=fall)


def test_each_window_has_its_control():
    assert [*by_reach(64)] == ["roberta", *(label(k, reach) for k in (1, 8, 16, 32) for reach in (0, 4, 16))]
    assert label(1, 16) not in by_reach(16)  # that is full attention


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
