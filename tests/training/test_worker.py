"""Jobs that a worker rejects, its device, and its exit."""

import multiprocessing
import os
import signal
import time
from multiprocessing.util import get_temp_dir

import pytest
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf

from fairseq_linformer.training import worker
from fairseq_linformer.training.job import TrainingJob
from fairseq_linformer.training.run_folder import write_config

from ..forked_worker import forget_temporary_folder
from .jobs import overrides


@pytest.fixture
def run(monkeypatch, mlm_data, tmp_path):
    """Run a worker up to fairseq's training, and return its status."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "0,1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker.StopRequest, "listen", lambda self: None)
    monkeypatch.setattr(worker, "_configure_log", lambda files: None)
    monkeypatch.setattr(worker, "stop_after_update", lambda request: None)
    monkeypatch.setattr(worker, "_train", lambda cfg, rank: 0)

    def run(device="cpu"):
        words = overrides(mlm_data, **{"common.cpu": device == "cpu"})
        write_config(TrainingJob("configs/pretrain/base.yaml", tuple(words), 1, device, str(tmp_path), "run"))
        return worker.main("run")

    return run


@pytest.mark.slow
def test_training_on_a_cpu_hides_the_gpus_and_is_done_once(run, tmp_path, monkeypatch, capsys):
    """A run on the CPU of a GPU node must not reserve memory of its first GPU."""
    assert run() == 0 and os.environ["CUDA_VISIBLE_DEVICES"] == "" and (tmp_path / "run/done").exists()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker, "_train", lambda cfg, rank: pytest.fail("it trains"))
    assert run() == 0 and "already complete" in capsys.readouterr().out


@pytest.mark.parametrize("visible, device", [(8, 3), (1, 0)])
def test_device_of_a_process(monkeypatch, visible, device):
    """With --gpus-per-task=1 Slurm shows each process its own GPU only."""
    cfg = OmegaConf.create({"distributed_training": {"distributed_world_size": 8}})
    monkeypatch.setattr(worker.torch.cuda, "device_count", lambda: visible)
    worker._set_process(cfg, rank=3, local_rank=3)
    assert cfg.distributed_training.device_id == device and cfg.distributed_training.distributed_rank == 3


def test_a_machine_without_gpus_is_reported(run, monkeypatch, capsys):
    monkeypatch.setattr(worker.torch.cuda, "is_available", lambda: False)
    assert run("cuda") == 1 and "finds no GPU" in capsys.readouterr().err


def _raise(number, frame):
    raise RuntimeError("a loader was killed")


def _exit_with_a_loader(writing):
    signal.signal(signal.SIGCHLD, _raise)  # as PyTorch does
    forget_temporary_folder()
    os.write(writing, get_temp_dir().encode())
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,)).start()
    worker.exit_now(7)


def test_exit_leaves_no_process_that_keeps_the_output_open_and_no_folder():
    reading, writing = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=_exit_with_a_loader, args=(writing,))
    process.start()
    os.close(writing)
    with open(reading, "rb") as output:
        folder = output.read()  # to its end, since all processes that could write have ended
    process.join()
    assert process.exitcode == 7 and folder and not os.path.exists(folder)


def test_what_the_first_start_resets_is_kept_at_a_resume(tmp_path):
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.checkpoint.restore_file, cfg.checkpoint.reset_optimizer = "start.pt", True
    worker._prefer_own_checkpoint(cfg, tmp_path)
    assert cfg.checkpoint.reset_optimizer and cfg.checkpoint.continue_once == "start.pt"
    (tmp_path / "checkpoint_last.pt").touch()
    worker._prefer_own_checkpoint(cfg, tmp_path)
    assert not cfg.checkpoint.reset_optimizer
