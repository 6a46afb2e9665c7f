"""Worker processes: interruption, errors, scripts without a main guard, and progress."""

import gzip
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fairseq_linformer.data import workers
from fairseq_linformer.data.pretraining import CorpusOptions, prepare_corpus
from fairseq_linformer.progress import Progress

from ..forked_worker import reset_signals
from .corpora import RUN, build_documents, damaged, start, write_text


def write_endless_source(folder):
    """A source that takes many minutes to read: one small compressed stream, thousands of times."""
    (folder / "write_endless_source.txt.gz").write_bytes(gzip.compress(b"low lower hello world\n\n" * 50_000) * 5000)
    return folder / "write_endless_source.txt.gz"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interruption_prints_one_line_and_keeps_finished_chunks(number, tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", build_documents(3000))
    command = [
        sys.executable,
        "-m",
        "fairseq_linformer.cli",
        "prepare",
        "pretraining",
        tmp_path / "out",
        "--source",
        write_endless_source(tmp_path),
        "--source",
        source,
        "--gpt2-bpe",
        gpt2,
        "--valid-share",
        "0.3",
        "--chunk-mib",
        "0.001",
        "--workers",
        "2",
    ]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(workers.__file__).parents[2],
        start_new_session=True,
        preexec_fn=reset_signals,
    )
    while not list((tmp_path / "out").glob("work/*.json")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    # A terminal sends the other signals to the workers, too.
    (os.kill if number == signal.SIGTERM else os.killpg)(process.pid, number)
    errors = process.communicate(timeout=300)[1]
    interrupted = ["fairseq-linformer: interrupted"] if number == signal.SIGINT else []
    assert process.returncode == 128 + number and errors.splitlines() == interrupted
    assert list((tmp_path / "out").glob("work/*.json")) and not list((tmp_path / "out").glob("work/.*"))


def test_damaged_source_fails_without_waiting_for_others(tmp_path, gpt2):
    sources = (str(write_endless_source(tmp_path)), damaged(tmp_path, "cut.txt.gz"))
    with pytest.raises(ValueError, match="cut.txt.gz is "):
        prepare_corpus(tmp_path / "out", CorpusOptions(sources, str(gpt2)), workers=2)
    # The other source, which takes many minutes, is neither finished nor half-written.
    assert not list((tmp_path / "out").glob("work/.*")) and not (tmp_path / "out/work/chunk-000000.json").exists()


@pytest.mark.slow
def test_script_without_main_guard_gets_a_hint(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", build_documents())
    process = start(tmp_path, gpt2, "out", script=RUN.replace('if __name__ == "__main__":', "if True:"))
    assert process.communicate(timeout=300)[1].splitlines()[-1].endswith('if __name__ == "__main__"')


def test_signal_handler_is_restored(monkeypatch):
    monkeypatch.setattr(workers, "_terminate", lambda pool: None)
    before = signal.getsignal(signal.SIGINT)
    try:
        for handler in (signal.default_int_handler, signal.SIG_IGN):
            signal.signal(signal.SIGINT, handler)
            with workers._terminate_on_signals(None) as received:
                os.kill(os.getpid(), signal.SIGINT)
            assert len(received) == (handler != signal.SIG_IGN) and signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_runs_outside_the_main_thread(tmp_path, gpt2):
    summaries = []
    options = CorpusOptions((str(write_text(tmp_path / "text.txt", build_documents())),), str(gpt2), valid_share=0.3)
    thread = threading.Thread(target=lambda: summaries.append(prepare_corpus(tmp_path / "out", options, workers=1)))
    thread.start()
    thread.join(300)
    assert summaries and "for fairseq-train" in summaries[0]


@pytest.mark.slow
def test_redirected_output_has_progress_lines(tmp_path, gpt2, monkeypatch, capsys):
    """While chunks are tokenized, with the size done, rate and ETA; here at short intervals."""
    monkeypatch.setattr(workers, "Progress", lambda *args: Progress(*args, interval=0.01))
    source = write_text(tmp_path / "text.txt", build_documents(2000))
    options = CorpusOptions((str(source),), str(gpt2), valid_share=0.3, chunk_mib=0.01)
    prepare_corpus(tmp_path / "out", options, workers=1)
    lines = capsys.readouterr().err.splitlines()
    total = rf"{source.stat().st_size / 1000:,.1f} kB"
    line = rf"tokenizing: [\d.]+ kB/{total} \(\d+ %\), [\d.]+ [kM]?B/s, ETA 0:00:\d\d"
    assert any(re.fullmatch(line, printed) for printed in lines), lines
    assert any(printed.startswith(f"tokenizing: {total} in 0:00:") for printed in lines)
    assert any(printed.startswith("hashing: ") for printed in lines)
