"""Training from scratch by k, and a conversion against training from scratch."""

import pytest

from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import outcome, three, trained


@pytest.mark.parametrize(
    "smaller, larger, expected", [(6.0, 5.5, HOLDS), (6.0, 4.5, FAILS), (5.5, 6.0, FAILS), (6.0, None, HOLDS)]
)
def test_from_scratch_a_larger_k_is_lower_and_roberta_lowest(smaller, larger, expected):
    models = {"roberta": 5.0, "k=32": larger, "k=16": smaller}
    assert (
        outcome("scratch", trained("scratch", {model: three(bits) for model, bits in models.items() if bits}))
        == expected
    )


@pytest.mark.parametrize(
    "converted, scratch, expected",
    [(5.0, 5.5, HOLDS), (5.0, 5.0, HOLDS), (5.5, 5.0, FAILS), (5.0, None, UNDECIDED), (None, 5.0, UNDECIDED)],
)
def test_a_converted_roberta_is_lower(converted, scratch, expected):
    models = {"roberta": 4.8, "converted": converted, "from scratch": scratch}
    assert (
        outcome("warm-start", trained("warm-start", {model: three(bits) for model, bits in models.items() if bits}))
        == expected
    )


@pytest.mark.parametrize(
    "smaller, fall, expected", [(6.8, 0.0, HOLDS), (6.81, 0.0, UNDECIDED), (6.0, 0.0099, HOLDS), (6.0, 0.01, UNDECIDED)]
)
def test_from_scratch_every_k_has_learned_and_converged(smaller, fall, expected):
    models = {"roberta": 5.0, "k=32": 5.5, "k=16": smaller}
    one = trained("scratch", {model: three(bits) for model, bits in models.items()}, fall=fall)
    assert outcome("scratch", one) == expected


@pytest.mark.parametrize("converted, expected", [(6.8, HOLDS), (6.81, UNDECIDED)])
def test_a_converted_roberta_has_learned_and_need_not_have_converged(converted, expected):
    models = {"roberta": 4.8, "converted": converted, "from scratch": 8.0}
    one = trained("warm-start", {model: three(bits) for model, bits in models.items()}, fall=0.5)
    assert outcome("warm-start", one) == expected
