"""Exported folders are evaluated without fairseq."""

import subprocess

import pytest


@pytest.fixture(scope="session")
def run_without_fairseq(extra_environment):
    """A function that runs the command in an environment with all extras, but without fairseq."""
    folder = extra_environment("all")

    def run(*words):
        words = [folder / "fairseq-linformer", *map(str, words)]
        return subprocess.run(words, capture_output=True, text=True, cwd=folder, env={"PATH": "/usr/bin:/bin"})

    return run


@pytest.mark.slow
def test_exported_folders(run_without_fairseq, classifier_folder, finetuned, table, tmp_path):
    found = run_without_fairseq("evaluate", classifier_folder, table, "--predictions", tmp_path / "rows.jsonl")
    assert found.returncode == 0, found.stderr
    assert "labeled rows" in found.stdout and (tmp_path / "rows.jsonl").is_file()
    # The same process cannot read a fairseq checkpoint.
    ended = run_without_fairseq("evaluate", finetuned, table)
    assert "needs fairseq, which is not installed" in ended.stderr
