"""A run folder belongs to one configuration and one job at a time, records its attempts, and resumes from its newest
intact checkpoint."""

import errno
import json
import multiprocessing
import os
import zipfile

import pytest
import torch
from omegaconf import OmegaConf

from fairseq_linformer.checkpoints.identify import LAST
from fairseq_linformer.training import run_folder
from fairseq_linformer.training.job import TrainingJob
from fairseq_linformer.training.run_folder import (
    check_run_folder,
    lock_folder,
    read_config,
    restore_last,
    training_provenance,
    write_config,
)

from .jobs import overrides

BASE = "configs/pretrain/base.yaml"


@pytest.fixture
def training(mlm_data, tmp_path):
    def training(processes=1, **more):
        return TrainingJob(BASE, tuple(overrides(mlm_data, **more)), processes, "cpu", str(tmp_path), "run")

    return training


@pytest.mark.slow
def test_a_run_resumes_with_the_same_configuration_only(training, tmp_path):
    check_run_folder(training())
    write_config(training())
    where = {"common.log_interval": 7, "checkpoint.save_interval_updates": 3, "dataset.num_workers": 0}
    again = training(processes=4, **where)
    check_run_folder(again)
    write_config(again)
    assert read_config(tmp_path / "run").common.log_interval == 7
    other = training(**{"common.seed": 9, "model.dropout": 0.5, "optimization.update_freq": "[8]"})
    differing = "common.seed must be 1, got 9; model.dropout must be 0.1, got 0.5; optimization.update_freq must be .4."
    with pytest.raises(ValueError, match=differing):
        check_run_folder(other)
    check_run_folder(other, ("common.seed", "model.dropout", "optimization.update_freq"))


def test_a_worker_reads_the_configuration_that_was_composed(training, tmp_path):
    """As fairseq-hydra-train passes it on: resolved, and without types."""
    job = training()
    write_config(job)
    composed = OmegaConf.to_container(job.cfg, resolve=True, enum_to_str=True)
    assert OmegaConf.to_container(read_config(tmp_path / "run")) == composed
    assert composed["bmuf"]["distributed_world_size"] == 1 and composed["optimizer"]["adam_betas"] == "(0.9, 0.98)"


def test_rejects_a_folder_that_is_not_a_run_folder(training, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "thesis.tex").touch()
    with pytest.raises(ValueError, match="is not a run folder"):
        check_run_folder(training())
    (run / "thesis.tex").unlink()
    (run / ".config.yaml.1234").touch()  # from a job that was killed while writing
    check_run_folder(training())


def wait(started, ended):
    started.set()
    ended.wait()


def test_a_job_locks_its_folder_and_data_loaders_do_not_keep_the_lock(tmp_path):
    """Forked loaders notice only after up to 5 seconds that their job has ended; the next job may start sooner."""
    context = multiprocessing.get_context("fork")
    started, ended = context.Event(), context.Event()
    with lock_folder(tmp_path):
        loader = context.Process(target=wait, args=(started, ended), daemon=True)
        loader.start()
        started.wait()
        # Closing the file in the loader does not release the lock.
        with pytest.raises(ValueError, match="another job is training in"), lock_folder(tmp_path):
            pytest.fail("it is locked")
    with lock_folder(tmp_path):
        assert loader.is_alive()
    ended.set()
    loader.join()


def attempt(**more):
    return {"hardware": {"cores": 2}, "versions": {"torch": "2"}, "date": "2026-01-02", "commit": "a", **more}


def test_provenance_merges_all_attempts(tmp_path):
    for processes in (64, 32):
        run_folder.record_attempt(tmp_path, processes)
    path = tmp_path / run_folder.ATTEMPTS
    assert [json.loads(line)["processes"] for line in path.read_text().splitlines()] == [64, 32]
    other = attempt(hardware={"cores": 4}, commit=None, date="2026-01-01")
    path.write_text("".join(json.dumps(one) + "\n" for one in (attempt(), other, attempt(commit="b"))))
    assert training_provenance(tmp_path) == {
        "hardware": {"cores": "2; 4"},
        "versions": {"torch": "2"},
        "date": "2026-01-02",
        "commit": "a; b",
    }


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
    assert restore_last(tmp_path) == [f"no checkpoint in {tmp_path} yet"]
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


def test_a_checkpoint_that_cannot_be_read_is_not_taken_for_damaged(tmp_path, monkeypatch):
    """As on a network file system that is gone for a moment."""
    torch.save({"a": torch.zeros(3)}, tmp_path / "checkpoint_last.pt")

    def fail(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(zipfile.ZipFile, "testzip", fail)
    with pytest.raises(OSError, match="Input/output"):
        restore_last(tmp_path)
