"""Progress: lines at intervals where output is redirected, a bar on a terminal."""

import re
import sys
import time

import pytest

from fairseq_linformer import progress
from fairseq_linformer.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when ``clock.seconds`` is set."""

    class Clock:
        seconds = 100.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.seconds)
    return Clock


def test_lines_have_count_rate_and_eta(capsys, clock):
    with Progress("reading", 10_000_000) as work:
        clock.seconds += 30
        assert work.summary() == "reading: 0 B/10.0 MB (0 %) after 0:00:30"
        work.add(6_000_000)
        clock.seconds += 30
        assert work.summary() == "reading: 6.0 MB/10.0 MB (60 %), 100.0 kB/s, ETA 0:00:40"
        work.add(4_000_000)
        clock.seconds += 40
    assert capsys.readouterr().err == "reading: 10.0 MB in 0:01:40, 100.0 kB/s\n"


def test_a_resumed_run_has_its_own_rate(clock):
    with Progress("spectrum", 10_000, "sentences", initial=4_000) as work:
        work.add(15)
        clock.seconds += 60
        assert work.summary() == "spectrum: 4,015/10,000 sentences (40 %), 0.25 sentences/s, ETA 6:39:00"


def test_lines_are_printed_even_while_no_unit_is_finished(capsys):
    with Progress("reading", 2, "chunks", interval=0.01):
        deadline = time.monotonic() + 300
        lines: list[str] = []
        while len(lines) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
            lines += capsys.readouterr().err.splitlines()
    assert lines[:2] == ["reading: 0/2 chunks (0 %) after 0:00:00"] * 2


def test_an_error_prints_no_summary(capsys):
    with pytest.raises(KeyError), Progress("reading", 10):
        raise KeyError
    assert capsys.readouterr().err == ""


def test_terminal_shows_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress("reading", 2000, "documents", initial=500) as work:
        work.add(1500)
    output = capsys.readouterr().err
    assert "reading: 100%" in output and "2.00k/2.00k" in output and "documents/s" in output


def test_total_may_be_unknown(capsys, clock):
    with Progress("evaluating", None, "rows") as work:
        work.add(3000)
        clock.seconds += 2
        assert work.summary() == "evaluating: 3,000 rows, 1,500 rows/s"
    assert re.fullmatch(r"evaluating: 3,000 rows in 0:00:02, 1,500 rows/s\n", capsys.readouterr().err)
