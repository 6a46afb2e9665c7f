"""Clean commits."""

import subprocess
from functools import partial

import pytest

from fairseq_linformer import machine

changed_files = machine.changed_files
"""Before ``conftest.py`` replaces it."""


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Git in a repository with a commit, which stands for that of the source."""
    run = partial(subprocess.run, check=True, cwd=tmp_path, capture_output=True, text=True)
    run(["git", "init", "--quiet"])
    for name in ("code.py", "more.py"):
        (tmp_path / name).write_text("1\n")
    run(["git", "add", "."])
    run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "all"])
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "code.py"))
    monkeypatch.setattr(machine, "changed_files", lambda folder=None: changed_files(tmp_path))
    yield lambda *arguments: run(["git", *arguments]).stdout


def test_a_clean_commit(git, tmp_path):
    assert machine.clean_commit() == machine.current_commit() == git("rev-parse", "HEAD").strip()
    (tmp_path / "untracked.py").touch()
    assert machine.clean_commit()


@pytest.mark.parametrize("names, named", [(["code.py"], "stash code.py first"), (["code.py", "more.py"], "and others")])
def test_changed_files_are_named(git, tmp_path, names, named):
    for name in names:
        (tmp_path / name).write_text("2\n")
    with pytest.raises(ValueError, match=f"clean commit, got [0-9a-f]{{40}}-dirty.*{named}"):
        machine.clean_commit()


def test_outside_a_repository_there_is_no_clean_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "code.py"))
    with pytest.raises(ValueError, match="commit.*git"):
        machine.clean_commit()
