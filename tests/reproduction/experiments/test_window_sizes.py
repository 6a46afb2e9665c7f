"""Window sizes: counted against ignored, at both k."""

import pytest

from fairseq_linformer.reproduction.experiments.window_sizes import models
from fairseq_linformer.reproduction.runs import WINDOWS
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import outcome, three, trained

LABELS = [f"k={k}, {sizes}" for k in (16, 32) for sizes in ("counted", "ignored")]


def test_models_differ_in_sizes_only():
    found = {name: run(SCALES["cpu"], 1).model for name, run in models(SCALES["cpu"]).items()}
    assert [*found] == ["roberta", *LABELS]
    counted, ignored = (found[name].describe() for name in LABELS[:2])
    assert counted.pop("windows") == WINDOWS and ignored.pop("windows") == "first position separate, sizes ignored"
    assert counted == ignored and len({model.name for model in found.values()}) == 5


@pytest.mark.parametrize("model", LABELS[::2])
@pytest.mark.parametrize("bits, expected", [(5.0, HOLDS), (5.001, FAILS), (None, UNDECIDED)])
def test_counted_sizes_lower_the_perplexity_at_each_k(model, bits, expected):
    found = {"roberta": 4.8, **dict.fromkeys(LABELS, 5.0), model: bits}
    record = trained("window-sizes", {name: three(value) for name, value in found.items() if value}, fall=0.5)
    assert outcome("window-sizes", record) == expected
