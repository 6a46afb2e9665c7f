"""The commit of a result."""

import subprocess
from functools import partial

import pytest

from fairseq_linformer import machine

current_commit = machine.current_commit
"""Before ``conftest.py`` replaces it."""


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Git in a repository with a commit, which stands for that of the source."""
    run = partial(subprocess.run, check=True, cwd=tmp_path, capture_output=True, text=True)
    run(["git", "init", "--quiet"])
    (tmp_path / "results").mkdir()
    for name in ("code.py", "results/a.json"):
        (tmp_path / name).write_text("1\n")
    run(["git", "add", "."])
    run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "all"])
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "code.py"))
    monkeypatch.setattr(machine, "current_commit", current_commit.__wrapped__)
    return lambda *arguments: run(["git", *arguments]).stdout


def test_untracked_files_and_results_leave_a_commit_clean(git, tmp_path):
    (tmp_path / "untracked.py").touch()
    (tmp_path / "results/a.json").write_text("2\n")
    assert machine.clean_commit() == git("rev-parse", "HEAD").strip()


def test_a_changed_file_is_rejected(git, tmp_path):
    (tmp_path / "code.py").write_text("2\n")
    with pytest.raises(ValueError, match="clean commit of a git checkout, got [0-9a-f]{40}-dirty; commit"):
        machine.clean_commit()


def test_a_repository_that_does_not_track_the_source_is_not_its_own(git, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "other.py"))
    with pytest.raises(ValueError, match="got none"):
        machine.clean_commit()
