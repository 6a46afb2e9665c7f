"""scripts/torchrun.sh: the same training without Slurm."""

import os
import re
import signal
import subprocess

import pytest

from ..stock import free_port
from . import jobs

pytestmark = pytest.mark.slow

UPDATES = 12


def start(runs, name, *arguments, **variables):
    variables = {"NPROC_PER_NODE": "2", "MASTER_PORT": str(free_port()), "NAME": name, **variables}
    return subprocess.Popen(
        [jobs.ROOT / "scripts/torchrun.sh", *arguments], env=jobs.environment(runs, **variables),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def finish(job):
    out, err = job.communicate(timeout=900)
    return job.returncode, out + err


def read_until(job, text):
    """Wait until rank 0 says it."""
    while line := job.stdout.readline():
        if text in line:
            return
    raise AssertionError(job.stderr.read())


def test_a_stop_does_not_change_a_bit(mlm_data, tmp_path):
    arguments = jobs.overrides(mlm_data, UPDATES)
    # As in a shell: a relative folder, and the name from the configuration.
    status, said = finish(start(os.path.relpath(tmp_path, jobs.ROOT), "", *arguments))
    assert status == 0, said
    (whole,) = tmp_path.glob("tiny,*")
    assert "rank 0 of 2 on" in said and "done: " in said

    python = jobs.python_without_node_check(tmp_path)
    job = start(tmp_path, "stopped", *arguments, PYTHON=python, **jobs.controlled(tmp_path, HOLD="5"))
    read_until(job, '"num_updates": "5"')
    os.kill(job.pid, signal.SIGTERM)
    status, said = finish(job)
    assert status == 75 and "stopped by a signal; the same command resumes" in said
    assert (tmp_path / "stopped/stops.txt").read_text() == "6\n"
    status, said = finish(start(tmp_path, "stopped", *arguments, PYTHON=python))
    assert status == 0 and "resuming from" in said and '"num_updates": "7"' in said
    assert jobs.same_bits(tmp_path / "stopped", whole)


def test_a_rank_that_is_lost_is_named(mlm_data, tmp_path):
    python = jobs.python_without_node_check(tmp_path)
    job = start(tmp_path, "lost", *jobs.overrides(mlm_data), PYTHON=python, **jobs.controlled(tmp_path, HOLD="2"))
    read_until(job, '"num_updates": "2"')
    lost, held = (jobs.find_worker(LOCAL_RANK=rank, RUNS=tmp_path) for rank in (1, 0))
    os.kill(lost, signal.SIGKILL)
    status, said = finish(job)
    assert status == 1 and re.search(r"the last lines of .*/attempt_0/1/stdout.log", said), said
    assert not os.path.exists(f"/proc/{held}")
