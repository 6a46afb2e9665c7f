"""Missing and truncated data is named."""

import re
from pathlib import Path

import numpy as np
import pytest

from fairseq_linformer.data.binarized import BinarizedWriter
from fairseq_linformer.models import datasets

from ..damaged_data import DAMAGE


@pytest.fixture
def prefix(tmp_path):
    writer = BinarizedWriter(tmp_path / "train", np.uint16)
    writer.add(np.arange(4, 10), np.array([2, 1, 3]))
    writer.finish()
    return tmp_path / "train"


def test_intact_dataset(prefix):
    assert [row.tolist() for row in datasets.open_dataset(prefix)] == [[4, 5], [6], [7, 8, 9]]


@pytest.mark.parametrize("damage", [*DAMAGE, "missing"])
@pytest.mark.parametrize("suffix", ["idx", "bin"])
def test_damage_is_found(damage, suffix, prefix):
    path = prefix.with_suffix(f".{suffix}")
    DAMAGE.get(damage, Path.unlink)(path)
    wrong = {"idx": "is truncated", "bin": "must have 12 bytes"}[suffix]
    message = "does not exist" if damage == "missing" else wrong
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} {message}"):
        datasets.open_dataset(prefix)


def test_only_empty_rows(tmp_path):
    """numpy cannot map an empty file."""
    writer = BinarizedWriter(tmp_path / "train", np.uint16)
    writer.add(np.arange(0), np.array([0, 0]))
    writer.finish()
    with pytest.raises(ValueError, match="train.bin must have 0 bytes, .* got 0"):
        datasets.open_dataset(tmp_path / "train")
