"""Commits that do not identify the code of a record."""

import pytest

from fairseq_linformer.reproduction import commits

from .sample_records import record

HERE, GONE = "a" * 40, "b" * 40


@pytest.fixture
def repository(monkeypatch):
    monkeypatch.setattr(commits, "reachable_commits", lambda: frozenset([HERE]))


@pytest.mark.parametrize(
    "commit, defects",
    [
        (HERE, {}),
        (f"{HERE}-dirty", {f"{HERE}-dirty": "uncommitted changes"}),
        (GONE, {GONE: "code not in the repository"}),
        (f"{GONE}-dirty", {f"{GONE}-dirty": "code not in the repository"}),
        (f"{HERE}; {GONE}", {GONE: "code not in the repository"}),
        ("abc", {}),
    ],
)
def test_defects(repository, commit, defects):
    assert commits.commit_defects(record(commit=commit)) == defects


def test_without_a_full_clone_only_uncommitted_changes_are_known(monkeypatch):
    monkeypatch.setattr(commits, "reachable_commits", lambda: None)
    found = commits.commit_defects(record(commit=f"{GONE}; {HERE}-dirty"))
    assert found == {f"{HERE}-dirty": "uncommitted changes"}


def test_descriptions(repository):
    found = record(commit=f"{HERE}; {HERE}-dirty; {GONE}")
    changed, gone = "aaaaaaaaaaaa-dirty", "bbbbbbbbbbbb"
    assert commits.describe_commit(found) == (
        f"aaaaaaaaaaaa; {changed} (uncommitted changes); {gone} (code not in the repository)"
    )
    assert commits.commit_remarks(found) == [
        f"thing was measured at {changed}: uncommitted changes",
        f"thing was measured at {gone}: code not in the repository",
    ]
    assert commits.describe_commit(record(commit="abc")) == "abc"
