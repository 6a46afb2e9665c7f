"""``fairseq-linformer submit``: what sbatch gets, what is refused before, and the paper's arrays."""

import argparse
import re
import shlex
import sys

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.launching.arguments import add_job_arguments, members_arguments, parse_in_job, training_of
from fairseq_linformer.launching.folder import begin
from fairseq_linformer.launching.submit import SCRIPT
from fairseq_linformer.reproduce.paper_scale import FIGURES, TABLE_2, pretraining_runs

from .jobs import ROOT


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
    script = tmp_path / "bin/sbatch"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$PYTHON" "$@" > {called}\necho Submitted batch job 7\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    return lambda: called.read_text().splitlines()


def test_a_dry_run_prints_the_command_and_writes_nothing(submit, mlm_data, tmp_path):
    said = submit("+run=n512-k128-headwise", "--nodes", 2, f"task.data={mlm_data}", "--partition=gpu", "--dry-run").splitlines()
    run = tmp_path / "runs/n512-k128-headwise"
    assert said[0] == f"{run}: it begins anew"
    assert said[1] == shlex.join([
        f"PYTHON={sys.executable}", "sbatch", "--nodes=2", "--ntasks-per-node=8", "--gpus-per-node=8", "--partition=gpu", "--job-name=n512-k128-headwise",
        f"--output={run}/logs/%j.txt", str(SCRIPT), "--name=", "--config=configs/pretrain/base.yaml", "--device=gpu", f"--runs={tmp_path}/runs",
        "+run=n512-k128-headwise", f"task.data={mlm_data}",
    ])  # fmt: skip
    assert said[2] == "a dry run: nothing was submitted"
    assert not (tmp_path / "runs").exists()


def test_flags_and_variables_say_the_same(submit, mlm_data, monkeypatch):
    words = ["+run=n512-roberta", f"task.data={mlm_data}", "--dry-run"]
    by_flags = submit(*words, "--nodes=4", "--ntasks-per-node=4", "--device=cpu", "--name=mine")
    for name, value in {"NODES": "4", "NTASKS_PER_NODE": "4", "DEVICE": "cpu", "NAME": "mine"}.items():
        monkeypatch.setenv(name, value)
    assert submit(*words) == by_flags
    assert "--gpus-per-node=0" in by_flags and "runs/mine/logs" in by_flags


def test_sbatch_gets_it(submit, sbatch, mlm_data, tmp_path):
    said = submit("+run=n512-roberta", f"task.data={mlm_data}")
    assert said.splitlines()[-1] == "Submitted batch job 7"
    python, *words = sbatch()
    assert python == sys.executable and words[:3] == ["--nodes=8", "--ntasks-per-node=8", "--gpus-per-node=8"]
    assert (tmp_path / "runs/n512-roberta/logs").is_dir()


@pytest.mark.parametrize("words, said", [
    (["--nodes=3"], "24 processes do not divide the 128 micro-batches"),
    (["--nodes=0"], "--nodes is 0; it must be at least 1"),
    (["--device=tpu"], "--device is tpu; it must be one of gpu, cpu"),
    (["--name=../mine"], "--name is ../mine; it must be a folder below"),
    (["-N4"], "-N4 is not taken; options of sbatch are given as --OPTION=VALUE"),
    (["--output=here"], "--output=here is not taken"),
    (["nonsense"], "nonsense is no override; KEY=VALUE is wanted"),
    (["--tasks=data"], "--tasks is data; it is for --array table-2"),
    (["--array=figure-4"], "--array is figure-4; it must be one of figure-3a, figure-3b, figure-3c, figure-3d, pretraining, table-2"),
    (["--array=table-2"], "--array table-2 needs --tasks FOLDER"),
    (["--array=figure-3a", "--name=mine"], "--name is mine; each member of an array has its own"),
    (["--array=figure-3a", "--config=mine.yaml"], "--config is mine.yaml; the members of an array have their own"),
    (["--list=mine"], "--list=mine is not taken"),
    (["--array=figure-3b", "task.data=nowhere"], r"\+run=n1024-roberta: task.data is .*nowhere; there is no folder"),
    (["model.projected_dim=600"], "projected_dim is 600; it must be between 1 and max_positions"),
    (["optimizer.adam_betas=abc"], "fairseq cannot build the optimizer and its schedule: NameError: .*optimizer.adam_betas=abc"),
    (["--config=configs/pretrain/basis.yaml"], "there is no configuration configs/pretrain/basis.yaml"),
])  # fmt: skip
def test_what_would_fail_is_not_submitted(words, said, submit, sbatch, mlm_data, tmp_path):
    end = submit(f"task.data={mlm_data}", *words)
    assert re.search(said, end) and "\n" not in end
    assert not (tmp_path / "called").exists() and not (tmp_path / "runs").exists()


def test_elsewhere_it_says_where_it_is_run(submit, monkeypatch, mlm_data, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no sbatch here" in submit(f"task.data={mlm_data}") and not (tmp_path / "runs").exists()
    monkeypatch.chdir(tmp_path)
    assert "submit is run from the root of the repository" in submit(f"task.data={mlm_data}")


def test_the_members_of_a_figure(submit, sbatch, mlm_data, tmp_path, monkeypatch):
    submit("--array=figure-3c", f"task.data={mlm_data}", "common.seed=4")
    (listed,) = (tmp_path / "runs/arrays").glob("figure-3c-*.txt")
    assert "--array=0-2" in sbatch()
    assert sbatch()[-5:] == [f"--list={listed}", "--device=gpu", f"--runs={tmp_path}/runs", f"task.data={mlm_data}", "common.seed=4"]
    parser = argparse.ArgumentParser()
    add_job_arguments(parser)
    for member, run in enumerate(FIGURES["figure-3c"].values()):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(member))
        assert parse_in_job(parser, ["--processes=1", "--list", str(listed), "common.seed=4"]).overrides == [f"+run={run}", "common.seed=4"]
    for member in ("3", "", "x"):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", member)
        with pytest.raises(ValueError, match="has 3 lines; a number from 0 to 2 is wanted"):
            parse_in_job(parser, ["--processes=1", "--list", str(listed)])
    submit("--array=figure-3c", f"task.data={mlm_data}", "common.seed=5")
    assert len(list((tmp_path / "runs/arrays").iterdir())) == 2  # members of the first that still wait read their own


def test_a_member_that_is_trained_to_its_end_is_left_out(submit, sbatch, mlm_data, tmp_path):
    options = argparse.Namespace(device="gpu", runs=f"{tmp_path}/runs", overrides=[f"task.data={mlm_data}"])
    first, *others = pretraining_runs("figure-3c")
    for left in (others, []):
        for member in pretraining_runs("figure-3c"):
            if member not in left:
                training = training_of(members_arguments(member, options), 64)
                begin(training)
                (training.folder / "done").touch()
        said = submit("--array=figure-3c", f"task.data={mlm_data}")
        if left:
            (listed,) = (tmp_path / "runs/arrays").glob("figure-3c-*.txt")
            assert "--array=0-1" in sbatch() and listed.read_text().splitlines() == [member[0] for member in others]
    assert said.endswith("all members of figure-3c are trained to their end; there is nothing to submit")


def test_every_run_of_the_paper_has_its_configuration():
    there = {path.stem for path in (ROOT / "configs/pretrain/run").glob("*.yaml")}
    every = {member[0].removeprefix("+run=") for member in pretraining_runs("pretraining")}
    assert every == there - {"tiny"} == {run for runs in FIGURES.values() for run in runs.values()} | set(TABLE_2)


def test_members_arguments_are_those_of_the_job():
    options = argparse.Namespace(device="cpu", runs="here", overrides=["a=b"], name="", config="x", list=None)
    found = members_arguments(["--config=y", "+task=z", "--name=m"], options)
    assert (found.config, found.name, found.device, found.runs, found.overrides) == ("y", "m", "cpu", "here", ["+task=z", "a=b"])
