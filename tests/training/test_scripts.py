"""Signals and failures in train.sbatch, without Slurm or PyTorch."""

import os
import signal
import subprocess
import time

import pytest

from . import jobs

SRUN = """
while case "$1" in -*) true ;; *) false ;; esac; do shift; done
exec "$@"
"""
SCONTROL = """
case "$1 $2" in
"show hostnames") echo n1 ;;
"-o show") echo "JobId=7 JobState=$STATE NodeList=n1" ;;
"requeue 7") echo requeued ;;
*) exit 2 ;;
esac
"""
PYTHON = 'eval "$WORKER"'


@pytest.fixture
def start(tmp_path):
    """Start the script with stand-ins for Slurm's commands and for Python."""
    jobs.stand_in(tmp_path / "bin/srun", SRUN)
    jobs.stand_in(tmp_path / "bin/scontrol", SCONTROL)
    variables = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "PYTHON": str(jobs.stand_in(tmp_path / "bin/python", PYTHON)),
        "STATE": "RUNNING",
        "SLURM_SUBMIT_DIR": str(jobs.ROOT),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "n1",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }

    def start(**more):
        return subprocess.Popen(
            ["bash", jobs.ROOT / jobs.SCRIPT],
            env={**os.environ, **variables, **more},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def finish(job):
    output, _ = job.communicate(timeout=300)
    return job.returncode, output


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
@pytest.mark.parametrize("state, status", [("RUNNING", 0), ("CANCELLED", 75)])
def test_a_stopped_job_is_requeued_unless_it_was_cancelled(number, state, status, start, tmp_path):
    python = jobs.stand_in(
        tmp_path / "bin/bash-python", f"exec bash -c 'echo $$ > {tmp_path}/started; sleep 1; exit 75'"
    )
    job = start(STATE=state, PYTHON=str(python))
    while not (tmp_path / "started").exists():
        assert job.poll() is None, finish(job)
        time.sleep(0.01)
    os.kill(job.pid, number)
    found, output = finish(job)
    assert found == status and ("requeued" in output) == (state == "RUNNING"), output


@pytest.mark.parametrize("worker, status", [("exit 0", 0), ("exit 1", 1), ("exit 137", 137)])
def test_exit_status_of_workers_is_that_of_the_job(worker, status, start):
    found, output = finish(start(WORKER=worker))
    assert found == status and "requeued" not in output
