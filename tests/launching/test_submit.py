"""``fairseq-linformer submit``: what sbatch gets, what is refused before, and the paper's arrays."""

import argparse
import shlex
import sys

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.launching.arguments import make_training, member_options, parse_job_arguments
from fairseq_linformer.launching.run_folder import create_or_resume
from fairseq_linformer.launching.slurm import SCRIPT
from fairseq_linformer.reproduction.paper_scale import array_members
from fairseq_linformer.reproduction.registry import experiments, find

from .jobs import ROOT, stand_in

pytestmark = pytest.mark.slow


@pytest.fixture
def submit(monkeypatch, capsys, tmp_path):
    """Run the command from the root of the repository; what it printed, and why it ended."""
    monkeypatch.chdir(ROOT)
    for name in ("NODES", "NTASKS_PER_NODE", "DEVICE", "RUNS", "NAME", "CONFIG", "PYTHON"):
        monkeypatch.delenv(name, raising=False)

    def submit(*arguments):
        try:
            main(["submit", f"--runs={tmp_path}/runs", *map(str, arguments)])
        except SystemExit as end:
            return str(end.code)
        return capsys.readouterr().out

    return submit


@pytest.fixture
def sbatch(monkeypatch, tmp_path):
    """A stand-in for sbatch, and what it was called with."""
    called = tmp_path / "called"
    script = f'printf "%s\\n" "$PYTHON" "$NAME" "$CONFIG" "$@" > {called}\necho Submitted batch job 7\n'
    stand_in(tmp_path / "bin/sbatch", script)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return lambda: called.read_text().splitlines()


def test_a_dry_run_prints_the_command_and_writes_nothing(submit, mlm_data, tmp_path):
    words = ["+run=n512-k128-headwise", "--nodes", 2, f"task.data={mlm_data}", "--partition=gpu", "--dry-run"]
    said = submit(*words).splitlines()
    run = tmp_path / "runs/n512-k128-headwise"
    assert said[0] == f"{run}: starts at update 0"
    assert said[1] == shlex.join([
        f"PYTHON={sys.executable}", "sbatch", "--nodes=2", "--ntasks-per-node=8", "--gpus-per-node=8",
        "--partition=gpu", "--job-name=n512-k128-headwise", f"--output={run}/logs/%j.txt", str(SCRIPT), "--name=",
        "--config=configs/pretrain/base.yaml", "--device=gpu", f"--runs={tmp_path}/runs", "+run=n512-k128-headwise",
        f"task.data={mlm_data}",
    ])  # fmt: skip
    assert "nothing was submitted" in said[2]
    assert not (tmp_path / "runs").exists()


def test_flags_and_variables_say_the_same(submit, mlm_data, monkeypatch):
    words = ["+run=n512-roberta", f"task.data={mlm_data}", "--dry-run"]
    by_flags = submit(*words, "--nodes=4", "--ntasks-per-node=4", "--device=cpu", "--name=mine")
    for name, value in {"NODES": "4", "NTASKS_PER_NODE": "4", "DEVICE": "cpu", "NAME": "mine"}.items():
        monkeypatch.setenv(name, value)
    assert submit(*words) == by_flags
    assert "--gpus-per-node=0" in by_flags and "runs/mine/logs" in by_flags


def test_sbatch_gets_it(submit, sbatch, mlm_data, tmp_path, monkeypatch):
    monkeypatch.setenv("NAME", "mine")
    said = submit("+run=n512-roberta", f"task.data={mlm_data}", "--name=")
    assert said.splitlines()[-1] == "Submitted batch job 7"
    python, name, config, *words = sbatch()  # variables of the shell do not reach the job
    assert (python, name, config) == (sys.executable, "", "configs/pretrain/base.yaml")
    assert words[:3] == ["--nodes=8", "--ntasks-per-node=8", "--gpus-per-node=8"]
    assert (tmp_path / "runs/n512-roberta/logs").is_dir()


def test_what_sbatch_refuses_is_reported(submit, mlm_data, tmp_path, monkeypatch):
    stand_in(tmp_path / "bin/sbatch", "echo sbatch: error: invalid partition >&2\necho again >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    said = submit("+run=n512-roberta", f"task.data={mlm_data}")
    assert said.endswith("invalid partition again")


@pytest.mark.parametrize("words, said", [
    (["--nodes=3"], ["24 processes", "128 micro-batches"]),
    (["--nodes=0"], ["--nodes is 0", "at least 1"]),
    (["--ntasks-per-node=-1"], ["--ntasks-per-node is -1", "at least 1"]),
    (["--device=tpu"], ["--device is tpu", "gpu, cpu"]),
    (["--name=../mine"], ["--name is ../mine", "below"]),
    (["-N4"], ["-N4", "--OPTION=VALUE"]),
    (["--output=here"], ["--output=here", "--job-name"]),
    (["nonsense"], ["nonsense", "KEY=VALUE"]),
    (["--tasks=data"], ["--tasks is data", "--array table-2"]),
    (["--array=figure-4"], ["--array is figure-4", "figure-3a", "table-2", "pretraining"]),
    (["--array=table-2"], ["--tasks"]),
    (["--array=figure-3a", "--name=mine"], ["--name is mine"]),
    (["--array=figure-3a", "--config=mine.yaml"], ["--config is mine.yaml"]),
    (["--array=figure-3b", "task.data=nowhere"], ["+run=n1024-roberta: task.data", "nowhere"]),
    (["model.projected_dim=600"], ["projected_dim is 600", "max_positions"]),
    (["optimizer.adam_betas=abc"], ["optimizer.adam_betas=abc"]),
    (["--config=configs/pretrain/basis.yaml"], ["configs/pretrain/basis.yaml"]),
])  # fmt: skip
def test_what_would_fail_is_not_submitted(words, said, submit, sbatch, mlm_data, tmp_path):
    end = submit(f"task.data={mlm_data}", *words)
    assert all(part in end for part in said) and "\n" not in end, end
    assert not (tmp_path / "called").exists() and not (tmp_path / "runs").exists()


def test_it_needs_sbatch_and_the_root_of_the_repository(submit, monkeypatch, mlm_data, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no sbatch" in submit(f"task.data={mlm_data}") and not (tmp_path / "runs").exists()
    monkeypatch.chdir(tmp_path)
    assert "root of the repository" in submit(f"task.data={mlm_data}")


def test_the_members_of_a_figure(submit, sbatch, mlm_data, tmp_path, monkeypatch):
    submit("--array=figure-3c", f"task.data={mlm_data}", "common.seed=4")
    (listed,) = (tmp_path / "runs/arrays").glob("figure-3c-*.txt")
    assert "--array=0-2" in sbatch()
    shared = ["--device=gpu", f"--runs={tmp_path}/runs", f"task.data={mlm_data}", "common.seed=4"]
    assert sbatch()[-5:] == [f"--list={listed}", *shared]

    def parse():
        return parse_job_arguments(argparse.ArgumentParser(), ["--processes=1", "--list", str(listed), "common.seed=4"])

    for member, run in enumerate(find("figure-3c").paper_scale.pretraining):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(member))
        assert parse().overrides == [f"+run={run}", "common.seed=4"]
    for member in ("3", "", "x"):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", member)
        with pytest.raises(ValueError, match=f"SLURM_ARRAY_TASK_ID is {member or 'not set'}.* 0 to 2"):
            parse()
    submit("--array=figure-3c", f"task.data={mlm_data}", "common.seed=5")
    assert len(list((tmp_path / "runs/arrays").iterdir())) == 2  # queued members of the first still read their own


def test_a_member_whose_training_is_complete_is_left_out(submit, sbatch, mlm_data, tmp_path):
    options = argparse.Namespace(device="gpu", runs=f"{tmp_path}/runs", overrides=[f"task.data={mlm_data}"])
    first, *others = array_members("figure-3c", tmp_path / "runs", None, "gpu")

    def complete(member):
        training = make_training(member_options(member, options), 64)
        create_or_resume(training)
        (training.folder / "done").touch()

    complete(first)
    submit("--array=figure-3c", f"task.data={mlm_data}")
    (listed,) = (tmp_path / "runs/arrays").glob("figure-3c-*.txt")
    assert "--array=0-1" in sbatch() and listed.read_text().splitlines() == [member[0] for member in others]
    for member in others:
        complete(member)
    said = submit("--array=figure-3c", f"task.data={mlm_data}")
    assert "figure-3c is complete" in said and "nothing to submit" in said


def test_every_run_of_the_paper_has_its_configuration():
    there = {path.stem for path in (ROOT / "configs/pretrain/run").glob("*.yaml")}
    every = {member[0].removeprefix("+run=") for member in array_members("pretraining", "runs", None, "gpu")}
    needed = {run for each in experiments() if each.paper_scale for run in each.paper_scale.pretraining}
    assert every == there - {"tiny"} == needed


def test_the_options_of_a_member_are_those_of_its_job(tmp_path, monkeypatch):
    member = ["--config=y", "+task=z", "--name=m"]
    options = argparse.Namespace(device="cpu", runs="here", overrides=["a=b"], name="", config="x", list=None)
    found = member_options(member, options)
    (tmp_path / "list.txt").write_text(shlex.join(member) + "\n")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    words = ["--processes=1", f"--list={tmp_path}/list.txt", "--device=cpu", "--runs=here", "a=b"]
    in_job = parse_job_arguments(argparse.ArgumentParser(), words)
    assert vars(found).items() <= vars(in_job).items()
    assert (found.config, found.name, found.overrides) == ("y", "m", ["+task=z", "a=b"])
    assert (found.device, found.runs) == ("cpu", "here")
