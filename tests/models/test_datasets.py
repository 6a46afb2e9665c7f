"""Damaged data is named before training starts, and the run's checkpoints stay as they are."""

import re
import shutil

import numpy as np
import pytest

from fairseq_linformer.corpus.binarized import BinarizedWriter
from fairseq_linformer.models import datasets, recorded_files

from .. import fairseq_commands
from ..damaged_data import DAMAGE, write_manifest
from ..fairseq_commands import TINY

PARTS = {
    "shard0": ["train.idx", "train.bin", "valid.idx", "valid.bin", "dict.txt"],
    "input0": ["train.idx", "train.bin", "dict.txt"],
    "label": ["train.idx", "train.bin", "dict.txt"],
}
"""Files of a corpus, and of a task."""
CASES = [
    *((damage, "shard0", f"train.{suffix}") for damage in DAMAGE if damage != "changed" for suffix in ("idx", "bin")),
    *(("changed", part, name) for part, names in PARTS.items() for name in names),
]
"""Every damage to train.idx and train.bin of the corpus; a changed byte, which only checksums detect, also in
every other file."""


def run(part, data, save_dir, updates):
    if part == "shard0":
        fairseq_commands.train(data / part, save_dir, updates=updates, validation=True)
    else:
        fairseq_commands.finetune(data, save_dir, *TINY, updates=updates)


@pytest.fixture(scope="module")
def started(mlm_data, class_data, tmp_path_factory):
    """By part: data with a manifest, and the folder of a run that has a checkpoint."""
    folder = tmp_path_factory.mktemp("started")
    shutil.copytree(mlm_data, folder / "mlm/data/shard0")
    shutil.copytree(class_data, folder / "class/data")
    for task, part in (("mlm", "shard0"), ("class", "input0")):
        write_manifest(folder / task / "data")
        run(part, folder / task / "data", folder / task / "run", 1)
    return {part: folder / ("mlm" if part == "shard0" else "class") for part in PARTS}


@pytest.mark.slow
@pytest.mark.parametrize("damage, part, name", CASES)
def test_training_names_the_damaged_file(damage, part, name, started, tmp_path):
    shutil.copytree(started[part], tmp_path, dirs_exist_ok=True)
    DAMAGE[damage](tmp_path / "data" / part / name)
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(SystemExit, match=rf"^fairseq-train: \S*{part}/{re.escape(name)} ") as end:
        run(part, tmp_path / "data", tmp_path / "run", 2)
    assert "\n" not in end.value.code
    assert before and before == {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign"])
@pytest.mark.parametrize("part", ["shard0", "input0"])
def test_training_names_a_damaged_manifest(damage, part, started, tmp_path):
    shutil.copytree(started[part], tmp_path, dirs_exist_ok=True)
    DAMAGE[damage](tmp_path / "data/manifest.json")
    with pytest.raises(SystemExit, match=r"^fairseq-train: \S*data/manifest.json cannot be read"):
        run(part, tmp_path / "data", tmp_path / "run", 2)


@pytest.fixture
def prefix(tmp_path):
    writer = BinarizedWriter(tmp_path / "train", np.uint16)
    writer.add(np.arange(4, 10), np.array([2, 1, 3]))
    writer.finish()
    return tmp_path / "train"


def test_intact_dataset_without_a_manifest(prefix):
    assert [row.tolist() for row in datasets.open_dataset(prefix, 10)] == [[4, 5], [6], [7, 8, 9]]


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign"])
@pytest.mark.parametrize("suffix", ["idx", "bin"])
def test_damage_is_found_without_a_manifest(damage, suffix, prefix):
    path = prefix.with_suffix(f".{suffix}")
    DAMAGE[damage](path)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} "):
        datasets.open_dataset(prefix, 10)


@pytest.mark.parametrize("byte", range(26 + 3 * 12))
def test_each_changed_byte_of_an_index_is_found_without_a_manifest(byte, prefix):
    path = prefix.with_suffix(".idx")
    content = bytearray(path.read_bytes())
    content[byte] ^= 64
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"train\.(idx|bin) "):
        datasets.open_dataset(prefix, 10)


def test_ids_beyond_the_dictionary(prefix):
    """The dictionary lost its end, or is of other data."""
    with pytest.raises(ValueError, match="train.bin has the ID 9, but .* 8 entries"):
        datasets.open_dataset(prefix, 8)


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
    with pytest.raises(ValueError, match="train.idx has only empty rows"):
        datasets.open_dataset(tmp_path / "train", 8)


def test_large_files_are_not_hashed(prefix, tmp_path, monkeypatch):
    (tmp_path / "shard0").mkdir()
    path = (tmp_path / "train.bin").rename(tmp_path / "shard0/train.bin")
    write_manifest(tmp_path)
    DAMAGE["changed"](path)
    with pytest.raises(ValueError, match="train.bin is damaged"):
        recorded_files.check_recorded(path)
    monkeypatch.setattr(recorded_files, "MAX_HASHED_BYTES", 11)
    recorded_files.check_recorded(path)
