"""A small training job for tests, its control, and its results."""

import os
import sys
from pathlib import Path

from fairseq_linformer.training.job import TrainingJob
from fairseq_linformer.training.run_folder import write_config

from ..fairseq_commands import load

ROOT = Path(__file__).parents[2]
SCRIPT = "scripts/slurm/train.sbatch"

WORKER = """
import logging, os, signal, sys, time
if "fairseq_linformer.training.worker" in " ".join(sys.orig_argv):
    import fairseq.trainer
    train_step = fairseq.trainer.Trainer.train_step

    def controlled(self, *args, **kwargs):
        updates = str(self.get_num_updates())
        if updates in os.environ.get("HOLD", "").split(","):
            logging.getLogger("test").info(f"waiting after update {updates}")
            while not signal.getsignal(signal.SIGTERM).__self__.received:
                time.sleep(0.05)
        if updates == os.environ.get("FAIL") and os.environ["RANK"] == "1":
            raise ArithmeticError("the update went wrong")
        return train_step(self, *args, **kwargs)

    fairseq.trainer.Trainer.train_step = controlled
"""
"""A sitecustomize.py: after so many updates, HOLD, workers wait for a signal to stop; after FAIL rank 1 fails."""


def controlled(folder, **variables):
    """Environment of a job whose workers obey HOLD and FAIL."""
    (folder / "sitecustomize.py").write_text(WORKER)
    return {"PYTHONPATH": str(folder), **variables}


def stand_in(path: Path, script: str) -> Path:
    """Write an executable shell script in place of a program."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return path


def overrides(data, updates=12, **more):
    """A model of 2 layers and 16 dimensions; updates of 4 micro-batches of 4 sequences of 16 tokens."""
    options = {
        "+run": "tiny",
        "task.data": data,
        "task.tokens_per_sample": 16,
        "dataset.batch_size": 4,
        "dataset.num_workers": 1,
        "dataset.data_buffer_size": 0,
        "dataset.disable_validation": "true",
        "optimization.update_freq": "[4]",
        "optimization.max_update": updates,
        "+model.encoder_embed_dim": 16,
        "+model.encoder_ffn_embed_dim": 32,
        "+model.encoder_attention_heads": 2,
        "model.projected_dim": 8,
        "common.log_interval": 1,
        "model.dropout": 0.1,
        **more,
    }
    return [f"{key}={value}" for key, value in options.items()]


def write_run(words, folder: Path) -> None:
    """Write the run folder of a job on CPUs."""
    write_config(TrainingJob("configs/pretrain/base.yaml", tuple(words), 1, "cpu", str(folder.parent), folder.name))


def environment(**more):
    """Environment of a job."""
    return {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", **more}


def read_log(run: Path) -> str:
    """What rank 0 has logged in all attempts."""
    path = run / "logs/train.txt"
    return path.read_text() if path.exists() else ""


def is_waiting(run: Path, updates: int) -> bool:
    """Whether rank 0 waits because of HOLD. All ranks have then agreed to continue after that update."""
    return read_log(run).rpartition("waiting after update ")[2].startswith(f"{updates}\n")


def largest_difference(one: Path, other: Path) -> float:
    """Of parameters."""
    one, other = (load(run / "checkpoints")["model"] for run in (one, other))
    assert one.keys() == other.keys()
    return max(float((one[key].double() - other[key].double()).abs().max()) for key in one)


def find_worker(**variables) -> int:
    """The process ID of the worker with these variables in its environment."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            there = {*(path / "environ").read_bytes().split(b"\0")}
        except OSError:  # the process has ended
            continue
        if b"fairseq_linformer.training.worker" in words and wanted <= there:
            return int(path.name)
    raise AssertionError(f"no worker has {variables}")
