"""Table 1: operations of a layer by n."""

import pytest

from fairseq_linformer.reproduction.experiments import operations as experiment
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import number, outcome, record


def operations(linformer, transformer):
    """A token's, at n = 512, 1024 and 2048."""
    found = [
        number("operations_per_token", value, model=model, n=n)
        for model, values in (("linformer", linformer), ("transformer", transformer))
        for n, value in [*zip((512, 1024, 2048), values)][::-1]
    ]
    return record(found, "operations-cpu", experiment="operations")


@pytest.mark.parametrize(
    "linformer, transformer, expected",
    [
        ((100, 100, 100), (100, 150, 300), HOLDS),
        ((100, 500, 105), (100, 150, 300), HOLDS),
        ((100, 100, 106), (100, 150, 300), FAILS),
        ((100, 100, 100), (100, 150, 280), HOLDS),
        ((100, 100, 100), (100, 100, 187), HOLDS),  # 2^0.9 is 1.866
        ((100, 100, 100), (100, 100, 186), UNDECIDED),
    ],
)
def test_operations(linformer, transformer, expected):
    assert (experiment.SAME_COUNT, experiment.MIN_EXPONENT) == (1.05, 0.9)
    assert outcome("table-1-operations", operations(linformer, transformer)) == expected


@pytest.mark.slow
def test_operations_of_a_layer():
    """A token's, of width 64 and k = 16, two for each product: E X is shared by K and V, which then have k rows."""
    (found,) = find("operations").measure("smoke", Inputs(), "it")
    query_and_output, feed_forward, projected, attention = (
        2 * 2 * 64 * 64,
        2 * 2 * 64 * 256,
        2 * 16 * 64,
        2 * 2 * 16 * 64,
    )
    for n in (64, 128, 256):
        of = {
            model: found.find("operations_per_token", model=model, n=n).value for model in ("linformer", "transformer")
        }
        assert of["transformer"] == 2 * query_and_output + feed_forward + 2 * 2 * n * 64
        assert of["linformer"] == query_and_output * (1 + 16 / n) + feed_forward + projected + attention
    assert (
        found.configuration == {"width": 64, "heads": 2, "k": 16, "lengths": [64, 128, 256]}
        and found.identifier == "operations-smoke"
    )
    assert experiment.SIZES["cpu"] == (768, 12, 256, tuple(2**i for i in range(9, 17)))
