"""Kinds of projection: learned E and F against pooling and convolution."""

import pytest

from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import outcome, three, trained

OTHERS = ("mean-pool", "max-pool", "conv")


def projections(**changed):
    models = {"roberta": 4.8, "linear": 5.0, **dict.fromkeys(OTHERS, 5.5), **changed}
    return trained("projections", {model: three(bits) for model, bits in models.items() if bits})


def test_learned_is_lowest():
    assert outcome("projections", projections()) == HOLDS == outcome("projections", projections(linear=4.5))


@pytest.mark.parametrize("other", OTHERS)
def test_every_other_kind_counts(other):
    assert outcome("projections", projections(**{other: 4.9})) == FAILS
    assert outcome("projections", projections(**{other: None})) == UNDECIDED
