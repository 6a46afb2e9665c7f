"""A worker's rank, and jobs that it rejects."""

import multiprocessing
import os
import signal
import time
from multiprocessing.util import get_temp_dir

import pytest

from fairseq_linformer.errors import root_cause
from fairseq_linformer.training import worker
from fairseq_linformer.training.job import TrainingJob
from fairseq_linformer.training.run_folder import create_or_resume

from ..forked_worker import forget_temporary_folder
from .jobs import overrides

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "here", "MASTER_PORT": "29500"}


@pytest.fixture
def torchrun(monkeypatch):
    """Set the variables that torchrun sets."""
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)


def test_rank_of_a_process(torchrun):
    rank = worker.read_rank()
    assert rank == (3, 4, 1) and (rank.rank, rank.world_size, rank.local_rank) == (3, 4, 1)
    assert str(rank).startswith("rank 3 of 4 on ")


@pytest.mark.parametrize("name", TORCHRUN)
def test_missing_variable_is_reported(name, torchrun, monkeypatch):
    monkeypatch.delenv(name)
    with pytest.raises(ValueError, match=f"^{name} is not set"):
        worker.read_rank()


def test_worker_rejects_a_mismatched_job(torchrun, mlm_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(worker.StopRequest, "listen", lambda self: None)
    monkeypatch.setattr(worker, "stop_after_update", lambda *_: pytest.fail("it trains"))
    words = [*overrides(mlm_data), "--device=cpu", f"--runs={tmp_path}", "--name=run"]
    assert worker.main([*words, "--processes=4"]) == 1
    assert "config.yaml" in capsys.readouterr().err
    create_or_resume(
        TrainingJob("configs/pretrain/base.yaml", tuple(overrides(mlm_data)), 2, "cpu", str(tmp_path), "run")
    )
    assert worker.main([*words, "--processes=2"]) == 1
    assert "rank 3 of 4" in capsys.readouterr().err


def test_root_cause_of_a_failure():
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        assert str(root_cause(error)) == "'first'"
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second") from None
    except ValueError as error:
        assert str(root_cause(error)) == "second"


def _raise(number, frame):
    raise RuntimeError("a loader was killed")


def _exit_with_a_loader(writing):
    signal.signal(signal.SIGCHLD, _raise)  # as PyTorch does
    forget_temporary_folder()
    os.write(writing, get_temp_dir().encode())
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,)).start()
    worker._exit_now(7)


def test_exit_leaves_no_process_that_keeps_the_output_open_and_no_folder():
    reading, writing = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=_exit_with_a_loader, args=(writing,))
    process.start()
    os.close(writing)
    with open(reading, "rb") as output:
        folder = output.read()  # to its end, since all processes that could write have ended
    process.join()
    assert process.exitcode == 7 and folder and not os.path.exists(folder)


@pytest.mark.slow
@pytest.mark.parametrize("options, minutes", [([], 30), (["--collective-timeout=90"], 90)])
def test_timeout_and_hidden_gpus(options, minutes, torchrun, mlm_data, tmp_path, monkeypatch):
    """A run on the CPU of a GPU node must not reserve memory of its first GPU."""
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    groups = ("init_process_group", "new_group")
    for name in groups:
        monkeypatch.setattr(worker.dist, name, getattr(worker.dist, name))  # restored at the end
    for owner, name in (
        (worker.Trainer, "train_step"),
        (worker.hydra_train, "pre_main"),
        (worker, "stop_after_update"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(worker.StopRequest, "listen", lambda self: None)
    monkeypatch.setattr(worker, "stop_after_update", lambda *_: None)
    monkeypatch.setattr(worker.hydra_train, "cli_main", lambda: None)
    create_or_resume(
        TrainingJob("configs/pretrain/base.yaml", tuple(overrides(mlm_data)), 1, "cpu", str(tmp_path), "run")
    )
    words = [*overrides(mlm_data), "--device=cpu", f"--runs={tmp_path}", "--name=run", "--processes=1", *options]
    assert worker.main(words) == 0
    assert all(getattr(worker.dist, name).keywords["timeout"].total_seconds() == 60 * minutes for name in groups)
    assert worker.os.environ["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_timeout_is_checked(value, torchrun, mlm_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(worker.StopRequest, "listen", lambda self: None)
    monkeypatch.setenv("COLLECTIVE_TIMEOUT", value)
    assert worker.main([*overrides(mlm_data), "--device=cpu", "--processes=4"]) == 1
    assert "--collective-timeout must be a finite number of minutes above 0" in capsys.readouterr().err
