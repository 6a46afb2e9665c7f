"""Signals and failures in train.sbatch, and the command of torchrun.sh, without Slurm or PyTorch."""

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


@pytest.fixture
def start(tmp_path):
    """Start the script with stand-ins for Slurm's commands, and a shell script as Python."""
    jobs.stand_in(tmp_path / "bin/srun", SRUN)
    jobs.stand_in(tmp_path / "bin/scontrol", SCONTROL)

    def start(python, state="RUNNING"):
        variables = {
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "PYTHON": str(jobs.stand_in(tmp_path / "bin/python", python)),
            "STATE": state,
            "SLURM_SUBMIT_DIR": str(jobs.ROOT),
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "n1",
            "SLURM_NTASKS": "2",
            "SLURM_PROCID": "0",
            "SLURM_LOCALID": "0",
        }
        return subprocess.Popen(
            ["bash", jobs.ROOT / jobs.SCRIPT, "runs/a"],
            env={**os.environ, **variables},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def finish(job):
    output, _ = job.communicate(timeout=300)
    return job.returncode, output


@pytest.mark.parametrize(
    "number, state, status",
    [(signal.SIGUSR1, "RUNNING", 0), (signal.SIGTERM, "RUNNING", 0), (signal.SIGTERM, "CANCELLED", 75)],
)
def test_a_stopped_job_is_requeued_unless_it_was_cancelled(number, state, status, start, tmp_path):
    job = start(f"echo $$ > {tmp_path}/started; sleep 1; exit 75", state)
    while not (tmp_path / "started").exists():
        assert job.poll() is None, finish(job)
        time.sleep(0.01)
    os.kill(job.pid, number)
    found, output = finish(job)
    assert found == status and ("requeued" in output) == (state == "RUNNING"), output


@pytest.mark.parametrize("status", [0, 1, 137])
def test_exit_status_of_workers_is_that_of_the_job(status, start):
    found, output = finish(start(f"exit {status}"))
    assert found == status and "requeued" not in output


def test_torchrun_starts_the_workers_of_two_nodes(tmp_path):
    """In the run folder that the command prints, which is checked for all of them."""
    run = tmp_path / "a b"
    run.mkdir()
    script = f"""case "$*" in *submit*) echo "$@" >&2; echo '{run}';; *) echo "$@"; esac"""
    python = str(jobs.stand_in(tmp_path / "bin/python", script))
    variables = {"NODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "node0", "NPROC_PER_NODE": "8", "PYTHON": python}
    command = subprocess.run(
        [jobs.ROOT / "scripts/torchrun.sh", "--name=a b", "+run=tiny"],
        env=jobs.environment(**variables),
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert command.stdout.splitlines() == [
        "-m fairseq_linformer.cli submit --no-sbatch --nodes 2 --ntasks-per-node 8 --name=a b +run=tiny",
        "-m torch.distributed.run --nnodes 2 --node-rank 1 --nproc-per-node 8 --master-addr node0 --master-port 29500 "
        f"-m fairseq_linformer.training.worker {run}",
    ]
