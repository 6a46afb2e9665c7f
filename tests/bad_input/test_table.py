"""The table has different cases, and is the one in the documentation."""

from pathlib import Path

from .cases import CASES
from .table import build_table

PAGE = Path(__file__).parents[2] / "docs/robustness.md"


def test_cases_are_different():
    assert len({case.words for case in CASES}) == len(CASES)


def test_the_page_has_the_current_table():
    assert build_table() in PAGE.read_text(encoding="utf-8")
