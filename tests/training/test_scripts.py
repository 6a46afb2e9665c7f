"""Signals, failures and variables in train.sbatch and torchrun.sh, without Slurm or PyTorch."""

import os
import re
import signal
import subprocess
import time

import pytest

from fairseq_linformer.signals import hangup_signals

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
"-c import fairseq_linformer") ;;
*"training.preflight folder"*) step folder; mkdir -p "$RUNS/run"; touch "$RUNS/run/config.yaml"; echo "$RUNS/run" ;;
*"training.preflight node"*) step node ;;
*training.worker*) eval "$WORKER" ;;
*) exit 2 ;;
esac
"""


@pytest.fixture
def start(tmp_path):
    """Start a script with stand-ins for Slurm's commands and for Python."""
    jobs.stand_in(tmp_path / "bin/srun", SRUN)
    jobs.stand_in(tmp_path / "bin/scontrol", SCONTROL)
    variables = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "PYTHON": str(jobs.stand_in(tmp_path / "bin/python", PYTHON)),
        "RUNS": str(tmp_path),
        "run": f"{tmp_path}/run",
        "logs": f"{tmp_path}/run/logs/7",
        "STATE": "RUNNING",
        "REFUSED": "",
        "HOLD": "",
        "WORKER": "",
        "SLURM_SUBMIT_DIR": str(jobs.ROOT),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "n1",
        "SLURM_NTASKS": "2",
        "SLURM_NNODES": "1",
        "NPROC_PER_NODE": "2",
    }

    def start(script=jobs.SCRIPT, **more):
        for name in ("held", "release"):
            (tmp_path / name).unlink(missing_ok=True)
        return subprocess.Popen(
            ["bash", jobs.ROOT / script],
            env={**os.environ, **variables, **more},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def finish(job):
    output, _ = job.communicate(timeout=300)
    return job.returncode, output


@pytest.fixture
def stop_while_held(start, tmp_path):
    """Start a script, send it a signal during the step HOLD, and let the step end."""

    def stop(number, *arguments, **variables):
        job = start(*arguments, **variables)
        while not (tmp_path / "held").exists():
            assert job.poll() is None, finish(job)
            time.sleep(0.01)
        os.kill(job.pid, number)
        (tmp_path / "release").touch()
        return finish(job)

    return stop


def test_job_stopped_before_training_three_times_fails(stop_while_held, tmp_path):
    for hold in ("folder", "node"):
        status, output = stop_while_held(signal.SIGUSR1, HOLD=hold)
        assert status == 0 and "requeued" in output
    status, output = stop_while_held(signal.SIGTERM, HOLD="node")
    assert status == 1 and "stopped before training three times in a row" in output
    assert (tmp_path / "run/stops.txt").read_text() == "begin\n" * 3


def test_job_is_not_requeued_if_cancelled_or_if_requeueing_fails(stop_while_held):
    status, output = stop_while_held(signal.SIGTERM, HOLD="node", STATE="CANCELLED")
    assert status == 1 and "cancelled" in output
    status, output = stop_while_held(signal.SIGTERM, HOLD="node", REFUSED="yes")
    assert status == 1 and "could not be requeued" in output


@pytest.mark.slow
def test_exit_status_of_workers_is_that_of_the_job(start, tmp_path):
    run = tmp_path / "run"
    status, output = finish(start(WORKER='touch "$run/stopped"'))
    assert status == 0 and "requeued" in output and not (run / "done").exists()
    (run / "stopped").unlink()
    killed = 'echo "out of memory" >"$logs/rank-1.txt"; echo "srun: error: n1: task 1: Killed" >&2; exit 137'
    status, output = finish(start(WORKER=killed))
    assert status == 137 and "rank 1 failed" in output and "out of memory" in output and not (run / "done").exists()
    status, output = finish(start())
    assert status == 0 and (run / "done").exists()
    status, output = finish(start(WORKER="exit 1"))
    assert status == 0 and "training is already complete" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, *hangup_signals()])
def test_torchrun_can_be_stopped_before_training(number, stop_while_held, tmp_path):
    status, output = stop_while_held(number, "scripts/torchrun.sh", HOLD="folder")
    assert status == 75 and "stopped by a signal before training" in output
    assert not (tmp_path / "run/logs").exists()


@pytest.mark.parametrize(
    "variables, expected",
    [
        ({"NPROC_PER_NODE": "0"}, "no GPU"),
        ({"NPROC_PER_NODE": "two"}, "NPROC_PER_NODE must .* two"),
        ({"NODES": "0"}, "NODES must .* 0"),
        ({"NODES": "2", "NODE_RANK": "2"}, "NODE_RANK must .* 2"),
        ({"NODES": "2"}, "MASTER_ADDR"),
        ({"MASTER_PORT": "x"}, "MASTER_PORT must .* x"),
        ({"PYTHON": "/nowhere/python"}, "/nowhere/python"),
    ],
)
def test_torchrun_rejects_invalid_variables(start, variables, expected, tmp_path):
    status, printed = finish(start("scripts/torchrun.sh", **variables))
    assert status in (1, 2) and re.fullmatch(f"torchrun.sh: .*{expected}.*\n", printed), printed
    assert not (tmp_path / "run").exists()
