"""A run resumes from its newest intact checkpoint; damaged ones are replaced."""

import os

import pytest
import torch

from fairseq_linformer.training.restore import LAST, is_intact, restore_last


def save(path, number, age=0):
    torch.save({"model": torch.full((5000,), float(number))}, path)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
    return path


def truncate(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_newest_intact_checkpoint_replaces_a_damaged_one(tmp_path):
    assert restore_last(tmp_path) == ["no checkpoint yet; training starts at update 0"]
    # Names and dates sort differently.
    old, new = save(tmp_path / "checkpoint_9_90.pt", 90, age=60), save(tmp_path / "checkpoint_10_100.pt", 100, age=30)
    last = save(tmp_path / LAST, 100)
    (tmp_path / f"{LAST}.tmp").touch()  # of a process that was killed
    assert restore_last(tmp_path) == [f"resuming from {last}"] and not (tmp_path / f"{LAST}.tmp").exists()

    truncate(last)
    damaged, replaced, resuming = restore_last(tmp_path)
    assert str(last) in damaged and new.name in replaced and resuming == f"resuming from {last}"
    assert last.read_bytes() == new.read_bytes() and (tmp_path / f"{LAST}.damaged").exists()

    truncate(last, 0)  # a full disk also leaves an empty file
    flip_a_bit(new)  # the size is unchanged
    first, second, replaced, _ = restore_last(tmp_path)
    assert str(last) in first and str(new) in second and old.name in replaced
    assert last.read_bytes() == old.read_bytes()

    for path in tmp_path.glob("*.pt"):
        truncate(path)
    with pytest.raises(ValueError, match="all 3 checkpoints"):
        restore_last(tmp_path)


@pytest.mark.parametrize("offset, value", [(8, 1), (10, 8), (10, 12), (10, 14)])
def test_a_changed_flag_or_method_of_an_entry_is_damage(tmp_path, offset, value):
    """Of the central directory: encrypted, or compressed with deflate, bzip2 or LZMA. Each raises another error."""
    path = save(tmp_path / LAST, 1)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + offset] = value
    local = 6 if offset == 8 else 8  # zipfile compares the flags, not the methods, with the header of the entry
    content[content.index(b"PK\x03\x04") + local] = value
    path.write_bytes(content)
    assert not is_intact(path)
