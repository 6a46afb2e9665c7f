"""Progress: plain lines where there is no terminal, a bar where there is one."""

import sys

from fairseq_linformer import progress
from fairseq_linformer.progress import Progress


def test_plain_lines(capsys, monkeypatch):
    seconds = iter([0.0, 1.0, 4.0, 4.0, 10.0])  # begun, and at each look at the clock
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    with Progress("reading", 10_000_000, every=3) as told:
        told.add(1_000_000)  # after 1 s: too early for a line
        told.add(3_000_000)  # after 4 s
        told.add(6_000_000)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "reading: 40 %, 4.0 MB, 1.0 MB/s, 6 s left"
    assert said[-1].startswith("reading: 100 %, 10.0 MB, 1.0 MB/s in 10 s")


def test_nothing_is_said_of_what_failed(capsys):
    try:
        with Progress("reading", 10):
            raise ValueError
    except ValueError:
        pass
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress("reading", 2000, "documents") as told:
        told.add(2000)
    said = capsys.readouterr().err
    assert "reading: 100%" in said and "2.00k/2.00k" in said and "documents/s" in said


def test_how_many_there_are_need_not_be_known(capsys):
    with Progress("judging", None, "rows") as told:
        told.add(3)
    assert capsys.readouterr().err.startswith("judging: 3 rows, ")


def test_what_ends_early_has_nothing_left(capsys):
    with Progress("reading", 10, "lines") as told:
        told.add(4)
    said = capsys.readouterr().err
    assert said.startswith("reading: 40 %, 4 lines, ") and " in 0 s" in said and "left" not in said
