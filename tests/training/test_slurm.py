"""The launch scripts on a real Slurm cluster of two nodes on this machine, on CPU over gloo."""

import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from ..fairseq_commands import same_bits
from . import jobs
from .cluster import Cluster, why_not

pytestmark = [pytest.mark.nightly, pytest.mark.skipif(bool(why_not()), reason=why_not())]

UPDATES = 14
SAME = {"model.dropout": 0, "model.attention_dropout": 0, "dataset.curriculum": 99}
"""Overrides that make training independent of the number of processes."""


@pytest.fixture(scope="module")
def slurm():
    folder = Path(tempfile.mkdtemp(prefix="slurm", dir="/tmp"))  # paths of sockets must be short
    cluster = Cluster(folder, 2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)


@pytest.fixture
def sbatch(slurm, tmp_path):
    """Write a run folder, submit it with the script as a user does, and return the job ID."""

    def sbatch(name, *arguments, nodes=2, tasks=1, options=(), **variables):
        jobs.write_run(arguments, tmp_path / name)
        done = slurm.submit(
            "sbatch",
            "--parsable",
            f"--nodes={nodes}",
            f"--ntasks-per-node={tasks}",
            f"--gpus-per-node={tasks}",
            "--cpus-per-task=1",
            "--time=60",
            f"--output={tmp_path}/{name}.out",
            *options,
            jobs.SCRIPT,
            tmp_path / name,
            environment=jobs.environment(**variables),
        )
        return int(done.split(";")[0])

    return sbatch


def output(tmp_path, name):
    return (tmp_path / f"{name}.out").read_text()


@pytest.fixture(scope="module")
def two_nodes(slurm, mlm_data, tmp_path_factory):
    """An uninterrupted run on two nodes, submitted by the command."""
    runs = tmp_path_factory.mktemp("undisturbed")
    text = slurm.submit(
        sys.executable,
        "-m",
        "fairseq_linformer.cli",
        "submit",
        *jobs.overrides(mlm_data, UPDATES, **SAME),
        "--nodes=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--device=cpu",
        f"--runs={runs}",
        "--name=two",
        environment=jobs.environment(),
    )
    job = int(re.search(r"Submitted batch job (\d+)", text)[1])
    slurm.wait_for(job, "COMPLETED")
    check_ranks((runs / f"two/logs/{job}.txt").read_text(), ["n1", "n2"])
    return runs / "two"


def check_ranks(output, hosts):
    """If processes do not find each other, fairseq trains one model per process, and exits with status 0."""
    for rank, host in enumerate(hosts):
        assert len(hosts) == 1 or re.search(f"initialized host {host} as rank {rank}$", output, re.MULTILINE), output
        assert f"rank {rank} of {len(hosts)} on {host}: world size {len(hosts)}" in output


def test_two_nodes_equal_one_process(slurm, sbatch, two_nodes, mlm_data, tmp_path):
    arguments = jobs.overrides(mlm_data, UPDATES, **SAME)
    job = sbatch("one", *arguments, nodes=1)
    slurm.wait_for(job, "COMPLETED")
    check_ranks(output(tmp_path, "one"), [slurm.state(job)["BatchHost"]])
    losses = [
        re.findall(r'"loss": "([\d.]+)", .*"num_updates": "(\d+)"', jobs.read_log(run))
        for run in (two_nodes, tmp_path / "one")
    ]
    assert losses[0] == losses[1] and len(losses[0]) >= UPDATES
    assert jobs.largest_difference(two_nodes, tmp_path / "one") < 1e-5
    for name in ("config.yaml", "attempts.jsonl", "tensorboard/train_inner", "checkpoints/checkpoint_last.pt", "done"):
        assert (two_nodes / name).exists()


def test_resuming_after_time_limit_and_preemption_is_bit_identical(slurm, sbatch, two_nodes, mlm_data, tmp_path):
    """One job is stopped twice and resumes; the other is cancelled and does not resume."""
    run, cancelled = tmp_path / "stopped", tmp_path / "cancelled"
    arguments, hold = jobs.overrides(mlm_data, UPDATES, **SAME), jobs.controlled(tmp_path, HOLD="3,7")
    job, other = (sbatch(name, *arguments, **hold) for name in ("stopped", "cancelled"))
    slurm.wait_until(lambda: jobs.is_waiting(run, 3) and jobs.is_waiting(cancelled, 3))
    slurm.submit("scancel", other)
    second = sbatch("stopped", *arguments, nodes=1, options=[f"--output={tmp_path}/second.out"])
    slurm.wait_for(second, "FAILED")
    assert "another job is training in" in output(tmp_path, "second")
    assert slurm.wait_for(other, "CANCELLED")["Restarts"] == "0"
    assert "saving at update 4" in output(tmp_path, "cancelled")

    # In the last 5 minutes Slurm sends USR1 at its next check of the limits, every 30 seconds.
    hours, minutes, _ = map(int, slurm.state(job)["RunTime"].split(":"))
    slurm.submit("scontrol", "update", f"JobId={job}", f"TimeLimit={60 * hours + minutes + 4}")
    slurm.wait_until(lambda: "received a signal to stop; saving at update 4" in jobs.read_log(run))

    def resumed():
        """Raise the time limit again; an update of a job that is being requeued may be lost."""
        if slurm.state(job)["TimeLimit"] != "01:00:00":
            slurm.submit("scontrol", "update", f"JobId={job}", "TimeLimit=60")
        return jobs.is_waiting(run, 7)

    slurm.wait_until(resumed)
    assert slurm.state(job)["Restarts"] == "1"
    slurm.submit("sbatch", "--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true")
    slurm.wait_for(job, "COMPLETED")
    assert slurm.state(job)["Restarts"] == "2" and "saving at update 8" in jobs.read_log(run)
    assert output(tmp_path, "stopped").count("resuming from") == 2
    updates = re.findall(r'train_inner \| .*"num_updates": "(\d+)"', jobs.read_log(run))
    assert updates == [str(i + 1) for i in range(UPDATES)]
    assert same_bits(run / "checkpoints", two_nodes / "checkpoints")


def test_error_in_a_rank_fails_the_job_and_is_printed(slurm, sbatch, mlm_data, tmp_path):
    job = sbatch("failed", *jobs.overrides(mlm_data), nodes=1, tasks=2, **jobs.controlled(tmp_path, FAIL="5"))
    assert slurm.wait_for(job, "FAILED")["Restarts"] == "0"
    text, host = output(tmp_path, "failed"), slurm.state(job)["BatchHost"]
    check_ranks(text, [host, host])
    assert f"rank 1 of 2 on {host} failed: ArithmeticError: the update went wrong" in text
