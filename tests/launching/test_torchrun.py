"""scripts/torchrun.sh: the same training without Slurm."""

import os
import re
import signal
import subprocess
import time

import pytest

from ..stock import free_port
from . import jobs

pytestmark = pytest.mark.slow


def start(runs, name, *arguments, processes=2, **variables):
    variables = jobs.environment(runs, NAME=name, NPROC_PER_NODE=str(processes), MASTER_PORT=str(free_port()), **variables)
    return subprocess.Popen(
        [jobs.ROOT / "scripts/torchrun.sh", *arguments], env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def finish(job):
    out, err = job.communicate(timeout=240)
    return job.returncode, out + err


def test_it_trains_stops_and_goes_on(mlm_data, tmp_path):
    arguments = jobs.overrides(mlm_data, updates=60)
    # As in a shell: a relative folder, and the run's own name.
    status, said = finish(start(os.path.relpath(tmp_path, jobs.ROOT), "", *arguments))
    assert status == 0, said
    (whole,) = tmp_path.glob("tiny,*")
    assert "rank 0 of 2 on" in said and "done: " in said

    job = start(tmp_path, "stopped", *arguments)
    seen = ""
    while '"num_updates": "10"' not in seen:
        line = job.stdout.readline()
        assert line, job.stderr.read()
        seen += line
    os.kill(job.pid, signal.SIGTERM)
    status, said = finish(job)
    assert status == 75 and "told to stop; the same command goes on" in said
    status, said = finish(start(tmp_path, "stopped", *arguments))
    assert status == 0 and "going on from" in said
    assert jobs.same_bits(tmp_path / "stopped", whole)


def test_it_can_be_stopped_before_it_trains(mlm_data, tmp_path):
    job = start(tmp_path, "early", *jobs.overrides(mlm_data, updates=3))
    time.sleep(1)
    os.kill(job.pid, signal.SIGTERM)
    status, said = finish(job)
    assert status == 75 and "told to stop before it began" in said
    assert not list(tmp_path.glob("early/checkpoints/*"))


def test_a_rank_that_is_lost_is_named(mlm_data, tmp_path):
    job = start(tmp_path, "lost", *jobs.overrides(mlm_data, updates=3000))
    log = None
    while log is None or '"num_updates": "5"' not in log.read_text():
        assert job.poll() is None, finish(job)
        time.sleep(0.2)
        log = next(tmp_path.glob("lost/logs/*/*/attempt_0/0/stdout.log"), None)
    os.kill(jobs.find_rank(LOCAL_RANK=1, RUNS=tmp_path), signal.SIGKILL)
    status, said = finish(job)
    assert status == 1 and re.search(r"the last lines of .*/attempt_0/1/stdout.log", said), said


def test_without_a_gpu_it_says_what_there_is(tmp_path):
    variables = jobs.environment(tmp_path, NPROC_PER_NODE="0")
    done = subprocess.run([jobs.ROOT / "scripts/torchrun.sh", "+run=tiny"], env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 1 and "torch finds no GPU; DEVICE=cpu NPROC_PER_NODE=2 trains on CPUs" in done.stderr
