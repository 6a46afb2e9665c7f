"""The numbers of the paper are consistent; ``test_page.py`` compares them with the committed pages."""

from itertools import pairwise
from statistics import mean

from fairseq_linformer.reproduction.paper_numbers import (
    TABLE_2,
    TABLE_3_DIMENSIONS,
    TABLE_3_MEMORY,
    TABLE_3_TIME,
    table_3,
)

AVERAGES = (92.25, 91.75, 91.85, 91.83, 92.08, 92.03, 92.30, 91.90, 90.45, 91.90, 91.83, 92.18)
"""The last column of Table 2."""


def test_table_2():
    found = [mean(accuracies.values()) for accuracies in TABLE_2.values()]
    assert all(abs(ours - printed) < 0.006 for ours, printed in zip(found, AVERAGES, strict=True))


def test_table_3():
    """Both gains grow with n, and with a smaller k."""
    for half in (TABLE_3_TIME, TABLE_3_MEMORY):
        grid = [[table_3(half, n, k) for k in TABLE_3_DIMENSIONS] for n in half]
        for line in [*map(reversed, grid), *zip(*grid)]:
            printed = [gain for gain in line if gain is not None]
            assert all(a <= b for a, b in pairwise(printed))
    assert table_3(TABLE_3_TIME, 512, 128) == 1.5 and table_3(TABLE_3_TIME, 512, 512) is None
