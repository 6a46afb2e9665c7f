"""How train.sbatch and torchrun.sh treat signals, failures and variables, without Slurm or PyTorch."""

import os
import re
import signal
import subprocess
import time

import pytest

from . import jobs

SRUN = """
while case "$1" in -*) true ;; *) false ;; esac; do shift; done
"$@"
"""
SCONTROL = """
case "$1 $2" in
"show hostnames") echo n1 ;;
"-o show") echo "JobId=7 JobState=$STATE NodeList=n1" ;;
"requeue 7") [ -z "$REFUSED" ] ;;
*) exit 2 ;;
esac
"""
PYTHON = """
step() { [ "$HOLD" != "$1" ] || { touch "$RUNS/held"; until [ -e "$RUNS/release" ]; do sleep 0.05; done; }; }
case "$*" in
*"launching.preflight folder"*) step folder; mkdir -p "$RUNS/run"; touch "$RUNS/run/config.yaml"; echo "$RUNS/run" ;;
*"launching.preflight node"*) step node ;;
*launching.worker*) eval "$WORKER" ;;
*) exit 2 ;;
esac
"""


@pytest.fixture
def start(tmp_path):
    """Start a script with stand-ins for Slurm's commands and for Python."""
    jobs.stand_in(tmp_path / "bin/srun", SRUN)
    jobs.stand_in(tmp_path / "bin/scontrol", SCONTROL)
    variables = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHON": str(jobs.stand_in(tmp_path / "bin/python", PYTHON)),
        "RUNS": str(tmp_path), "run": f"{tmp_path}/run", "logs": f"{tmp_path}/run/logs/7", "STATE": "RUNNING",
        "REFUSED": "", "HOLD": "", "WORKER": "", "SLURM_SUBMIT_DIR": str(jobs.ROOT), "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "n1", "SLURM_NTASKS": "2", "SLURM_NNODES": "1", "NPROC_PER_NODE": "2",
    }  # fmt: skip

    def start(script=jobs.SCRIPT, **more):
        for name in ("held", "release"):
            (tmp_path / name).unlink(missing_ok=True)
        return subprocess.Popen(["bash", jobs.ROOT / script], env={**os.environ, **variables, **more}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip

    return start


def finish(job):
    said, _ = job.communicate(timeout=300)
    return job.returncode, said


@pytest.fixture
def stop_while_held(start, tmp_path):
    """Start a script, send it a signal in the step that HOLD names, and let the step end."""

    def stop(number, *arguments, **variables):
        job = start(*arguments, **variables)
        while not (tmp_path / "held").exists():
            assert job.poll() is None, finish(job)
            time.sleep(0.01)
        os.kill(job.pid, number)
        (tmp_path / "release").touch()
        return finish(job)

    return stop


def test_a_job_that_is_always_stopped_before_it_trains_ends(stop_while_held, tmp_path):
    for hold in ("folder", "node"):
        status, said = stop_while_held(signal.SIGUSR1, HOLD=hold)
        assert status == 0 and "queued again" in said
    status, said = stop_while_held(signal.SIGTERM, HOLD="node")
    assert status == 1 and "stopped before training three times in a row" in said
    assert (tmp_path / "run/stops.txt").read_text() == "begin\n" * 3


def test_a_job_is_not_queued_again_where_that_is_wrong_or_fails(stop_while_held):
    status, said = stop_while_held(signal.SIGTERM, HOLD="node", STATE="CANCELLED")
    assert status == 1 and "cancelled" in said
    status, said = stop_while_held(signal.SIGTERM, HOLD="node", REFUSED="yes")
    assert status == 1 and "could not be queued again" in said


@pytest.mark.slow
def test_the_end_of_the_workers_is_the_end_of_the_job(start, tmp_path):
    run = tmp_path / "run"
    status, said = finish(start(WORKER='touch "$run/stopped"'))
    assert status == 0 and "queued again" in said and not (run / "done").exists()
    (run / "stopped").unlink()
    killed = 'echo "out of memory" >"$logs/rank-1.txt"; echo "srun: error: n1: task 1: Killed" >&2; exit 137'
    status, said = finish(start(WORKER=killed))
    assert status == 137 and "rank 1 failed" in said and "out of memory" in said and not (run / "done").exists()
    status, said = finish(start())
    assert status == 0 and (run / "done").exists()
    status, said = finish(start(WORKER="exit 1"))
    assert status == 0 and "training is complete already" in said


def test_torchrun_can_be_stopped_before_it_trains(stop_while_held, tmp_path):
    status, said = stop_while_held(signal.SIGTERM, "scripts/torchrun.sh", HOLD="folder")
    assert status == 75 and "stopped by a signal before training" in said
    assert not (tmp_path / "run/logs").exists()


@pytest.mark.parametrize("variables, said", [
    ({"NPROC_PER_NODE": "0"}, "no GPU"),
    ({"NPROC_PER_NODE": "two"}, "NPROC_PER_NODE is two"),
    ({"NODES": "0"}, "NODES is 0"),
    ({"NODES": "2", "NODE_RANK": "2"}, "NODE_RANK is 2"),
    ({"NODES": "2"}, "MASTER_ADDR"),
    ({"MASTER_PORT": "x"}, "MASTER_PORT is x"),
    ({"PYTHON": "/nowhere/python"}, "/nowhere/python"),
])  # fmt: skip
def test_torchrun_refuses_variables_by_name(start, variables, said, tmp_path):
    status, printed = finish(start("scripts/torchrun.sh", **variables))
    assert status in (1, 2) and re.fullmatch(f"torchrun.sh: .*{said}.*\n", printed), printed
    assert not (tmp_path / "run").exists()
