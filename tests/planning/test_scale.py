"""docs/scale.md is what the planner says."""

from pathlib import Path

import pytest

from fairseq_linformer.planning.scaling import page

PAGE = Path(__file__).parents[2] / "docs/scale.md"


@pytest.mark.slow
def test_the_page_is_up_to_date():
    """Else: python -m fairseq_linformer.planning.scaling docs/scale.md"""
    assert PAGE.read_text().splitlines() == list(page())[:-1]  # which ends with an empty line
