"""What stands in results/ is complete, and is what was written there."""

from pathlib import Path

import pytest

from fairseq_linformer.reproduce.ledger import read

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_entry_can_be_read(path):
    assert read(path).identifier == path.stem
