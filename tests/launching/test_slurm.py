"""The project's own scripts under a real Slurm of two nodes on this machine, on CPU and over gloo."""

import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from . import jobs
from .cluster import Cluster, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.fixture(scope="module")
def slurm():
    folder = Path(tempfile.mkdtemp(prefix="slurm", dir="/tmp"))  # a socket's path is short
    cluster = Cluster(folder, 2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)


@pytest.fixture
def sbatch(slurm, tmp_path):
    """Submit the script as a user does; its number."""

    def sbatch(name, *arguments, nodes=2, tasks=1, options=(), **variables):
        done = slurm.submit(
            "sbatch", "--parsable", f"--nodes={nodes}", f"--ntasks-per-node={tasks}", f"--gpus-per-node={tasks}", "--cpus-per-task=1", "--time=20",
            f"--output={tmp_path}/{name}-%a.out", *options, jobs.SCRIPT, *arguments, **jobs.environment(tmp_path, NAME=name, **variables),
        )  # fmt: skip
        return int(done.stdout.split(";")[0])

    return sbatch


def output(tmp_path, name):
    return "\n".join(path.read_text() for path in tmp_path.glob(f"{name}-*.out"))


@pytest.fixture(scope="module")
def whole(slurm, mlm_data, tmp_path_factory):
    """A run of 60 updates by two nodes that nobody disturbed."""
    runs = tmp_path_factory.mktemp("whole")
    done = slurm.submit(
        "sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=1", "--cpus-per-task=1", f"--output={runs}/out.txt", jobs.SCRIPT,
        *jobs.overrides(mlm_data, updates=60), **jobs.environment(runs, NAME="whole"),
    )  # fmt: skip
    slurm.wait_for(int(done.stdout), "COMPLETED")
    return runs / "whole"


def check_ranks(run, count, hosts):
    """fairseq trains as many models as there are processes, with status 0, if they do not find each other."""
    logs = jobs.rank_logs(run)
    assert sorted(logs) == list(range(count))
    for rank, log in logs.items():
        host = hosts[rank * len(hosts) // count]
        assert re.search(f"initialized host {host} as rank {rank}$", log, re.MULTILINE), log
        assert f"rank {rank} of {count} on {host}: world size is {count}, device cpu" in log


def test_nodes_train_what_one_process_trains(slurm, sbatch, mlm_data, tmp_path):
    tasks = 2
    arguments = jobs.overrides(mlm_data, **{"model.dropout": 0, "model.attention_dropout": 0, "dataset.curriculum": 99})
    together = sbatch("together", *arguments, tasks=tasks)
    alone = sbatch("alone", *arguments, nodes=1, tasks=1)
    slurm.wait_for(together, "COMPLETED")
    slurm.wait_for(alone, "COMPLETED")
    check_ranks(tmp_path / "together", 2 * tasks, ["n1", "n2"])
    check_ranks(tmp_path / "alone", 1, [slurm.state(alone)["BatchHost"]])
    losses = [re.findall(r'"loss": "([\d.]+)", .*"num_updates": "(\d+)"', jobs.rank_logs(tmp_path / name)[0]) for name in ("together", "alone")]
    assert losses[0] == losses[1] and len(losses[0]) >= 12
    assert jobs.largest_difference(tmp_path / "together", tmp_path / "alone") < 1e-5
    for name in ("config.yaml", "tensorboard/train_inner", "checkpoints/checkpoint_last.pt", "done"):
        assert (tmp_path / "together" / name).exists()
    content = (tmp_path / "alone/checkpoints/checkpoint_last.pt").read_bytes()
    slurm.wait_for(sbatch("alone", *arguments, nodes=1, tasks=1), "COMPLETED")
    assert (tmp_path / "alone/checkpoints/checkpoint_last.pt").read_bytes() == content
    assert "trained to its end already" in output(tmp_path, "alone")


def test_a_job_that_is_preempted_goes_on_with_the_same_bits(slurm, sbatch, whole, mlm_data, tmp_path):
    run = tmp_path / "stopped"
    job = sbatch("stopped", *jobs.overrides(mlm_data, updates=60))
    slurm.wait_until(lambda: jobs.updates_done(run) >= 10)
    other = int(slurm.submit("sbatch", "--parsable", "--partition=high", "--nodes=2", "--exclusive", f"--output={tmp_path}/other.txt",
                             "--wrap=sleep 3").stdout)  # fmt: skip
    slurm.wait_for(other, "RUNNING", "COMPLETED")
    slurm.wait_until(lambda: int(slurm.state(job)["Restarts"]) == 1)
    slurm.wait_for(job, "COMPLETED")
    said = output(tmp_path, "stopped")
    assert "going on from" in said
    at = int((run / "stops.txt").read_text())
    assert 10 <= at < 60 and f"told to stop: saving at update {at}" in jobs.rank_logs(run)[0]
    assert f'"num_updates": "{at + 1}"' in jobs.rank_logs(run)[0]
    assert jobs.same_bits(run, whole)


def test_a_time_limit_is_survived(slurm, sbatch, whole, mlm_data, tmp_path):
    # Slurm sends the signal up to a minute early: here 10 to 70 s after the start of a job that trains for 72 s.
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    job = sbatch("limited", *jobs.overrides(mlm_data, updates=60), options=["--time=2", "--signal=B:USR1@50"], PYTHONPATH=str(tmp_path))
    slurm.wait_for(job, "COMPLETED", seconds=400)
    assert int(slurm.state(job)["Restarts"]) >= 1
    assert jobs.same_bits(tmp_path / "limited", whole)


SLOW = """
import os, sys, time
if "fairseq_linformer.launching.rank" in " ".join(sys.orig_argv):
    import fairseq.trainer
    step = fairseq.trainer.Trainer.train_step
    fairseq.trainer.Trainer.train_step = lambda self, *a, **k: (time.sleep(1.2), step(self, *a, **k))[1]
"""
RAISE = """
import os, sys
if "fairseq_linformer.launching.rank" in " ".join(sys.orig_argv) and os.environ["SLURM_PROCID"] == "1":
    import fairseq.trainer
    step = fairseq.trainer.Trainer.train_step
    def train_step(self, *a, **k):
        if self.get_num_updates() == 5:
            raise ArithmeticError("the fifth update went wrong")
        return step(self, *a, **k)
    fairseq.trainer.Trainer.train_step = train_step
"""


def check_crash(slurm, job, said):
    assert slurm.state(job)["Restarts"] == "0" and "queued again" not in said
    assert re.search(r"rank 1 failed; see .*/logs/\d+$", said, re.MULTILINE), said
    assert "the last lines of rank 1" in said


def test_an_error_in_a_rank_ends_the_job_and_is_named(slurm, sbatch, mlm_data, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(RAISE)
    job = sbatch("crashed", *jobs.overrides(mlm_data, updates=2000), PYTHONPATH=str(tmp_path))
    slurm.wait_for(job, "FAILED")
    check_crash(slurm, job, output(tmp_path, "crashed"))
    assert "rank 1 of 2 on n2 failed: ArithmeticError: the fifth update went wrong" in output(tmp_path, "crashed")


def test_one_job_a_folder_and_a_rank_that_is_killed_ends_it(slurm, sbatch, mlm_data, tmp_path):
    run, arguments = tmp_path / "same", jobs.overrides(mlm_data, updates=2000)
    first = sbatch("same", *arguments)
    slurm.wait_until(lambda: jobs.updates_done(run) >= 3)
    second = sbatch("same", *arguments, nodes=1, options=[f"--output={tmp_path}/second.out"])
    slurm.wait_for(second, "FAILED")
    assert "another job trains in" in (tmp_path / "second.out").read_text()
    assert slurm.state(first)["JobState"] == "RUNNING"
    os.kill(jobs.find_rank(SLURM_PROCID=1, SLURM_JOB_ID=first), signal.SIGKILL)
    slurm.wait_for(first, "FAILED")
    check_crash(slurm, first, output(tmp_path, "same"))


def test_an_array_runs_its_members_and_one_that_is_stopped_does_not_disturb_the_other(slurm, sbatch, mlm_data, tmp_path):
    (tmp_path / "members.txt").write_text("--name=one model.projected_dim=4\n--name=two model.projected_dim=2\n")
    same = (word for word in jobs.overrides(mlm_data, updates=150) if "projected_dim" not in word)
    job = sbatch("", *same, "--list", tmp_path / "members.txt", nodes=1, options=["--array=0-1"])
    slurm.wait_until(lambda: min(jobs.updates_done(tmp_path / name) for name in ("one", "two")) >= 3)
    slurm.submit("scancel", "--batch", "--signal=USR1", f"{job}_1")
    for member, restarts in (("0", "0"), ("1", "1")):
        assert slurm.wait_for(f"{job}_{member}", "COMPLETED")["Restarts"] == restarts
    assert all(jobs.updates_done(tmp_path / name) == 150 for name in ("one", "two")) and not (tmp_path / "one/stops.txt").exists()
    for name, k in (("one", 4), ("two", 2)):
        assert jobs.parameters(tmp_path / name)["encoder.sentence_encoder.layers.0.self_attn.E.weight"].shape == (k, 16)


def test_a_job_that_is_always_stopped_before_it_trains_ends(slurm, sbatch, mlm_data, tmp_path):
    python = tmp_path / "python"  # with a node check that takes its time
    python.write_text(f'#!/bin/sh\ncase "$*" in *launching.node*) sleep 5 ;; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    job = sbatch("short", *jobs.overrides(mlm_data), nodes=1, PYTHON=str(python), RANK="0")
    for stint in (1, 2, 3):
        slurm.wait_until(lambda: output(tmp_path, "short").count("processes on") == stint)
        slurm.submit("scancel", "--batch", "--signal=USR1", job)
    state = slurm.wait_for(job, "FAILED")
    assert "told to stop before training three times in a row" in output(tmp_path, "short") and state["Restarts"] == "2"


def test_a_job_that_is_cancelled_does_not_come_back(slurm, sbatch, mlm_data, tmp_path):
    job = sbatch("cancelled", *jobs.overrides(mlm_data, updates=2000), nodes=1)
    slurm.wait_until(lambda: jobs.updates_done(tmp_path / "cancelled") >= 3)
    slurm.submit("scancel", job)
    state = slurm.wait_for(job, "CANCELLED")
    slurm.wait_until(lambda: "queued again already" in output(tmp_path, "cancelled"), 20)
    assert state["Restarts"] == "0" and slurm.state(job)["JobState"] == "CANCELLED"


def test_submit_checks_and_hands_over(slurm, mlm_data, tmp_path):
    def submit(*arguments, check=True):
        return slurm.submit(sys.executable, "-m", "fairseq_linformer.cli", "submit", *jobs.overrides(mlm_data, updates=4), "--ntasks-per-node=1",
                            "--cpus-per-task=1", "--name=given", *arguments, check=check, **jobs.environment(tmp_path))  # fmt: skip

    done = submit("--nodes=4", check=False)
    assert done.returncode == 1 and re.search("sbatch refuses it: .*(node|Node)", done.stderr), done.stderr
    done = submit("--nodes=2")
    job = int(re.search(r"Submitted batch job (\d+)", done.stdout)[1])
    slurm.wait_for(job, "COMPLETED")
    assert f"done: {tmp_path / 'given'}" in (tmp_path / f"given/logs/{job}.txt").read_text()
    check_ranks(tmp_path / "given", 2, ["n1", "n2"])


def test_a_node_without_python_is_named(slurm, sbatch, mlm_data, tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$(hostname)" = n1 ] || {{ echo "no module named torch" >&2; exit 1; }}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    job = sbatch("nodes", *jobs.overrides(mlm_data), PYTHON=str(python))
    slurm.wait_for(job, "FAILED")
    said = output(tmp_path, "nodes")
    assert "a node cannot take part" in said and "n2" in said and not jobs.rank_logs(tmp_path / "nodes")
    job = sbatch("missing", *jobs.overrides(mlm_data), PYTHON=str(tmp_path / "nowhere"))
    slurm.wait_for(job, "FAILED")
    assert f"there is no {tmp_path}/nowhere on n1" in output(tmp_path, "missing")
