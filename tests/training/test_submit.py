"""``fairseq-linformer submit``: arguments of sbatch, and rejected jobs."""

import shlex
import sys

import pytest

from fairseq_linformer.training.run_folder import read_config
from fairseq_linformer.training.slurm import SCRIPT

from .jobs import ROOT, stand_in

pytestmark = pytest.mark.slow


@pytest.fixture
def submit(command, monkeypatch, tmp_path):
    """The command in the root of the repository."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("PYTHON", raising=False)
    return lambda *words: command("submit", f"--runs={tmp_path}/runs", *words)


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
            str(run),
        ]
    )
    assert "nothing was submitted" in printed[1]
    assert not (tmp_path / "runs").exists()


def test_sbatch_receives_the_job(submit, sbatch, mlm_data, tmp_path):
    printed = submit("+run=n512-roberta", f"task.data={mlm_data}", "--device=cpu", "--nodes=4", "--ntasks-per-node=2")
    assert printed.splitlines()[-1] == "Submitted batch job 7"
    python, *words = sbatch()
    assert python == sys.executable and words[2:5] == ["--nodes=4", "--ntasks-per-node=2", "--gpus-per-node=0"]
    assert words[-2:] == [str(SCRIPT), str(tmp_path / "runs/n512-roberta")]
    cfg = read_config(tmp_path / "runs/n512-roberta")
    assert cfg.distributed_training.distributed_world_size == 8 and cfg.task.data == mlm_data
    assert (tmp_path / "runs/n512-roberta/logs").is_dir()


def test_a_missing_sbatch_and_its_rejection_are_reported(submit, mlm_data, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "sbatch is not installed" in submit(f"task.data={mlm_data}") and not (tmp_path / "runs").exists()
    stand_in(tmp_path / "bin/sbatch", "echo sbatch: error: invalid partition >&2\necho again >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert submit("+run=n512-roberta", f"task.data={mlm_data}").endswith("invalid partition again")


def test_the_run_folder_alone_is_written_for_torchrun(submit, mlm_data, tmp_path):
    words = ("+run=n512-roberta", f"task.data={mlm_data}", "--device=cpu", "--no-sbatch")
    run = tmp_path / "runs/n512-roberta"
    assert submit(*words) == f"{run}\n" and read_config(run).common.cpu and not (tmp_path / "called").exists()
    assert "128 micro-batches per update" in submit(*words, "--name=other", "--nodes=3")
    assert not (tmp_path / "runs/other").exists()
    assert "optimization.lr must be [0.0005], got [0.1]" in submit(
        *words, "--name=n512-roberta", "optimization.lr=[0.1]"
    )
