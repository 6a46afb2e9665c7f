"""Processes that tokenise: interrupted, at an error, and started by a script that does not expect them."""

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fairseq_linformer.corpus import workers
from fairseq_linformer.corpus.pretraining import Options, prepare

from .corpora import RUN, damaged, made_up, start, write_text


def endless(folder):
    """A source that takes many minutes: one small compressed stream, thousands of times."""
    (folder / "endless.txt.gz").write_bytes(gzip.compress(b"low lower hello world\n\n" * 50_000) * 5000)
    return folder / "endless.txt.gz"


def test_an_interruption_is_one_line_and_the_same_command_goes_on(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", made_up(3000))
    command = [sys.executable, "-m", "fairseq_linformer.cli", "prepare", "pretraining", tmp_path / "out", "--source", endless(tmp_path),
               "--source", source, "--gpt2", gpt2, "--valid-share", "0.3", "--chunk-mib", "0.001", "--workers", "2"]  # fmt: skip
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=Path(workers.__file__).parents[2], start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in the background of a shell it is ignored
    )  # fmt: skip
    while not list((tmp_path / "out").glob("work/*.json")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 130 and said.splitlines() == ["fairseq-linformer: interrupted"]
    assert list((tmp_path / "out").glob("work/*.json")) and not list((tmp_path / "out").glob("work/.*"))


def test_a_damaged_source_does_not_wait_for_another(tmp_path, gpt2):
    sources = (str(endless(tmp_path)), damaged(tmp_path, "cut.txt.gz"))
    with pytest.raises(ValueError, match="cut.txt.gz is "):
        prepare(tmp_path / "out", Options(sources, str(gpt2)), workers=2)
    # The other source, which takes many minutes, is neither finished nor half-written.
    assert not list((tmp_path / "out").glob("work/.*")) and not (tmp_path / "out/work/chunk-000000.json").exists()


def test_a_script_that_is_run_again_by_its_processes(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", made_up())
    process = start(tmp_path, gpt2, "out", script=RUN.replace('if __name__ == "__main__":', "if True:"))
    assert process.communicate(timeout=300)[1].splitlines()[-1].endswith('if __name__ == "__main__"')


def test_what_hears_an_interruption_is_put_back(monkeypatch):
    monkeypatch.setattr(workers, "_terminate", lambda pool: None)
    before = signal.getsignal(signal.SIGINT)
    try:
        for handler in (signal.default_int_handler, signal.SIG_IGN):
            signal.signal(signal.SIGINT, handler)
            with workers._terminated_by_interruption(None) as interruptions:
                os.kill(os.getpid(), signal.SIGINT)
            assert len(interruptions) == (handler != signal.SIG_IGN) and signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_it_runs_outside_of_the_main_thread(tmp_path, gpt2):
    said = []
    options = Options((str(write_text(tmp_path / "text.txt", made_up())),), str(gpt2), valid_share=0.3)
    thread = threading.Thread(target=lambda: said.append(prepare(tmp_path / "out", options, workers=1)))
    thread.start()
    thread.join(300)
    assert said and "for fairseq-train" in said[0]
