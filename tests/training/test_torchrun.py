"""scripts/torchrun.sh: training without Slurm. CI kills ranks without torchrun, in ``test_kills.py``."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from ..fairseq_commands import free_port, same_bits
from . import jobs
from .two_ranks import TwoRanks

pytestmark = pytest.mark.nightly

UPDATES = 12


def start(runs, *arguments, **variables):
    variables = {"NPROC_PER_NODE": "2", "MASTER_PORT": str(free_port()), **variables}
    return subprocess.Popen(
        [jobs.ROOT / "scripts/torchrun.sh", "--device=cpu", f"--runs={runs}", *arguments],
        env=jobs.environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(job):
    output, _ = job.communicate(timeout=900)
    return job.returncode, output


def read_until(job, text):
    """Wait until rank 0 prints it."""
    lines = []
    while line := job.stdout.readline():
        lines.append(line)
        if text in line:
            return
    raise AssertionError("".join(lines))


@pytest.fixture(scope="module")
def whole(mlm_data, tmp_path_factory) -> Path:
    """The folder of an undisturbed run of two ranks without torchrun."""
    job = TwoRanks(mlm_data, tmp_path_factory.mktemp("undisturbed"), "run", UPDATES)
    job.finish(job.start_ranks())
    return job.folder


def test_stopped_and_killed_jobs_resume_bit_identically(whole, mlm_data, tmp_path):
    """The command is rerun after a signal, after a rank was killed, and after torchrun and all others were."""
    run = TwoRanks(mlm_data, tmp_path, "run", UPDATES, **{"checkpoint.save_interval_updates": 2})
    runs = os.path.relpath(tmp_path, jobs.ROOT)  # as a user would

    def train(hold=""):
        job = start(runs, "--name=run", *run.arguments, **jobs.controlled(tmp_path, HOLD=str(hold)))
        if hold:
            read_until(job, f"waiting after update {hold}")
        return job

    stopped = train(2)
    os.kill(stopped.pid, signal.SIGTERM)
    status, output = finish(stopped)
    assert status != 0 and "received a signal to stop; saving at update 3" in output

    job = train(5)
    path = f"{jobs.ROOT.resolve()}:{tmp_path}"
    lost, held = (jobs.find_worker(LOCAL_RANK=rank, PYTHONPATH=path) for rank in (1, 0))
    os.kill(lost, signal.SIGKILL)
    status, output = finish(job)
    assert status == 1 and "Signal 9 (SIGKILL)" in output and not os.path.exists(f"/proc/{held}"), output

    job = train(9)
    processes = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
    for process in processes:
        process.kill()
    assert finish(job)[0] == -signal.SIGKILL and not psutil.wait_procs(processes, 60)[1]

    status, output = finish(train())
    assert status == 0 and (run.folder / "done").exists(), output
    assert '"num_updates": "9"' in output and '"num_updates": "8"' not in output
    assert same_bits(run.folder / "checkpoints", whole / "checkpoints")
