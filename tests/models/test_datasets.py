"""Missing and truncated data is named."""

import re
from pathlib import Path

import numpy as np
import pytest

from fairseq_linformer.data.binarized import BinarizedWriter
from fairseq_linformer.models import datasets

DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3]),
    "empty": lambda path: path.write_bytes(b""),
    "foreign": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(range(256)) * 20),
}


@pytest.fixture
def prefix(tmp_path):
    writer = BinarizedWriter(tmp_path / "train", np.uint16)
    writer.add(np.arange(4, 10), np.array([2, 1, 3]))
    writer.finish()
    return tmp_path / "train"


@pytest.mark.parametrize("damage", [*DAMAGE, "missing"])
@pytest.mark.parametrize("suffix", ["idx", "bin"])
def test_damage_is_found(damage, suffix, prefix):
    path = prefix.with_suffix(f".{suffix}")
    DAMAGE.get(damage, Path.unlink)(path)
    wrong = {"idx": "is truncated", "bin": "must have 12 bytes"}[suffix]
    message = "does not exist" if damage == "missing" else wrong
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} {message}"):
        datasets.open_dataset(prefix)
