"""The project's own scripts under a real Slurm of two nodes on this machine, on CPU and over gloo."""

import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from . import jobs
from .cluster import Cluster, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

UPDATES = 14
SAME = {"model.dropout": 0, "model.attention_dropout": 0, "dataset.curriculum": 99}
"""What makes a training independent of the number of its processes."""


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
    """Submit the script as a user does; the job's number. Each node is taken as checked."""

    def sbatch(name, *arguments, nodes=2, tasks=1, options=(), **variables):
        variables = {"NAME": name, "PYTHON": jobs.python_without_node_check(tmp_path), **variables}
        done = slurm.submit(
            "sbatch", "--parsable", f"--nodes={nodes}", f"--ntasks-per-node={tasks}", f"--gpus-per-node={tasks}",
            "--cpus-per-task=1", "--time=60", f"--output={tmp_path}/{name}-%a.out", *options, jobs.SCRIPT, *arguments,
            environment=jobs.environment(tmp_path, **variables),
        )  # fmt: skip
        return int(done.split(";")[0])

    return sbatch


def output(tmp_path, name):
    return "\n".join(path.read_text() for path in tmp_path.glob(f"{name}-*.out"))


@pytest.fixture(scope="module")
def two_nodes(slurm, mlm_data, tmp_path_factory):
    """A run by two nodes, submitted by the command, that nothing disturbs."""
    runs = tmp_path_factory.mktemp("undisturbed")
    said = slurm.submit(
        sys.executable, "-m", "fairseq_linformer.cli", "submit", *jobs.overrides(mlm_data, UPDATES, **SAME),
        "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1", "--name=two", environment=jobs.environment(runs),
    )  # fmt: skip
    job = int(re.search(r"Submitted batch job (\d+)", said)[1])
    slurm.wait_for(job, "COMPLETED")
    assert f"done: {runs / 'two'}" in (runs / f"two/logs/{job}.txt").read_text()
    return runs / "two"


def check_ranks(run, hosts):
    """fairseq trains as many models as there are processes, with status 0, if they do not find each other."""
    logs = jobs.rank_logs(run)
    assert sorted(logs) == list(range(len(hosts)))
    for (rank, log), host in zip(sorted(logs.items()), hosts):
        assert re.search(f"initialized host {host} as rank {rank}$", log, re.MULTILINE), log
        assert f"rank {rank} of {len(hosts)} on {host}: world size is {len(hosts)}, device cpu" in log


def test_two_nodes_train_what_one_process_trains(slurm, sbatch, two_nodes, mlm_data, tmp_path):
    arguments = jobs.overrides(mlm_data, UPDATES, **SAME)
    job = sbatch("one", *arguments, nodes=1)
    slurm.wait_for(job, "COMPLETED")
    check_ranks(two_nodes, ["n1", "n2"])
    check_ranks(tmp_path / "one", [slurm.state(job)["BatchHost"]])
    losses = [re.findall(r'"loss": "([\d.]+)", .*"num_updates": "(\d+)"', jobs.rank_logs(run)[0])
              for run in (two_nodes, tmp_path / "one")]  # fmt: skip
    assert losses[0] == losses[1] and len(losses[0]) >= UPDATES
    assert jobs.largest_difference(two_nodes, tmp_path / "one") < 1e-5
    for name in ("config.yaml", "attempts.jsonl", "tensorboard/train_inner", "checkpoints/checkpoint_last.pt", "done"):
        assert (two_nodes / name).exists()
    content = (tmp_path / "one/checkpoints/checkpoint_last.pt").read_bytes()
    slurm.wait_for(sbatch("one", *arguments, nodes=1), "COMPLETED")
    assert (tmp_path / "one/checkpoints/checkpoint_last.pt").read_bytes() == content
    assert "training is complete already" in output(tmp_path, "one")


def test_a_time_limit_and_a_preemption_do_not_change_a_bit(slurm, sbatch, two_nodes, mlm_data, tmp_path):
    run, arguments = tmp_path / "stopped", jobs.overrides(mlm_data, UPDATES, **SAME)
    job = sbatch("stopped", *arguments, options=["--signal=B:USR1@300"], **jobs.controlled(tmp_path, HOLD="3,7"))
    slurm.wait_until(lambda: jobs.updates_done(run) == 3)
    second = sbatch("stopped", *arguments, nodes=1, options=[f"--output={tmp_path}/second.out"])
    slurm.wait_for(second, "FAILED")
    assert "another job trains in" in (tmp_path / "second.out").read_text()
    # Once less than 5 minutes are left, Slurm sends USR1 when it next checks the limits, every 30 seconds.
    hours, minutes, _ = map(int, slurm.state(job)["RunTime"].split(":"))
    slurm.submit("scontrol", "update", f"JobId={job}", f"TimeLimit={60 * hours + minutes + 4}")
    slurm.wait_until(lambda: "received a signal to stop: saving at update 4" in jobs.rank_logs(run)[0])

    def resumed():
        """With a time limit that is long again: an update while the job is being requeued may be lost."""
        if slurm.state(job)["TimeLimit"] != "01:00:00":
            slurm.submit("scontrol", "update", f"JobId={job}", "TimeLimit=60")
        return jobs.updates_done(run) == 7

    slurm.wait_until(resumed)
    assert slurm.state(job)["Restarts"] == "1"
    slurm.submit("sbatch", "--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true")
    slurm.wait_for(job, "COMPLETED")
    assert slurm.state(job)["Restarts"] == "2" and (run / "stops.txt").read_text() == "4\n8\n"
    assert output(tmp_path, "stopped").count("resuming from") == 2
    updates = re.findall(r'train_inner \| .*"num_updates": "(\d+)"', jobs.rank_logs(run)[0])
    assert updates == [str(i + 1) for i in range(UPDATES)]
    assert jobs.same_bits(run, two_nodes)


def test_an_error_in_a_rank_ends_the_job_and_is_named(slurm, sbatch, mlm_data, tmp_path):
    job = sbatch("failed", *jobs.overrides(mlm_data), nodes=1, tasks=2, **jobs.controlled(tmp_path, FAIL="5"))
    assert slurm.wait_for(job, "FAILED")["Restarts"] == "0"
    said, host = output(tmp_path, "failed"), slurm.state(job)["BatchHost"]
    check_ranks(tmp_path / "failed", [host, host])
    assert re.search(r"rank 1 failed; see .*/logs/\d+$", said, re.MULTILINE), said
    assert "the last lines of rank 1" in said
    assert f"rank 1 of 2 on {host} failed: ArithmeticError: the update went wrong" in said


def test_in_an_array_a_stopped_member_resumes_and_a_cancelled_one_does_not(slurm, sbatch, mlm_data, tmp_path):
    (tmp_path / "members.txt").write_text("--name=one model.projected_dim=4\n--name=two model.projected_dim=2\n")
    same = (word for word in jobs.overrides(mlm_data) if "projected_dim" not in word)
    job = sbatch("", *same, "--list", tmp_path / "members.txt", nodes=1, options=["--array=0-1"],
                 **jobs.controlled(tmp_path, HOLD="3"))  # fmt: skip
    slurm.wait_until(lambda: all(jobs.updates_done(tmp_path / name) == 3 for name in ("one", "two")))
    slurm.submit("scancel", "--batch", "--signal=USR1", f"{job}_1")
    assert slurm.wait_for(f"{job}_1", "COMPLETED")["Restarts"] == "1"
    assert jobs.updates_done(tmp_path / "two") == 12

    other = slurm.state(f"{job}_0")
    assert (other["JobState"], other["Restarts"]) == ("RUNNING", "0") and not (tmp_path / "one/stops.txt").exists()
    slurm.submit("scancel", f"{job}_0")
    slurm.wait_until(lambda: "cancelled, or queued again already" in (tmp_path / "-0.out").read_text())
    other = slurm.wait_for(f"{job}_0", "CANCELLED")
    assert other["Restarts"] == "0" and (tmp_path / "one/stops.txt").read_text() == "4\n"
    for name, k in (("one", 4), ("two", 2)):
        assert jobs.parameters(tmp_path / name)["encoder.sentence_encoder.layers.0.self_attn.E.weight"].shape == (k, 16)


def test_a_node_without_python_is_named(slurm, sbatch, tmp_path):
    python = jobs.stand_in(tmp_path / "bin/python", f"""
        case "$*" in *"preflight folder"*) mkdir -p {tmp_path}/run; echo {tmp_path}/run; exit 0 ;; esac
        [ "$(hostname)" = n1 ] || {{ echo "no module named torch on $(hostname)" >&2; exit 1; }}
    """)  # fmt: skip
    slurm.wait_for(sbatch("nodes", PYTHON=str(python)), "FAILED")
    said = output(tmp_path, "nodes")
    assert "no module named torch on n2" in said and "a node cannot take part" in said
    assert not (tmp_path / "run/done").exists()
    slurm.wait_for(sbatch("missing", PYTHON=str(tmp_path / "nowhere")), "FAILED")
    assert f"there is no {tmp_path}/nowhere on n1" in output(tmp_path, "missing")
