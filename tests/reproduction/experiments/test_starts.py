"""How E and F start: window averages against the authors' normal ones."""

import pytest

from fairseq_linformer.reproduction.experiments.starts import FULL_RATE
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import outcome, three, trained, verdict

MODELS = {"roberta": 4.8, "average": 5.0, "normal": 7.0, FULL_RATE: 6.0, "staggered": 4.5}


def starts(**changed):
    return trained("starts", {model: three(bits) for model, bits in {**MODELS, **changed}.items() if bits})


@pytest.mark.parametrize("changed, expected", [
    ({}, HOLDS), ({"normal": 4.9}, FAILS), ({FULL_RATE: 4.9}, FAILS), ({FULL_RATE: None}, UNDECIDED),
    ({"normal": None}, UNDECIDED),
    ({"staggered": None}, HOLDS),
])  # fmt: skip
def test_starts(changed, expected):
    assert outcome("starts", starts(**changed)) == expected


def test_the_default_start_came_later_and_is_reported_beside():
    found = verdict("starts", starts())
    assert len(found.checks) == 2 and "staggered" in found.remarks[0] and f"{2**-0.5:.3g}" in found.remarks[0]
    assert not any("staggered" in text for text in verdict("starts", starts(staggered=None)).numbers)
