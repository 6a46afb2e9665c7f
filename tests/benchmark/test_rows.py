"""Rows of repeated measurements."""

import pytest

from fairseq_linformer.benchmark.rows import ratio


def test_ratios_are_computed_within_rounds():
    # The machine is half as fast in the second round; the ratio does not change.
    found = ratio([2.0, 4.0, 2.2], [1.0, 2.0, 1.0], "x")
    assert found == {"value": 2.0, "unit": "x", "low": 2.0, "high": 2.2, "repetitions": 3}
    with pytest.raises(ValueError):
        ratio([1.0, 2.0], [1.0])
