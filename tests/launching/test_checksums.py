"""Each checkpoint of a run has a checksum, which a killed process or a full disk never leaves wrong."""

import errno
import os
import random
import resource
import zipfile
from contextlib import contextmanager

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_linformer.errors import root_cause
from fairseq_linformer.files import sha256
from fairseq_linformer.launching import checksums
from fairseq_linformer.launching.checkpoints import LAST, find_damage, restore_last

from .. import fairseq_commands
from ..fault_seeds import SEEDS


@pytest.fixture
def patched(monkeypatch):
    for name in ("save_checkpoint", "_torch_persistent_save", "PathManager"):
        monkeypatch.setattr(checkpoint_utils, name, getattr(checkpoint_utils, name))  # restored at the end
    checksums.patch_saving()


def names(folder, suffix):
    return sorted(path.name for path in folder.glob(f"*{suffix}"))


@pytest.mark.slow
def test_training_writes_and_deletes_checksums_with_its_checkpoints(patched, mlm_data, tmp_path):
    # Two epochs of about 4 updates, so that checkpoints of epochs and updates are saved, copied and deleted.
    options = ["--save-interval-updates", 1, "--keep-interval-updates", 2, "--keep-last-epochs", 1, "--max-epoch", 2]
    fairseq_commands.train(mlm_data, tmp_path, *options, "--batch-size", 50, updates=100)
    checkpoints = names(tmp_path, ".pt")
    assert LAST in checkpoints and "checkpoint2.pt" in checkpoints and len(checkpoints) == 4
    assert names(tmp_path, ".sha256") == [f"{name}.sha256" for name in checkpoints] and not names(tmp_path, ".tmp")
    for name in checkpoints:
        assert checksums.read_checksum(tmp_path / name) == sha256(tmp_path / name)
        assert (tmp_path / f"{name}.sha256").read_text().endswith(f"  {name}\n")  # for sha256sum -c
    assert find_damage(tmp_path / LAST) is None


def save(path, number):
    """Save as a worker does."""
    with open(f"{path}.tmp", "wb") as file:
        digest = checksums.save_with_retries({"model": torch.full((5000,), float(number))}, file)
    checksums.replace(f"{path}.tmp", path, digest)
    return path


def flip_outside_the_entries(path):
    """Flip a bit of the padding between tensors, which no CRC covers."""
    content = bytearray(path.read_bytes())
    content[content.index(b"ZZZZ") + 1] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:9000]),
    "empty": lambda path: path.write_bytes(b""),
    "changed": flip_outside_the_entries,
    "foreign": lambda path: torch.save({"model": torch.ones(5000)}, path),
    "text": lambda path: path.write_text("not a checkpoint\n"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_last_checkpoint_that_differs_from_its_checksum_is_replaced(kind, tmp_path):
    older, last = save(tmp_path / "checkpoint_1_5.pt", 5), save(tmp_path / LAST, 10)
    DAMAGE[kind](last)
    damaged, replaced, _ = restore_last(tmp_path)
    assert damaged.startswith(f"{last}: it differs from its checksum {LAST}.sha256: it ")
    assert replaced == f"replaced {LAST} with {older.name}" and last.read_bytes() == older.read_bytes()
    assert checksums.read_checksum(last) == sha256(older) and find_damage(last) is None
    DAMAGE[kind](older)
    DAMAGE[kind](last)
    with pytest.raises(ValueError, match="all 2 checkpoints"):
        restore_last(tmp_path)


@pytest.mark.parametrize("content", [None, "", "0123", "\0" * 80, b"\xff" * 80])
def test_checkpoint_without_a_usable_checksum_is_checked_by_its_crcs(content, tmp_path):
    last = save(tmp_path / LAST, 1)
    path = checksums.checksum_path(last)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert restore_last(tmp_path) == [f"resuming from {last}"]
    DAMAGE["truncated"](last)
    with pytest.raises(ValueError, match="truncated"):
        restore_last(tmp_path)


def test_zip_file_that_is_no_checkpoint(tmp_path):
    with zipfile.ZipFile(tmp_path / LAST, "w") as file:
        file.writestr("word/document.xml", "<thesis/>")
    assert "not a PyTorch checkpoint" in find_damage(tmp_path / LAST)


class Killed(BaseException):
    """In place of SIGKILL."""


@pytest.mark.parametrize("step", ["unlink", "copyfile", "replace", "open_atomic", "rename the checksum"])
def test_killed_while_replacing_the_only_last_checkpoint(step, tmp_path, monkeypatch):
    """The state after any step is one that resumes from either the old or the new checkpoint."""
    last, new = save(tmp_path / LAST, 1), save(tmp_path / "other.pt", 2)
    contents = [last.read_bytes(), new.read_bytes()]

    def die(*args, **kwargs):
        raise Killed

    with monkeypatch.context() as patches:
        if step == "unlink":
            patches.setattr(checksums.Path, "unlink", die)
        elif step == "copyfile":
            patches.setattr(checksums.shutil, "copyfile", die)
        elif step == "replace":
            patches.setattr(checksums.os, "replace", die)
        elif step == "open_atomic":
            patches.setattr(checksums, "open_atomic", die)
        else:
            replace = os.replace
            patches.setattr(checksums.os, "replace", lambda a, b: die() if str(b).endswith("256") else replace(a, b))
        with pytest.raises(Killed):
            checksums.copy(new, last)
    new.unlink()
    assert restore_last(tmp_path) == [f"resuming from {last}"]
    assert last.read_bytes() == contents[step in ("open_atomic", "rename the checksum")]
    assert names(tmp_path, "") == [LAST, *([f"{LAST}.sha256"] if step in ("unlink", "copyfile") else [])]


@pytest.mark.parametrize("failures", [2, 3])
def test_retry_after_a_full_disk_writes_an_intact_checkpoint(failures, tmp_path, monkeypatch):
    save, positions = torch.save, []
    path = tmp_path / LAST

    with open(path, "wb") as file:

        def full_at_first(state, hashed):
            positions.append(file.tell())
            if len(positions) <= failures:
                hashed.write(b"x" * 1000)
                raise OSError(errno.ENOSPC, "No space left on device")
            save(state, hashed)

        monkeypatch.setattr(torch, "save", full_at_first)
        if failures < 3:
            digest = checksums.save_with_retries({"model": torch.ones(5)}, file)
        else:
            with pytest.raises(OSError, match=f"No space left.*{path}"):
                checksums.save_with_retries({}, file)
    assert positions == [0, 0, 0] and (find_damage(path) is None) == (failures < 3)
    assert failures == 3 or digest == sha256(path)


@contextmanager
def files_up_to(size):
    """Writing more to a file fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("values", [10, 1_000_000])  # fewer and more bytes than Python buffers
def test_full_disk_is_reported_with_the_file(values, seed, patched, tmp_path):
    last = save(tmp_path / LAST, 1)
    # The file has 1,500 bytes more than its tensor.
    limit = random.Random(f"{values} {seed}").randrange(4 * values + 1000)
    with files_up_to(limit), pytest.raises(OSError) as end:
        checkpoint_utils.torch_persistent_save({"model": torch.ones(values)}, str(last))
    error = root_cause(end.value)  # torch raises an error of its own
    assert isinstance(error, OSError) and (error.errno, error.filename) == (errno.EFBIG, f"{last}.tmp")
    assert restore_last(tmp_path) == [f"resuming from {last}"] and names(tmp_path, "") == [LAST, f"{LAST}.sha256"]


def test_full_disk_while_copying(patched, tmp_path):
    last, new = save(tmp_path / LAST, 1), save(tmp_path / "checkpoint1.pt", 2)
    before = last.read_bytes()
    with files_up_to(1000), pytest.raises(OSError, match=str(last)):
        checkpoint_utils.PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_bytes() == before and find_damage(last) is None and not names(tmp_path, ".tmp")
