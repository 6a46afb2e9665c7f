"""Initialization of E and F: window averages against the authors' normal ones."""

import pytest

from fairseq_linformer.reproduction.experiments.starts import FULL_RATE
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import outcome, three, trained, verdict

MODELS = {"roberta": 4.8, "average": 5.0, "normal": 7.0, FULL_RATE: 6.0, "default": 4.5}


def starts(**changed):
    return trained("starts", {model: three(bits) for model, bits in {**MODELS, **changed}.items() if bits})


@pytest.mark.parametrize(
    "changed, expected",
    [
        ({}, HOLDS),
        ({"normal": 4.9}, FAILS),
        ({FULL_RATE: 4.9}, FAILS),
        ({FULL_RATE: None}, UNDECIDED),
        ({"normal": None}, UNDECIDED),
        ({"default": None}, HOLDS),
    ],
)
def test_starts(changed, expected):
    assert outcome("starts", starts(**changed)) == expected


def test_the_default_start_is_reported_beside():
    found = verdict("starts", starts())
    assert len(found.checks) == 2 and "default" in found.remarks[1] and f"{2**-0.5:.3g}" in found.remarks[1]
    assert not any("default /" in text for text in verdict("starts", starts(default=None)).numbers)
    assert "staggered" in verdict("starts", starts(default=None, staggered=4.5)).remarks[1]  # of the earlier plan


@pytest.mark.parametrize("average, expected", [(6.8, HOLDS), (6.81, UNDECIDED)])
def test_one_start_must_have_learned_and_none_have_converged(average, expected):
    models = {"roberta": 4.8, "average": average, "normal": 8.0, FULL_RATE: 8.0}
    one = trained("starts", {model: three(bits) for model, bits in models.items()}, fall=0.5)
    assert outcome("starts", one) == expected
