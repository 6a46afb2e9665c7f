"""``fairseq-linformer submit``: arguments of sbatch, rejected jobs, and the paper's arrays."""

import shlex
import sys
from dataclasses import replace

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction.paper import figure_3
from fairseq_linformer.training.run_folder import DONE, create_or_resume
from fairseq_linformer.training.slurm import SCRIPT
from fairseq_linformer.training.worker import read_job

from .jobs import ROOT, stand_in

pytestmark = pytest.mark.slow


@pytest.fixture
def submit(monkeypatch, capsys, tmp_path):
    """Run the command in the root of the repository, and return its output or error."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("PYTHON", raising=False)

    def submit(*arguments):
        try:
            main(["submit", f"--runs={tmp_path}/runs", *map(str, arguments)])
        except SystemExit as end:
            return str(end.code)
        return capsys.readouterr().out

    return submit


@pytest.fixture
def sbatch(monkeypatch, tmp_path):
    """Replace sbatch, and return a function that reads the arguments it was called with."""
    called = tmp_path / "called"
    script = f'printf "%s\\n" "$PYTHON" "$@" > {called}\necho Submitted batch job 7\n'
    stand_in(tmp_path / "bin/sbatch", script)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return lambda: called.read_text().splitlines()


def test_dry_run_prints_the_command_and_writes_nothing(submit, mlm_data, tmp_path):
    words = ["+run=n512-k128-headwise", "--nodes", 2, f"task.data={mlm_data}", "--partition=gpu", "--dry-run"]
    printed = submit(*words).splitlines()
    run = tmp_path / "runs/n512-k128-headwise"
    assert printed[0] == shlex.join(
        [
            f"PYTHON={sys.executable}",
            "sbatch",
            "--job-name=n512-k128-headwise",
            f"--output={run}/logs/%j.txt",
            "--nodes=2",
            "--ntasks-per-node=8",
            "--gpus-per-node=8",
            "--partition=gpu",
            str(SCRIPT),
            "--config=configs/pretrain/base.yaml",
            "--device=cuda",
            f"--runs={tmp_path}/runs",
            "--name=",
            "+run=n512-k128-headwise",
            f"task.data={mlm_data}",
        ]
    )
    assert "nothing was submitted" in printed[1]
    assert not (tmp_path / "runs").exists()


def test_sbatch_receives_the_job(submit, sbatch, mlm_data, tmp_path):
    printed = submit("+run=n512-roberta", f"task.data={mlm_data}", "--device=cpu", "--nodes=4", "--ntasks-per-node=2")
    assert printed.splitlines()[-1] == "Submitted batch job 7"
    python, *words = sbatch()
    assert python == sys.executable and words[2:5] == ["--nodes=4", "--ntasks-per-node=2", "--gpus-per-node=0"]
    assert (tmp_path / "runs/n512-roberta/logs").is_dir()


def test_a_missing_sbatch_and_its_rejection_are_reported(submit, mlm_data, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "sbatch is not installed" in submit(f"task.data={mlm_data}") and not (tmp_path / "runs").exists()
    stand_in(tmp_path / "bin/sbatch", "echo sbatch: error: invalid partition >&2\necho again >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert submit("+run=n512-roberta", f"task.data={mlm_data}").endswith("invalid partition again")


def test_an_array_has_the_untrained_runs_of_a_figure(submit, sbatch, mlm_data, tmp_path, monkeypatch):
    build = figure_3.ARRAYS["figure-3c"]  # each submitted run is composed, so three are enough
    monkeypatch.setitem(figure_3.ARRAYS, "figure-3c", lambda *arguments: build(*arguments)[:3])
    more = (f"task.data={mlm_data}", "common.log_interval=4")
    runs = [
        replace(run, overrides=(*run.overrides, *more), processes=64)
        for run in build(tmp_path / "runs", None, "cuda")[:3]
    ]

    def complete(job):
        create_or_resume(job)
        (job.folder / DONE).touch()

    complete(runs[0])
    submit("--array=figure-3c", *more)
    (listed,) = (tmp_path / "runs/arrays").glob("figure-3c-*.txt")
    assert "--array=0-1" in sbatch() and sbatch()[-1] == f"--list={listed}"
    for member, run in enumerate(runs[1:]):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(member))
        assert read_job(["--list", str(listed)], 64) == run
    submit("--array=figure-3c", *more)
    assert len(list((tmp_path / "runs/arrays").iterdir())) == 2  # queued members of the first array still need theirs
    for run in runs[1:]:
        complete(run)
    assert "nothing to submit: figure-3c is trained" in submit("--array=figure-3c", *more)
