"""Missing and truncated data is named before training starts."""

import re
import shutil

import numpy as np
import pytest

from fairseq_linformer.corpus.binarized import BinarizedWriter
from fairseq_linformer.models import datasets

from .. import fairseq_commands
from ..damaged_data import DAMAGE


@pytest.fixture
def prefix(tmp_path):
    writer = BinarizedWriter(tmp_path / "train", np.uint16)
    writer.add(np.arange(4, 10), np.array([2, 1, 3]))
    writer.finish()
    return tmp_path / "train"


def test_intact_dataset(prefix):
    assert [row.tolist() for row in datasets.open_dataset(prefix)] == [[4, 5], [6], [7, 8, 9]]


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign"])
@pytest.mark.parametrize("suffix", ["idx", "bin"])
def test_damage_is_found(damage, suffix, prefix):
    path = prefix.with_suffix(f".{suffix}")
    DAMAGE[damage](path)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} "):
        datasets.open_dataset(prefix)


@pytest.mark.parametrize("suffix", ["idx", "bin"])
def test_one_file_of_two_is_missing(suffix, prefix):
    prefix.with_suffix(f".{suffix}").unlink()
    for load in (datasets.data_utils.load_indexed_dataset, datasets.open_dataset):
        with pytest.raises(ValueError, match=f"train.{suffix} does not exist, but"):
            load(str(prefix))


def test_only_empty_rows(tmp_path):
    """numpy cannot map an empty file."""
    writer = BinarizedWriter(tmp_path / "train", np.uint16)
    writer.add(np.arange(0), np.array([0, 0]))
    writer.finish()
    with pytest.raises(ValueError, match="train.idx has no rows, or only empty rows"):
        datasets.open_dataset(tmp_path / "train")


@pytest.mark.slow
def test_training_names_the_damaged_file(mlm_data, tmp_path):
    data = shutil.copytree(mlm_data, tmp_path / "data")
    DAMAGE["truncated"](data / "train.bin")
    with pytest.raises(SystemExit, match=r"^fairseq-train: \S*data/train.bin must have .* bytes, as in train.idx"):
        fairseq_commands.train(data, tmp_path / "run", updates=2)
