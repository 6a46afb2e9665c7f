"""Growing: doubling n again and again against one step and training from scratch."""

import pytest

from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import outcome, three, trained, verdict


@pytest.mark.parametrize(
    "changed, expected",
    [({}, HOLDS), ({"at once": 4.9}, FAILS), ({"from scratch": 4.9}, FAILS), ({"at once": 5.0}, HOLDS)],
)
def test_growing(changed, expected):
    models = {"roberta": 5.0, "at once": 5.4, "from scratch": 5.5, **changed}
    assert outcome("growing", trained("growing", {model: three(bits) for model, bits in models.items()})) == expected


def test_both_others_are_needed():
    found = verdict("growing", trained("growing", {"roberta": three(5.0), "at once": three(5.4)}))
    assert (
        found.outcome == UNDECIDED
        and found.deciding[0].endswith("from scratch")
        and "at once: perplexity" in " ".join(found.remarks)
    )


@pytest.mark.parametrize("roberta, expected", [(5.8, HOLDS), (5.81, UNDECIDED)])
def test_roberta_has_learned_and_need_not_have_converged(roberta, expected):
    models = {"roberta": roberta, "at once": 8.0, "from scratch": 8.5}
    one = trained("growing", {model: three(bits) for model, bits in models.items()}, fall=0.5)
    assert outcome("growing", one) == expected
