"""The command that is recorded is the command."""

import argparse
import os
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from fairseq_linformer.benchmark import __main__ as bare
from fairseq_linformer.benchmark.cells import slug, words_of
from fairseq_linformer.cli import benchmark
from fairseq_linformer.machine import current_commit

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_benchmark.sh"


def parsed(*words):
    parser = argparse.ArgumentParser()
    benchmark.add_parser(parser.add_subparsers(dest="command"))
    return parser.parse_args(["benchmark", *words])


@pytest.mark.parametrize("words", [
    "inference OUT --lengths 512,1024 --k 64 --memory-gib 3 --usable-gib 2.5 --warm-up 0 --width 128 --tokens 99 --rounds 7 --threads 2 --layers 3",
    "inference OUT --whole --device cuda --dtype bf16",
    "scaling OUT --part pertoken --usable-gib 1 --models linformer,fnet",
    "training OUT --part process --finetuning none --updates 9 --warm-up-updates 3 --models ours --fairseq-options='--compile --optimizer fused_adam'",
    "finetuning OUT --data DATA --max-positions 64 --batch-size 2 --updates 7",
])  # fmt: skip
def test_every_option_is_in_the_command_that_is_recorded(words):
    options = parsed(*shlex.split(words))
    folders = ["OUT", *(["--data", "DATA"] if options.kind == "finetuning" else [])]
    again = parsed(options.kind, *folders, *words_of(vars(options), but=benchmark.NOT_RECORDED))
    assert again == options
    assert {"lengths", "k", "fairseq_options", "whole"}.isdisjoint(benchmark.NOT_RECORDED)


def test_the_bare_command_is_recorded_too(tmp_path, monkeypatch):
    recorded = []
    monkeypatch.setattr(bare, "measure", lambda cells, out, provenance, minutes: recorded.append(provenance.command) or [])
    bare.main([str(tmp_path), "--device", "cpu", "--dtype", "fp32", "--dtype", "bf16", "--lengths", "256", "--rounds", "2", "--commit", "abc", "--minutes", "3"])
    assert recorded == ["python -m fairseq_linformer.benchmark OUT --device cpu --lengths 256 --layers 12 --width 768 --tokens 32768 --rounds 2 "
                        "--dtype fp32 --dtype bf16"]  # fmt: skip


def test_time_per_token_is_of_every_length_that_was_given():
    (cell,) = benchmark._scaling(parsed("scaling", "OUT", "--part", "pertoken", "--lengths", "64,16,32", "--k", "8"))
    assert cell.lengths == (16, 32, 64) and cell.tokens == 64
    (cell,) = benchmark._scaling(parsed("scaling", "OUT", "--part", "pertoken"))
    assert cell.lengths == (512, 16384)


def test_the_bare_script_refuses_what_the_command_refuses(tmp_path, capsys):
    for words, sentence in ((["--width", "100"], "width is 100; it must be a multiple of 64"), (["--lengths", "many"], "'many' is not numbers"),
                            (["--lengths", "0"], "'0' has a number below 1"), (["--tokens", "0"], "'0' has a number below 1"),
                            (["--lengths", "256", "--minutes", "nan"], "minutes is nan")):  # fmt: skip
        with pytest.raises(SystemExit) as end:
            bare.main([str(tmp_path / "out"), "--device", "cpu", "--commit", "abc", *words])
        assert sentence in (end.value.code if isinstance(end.value.code, str) else capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_a_script_that_is_called_wrongly_begins_nothing(tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\n")
    python.chmod(0o755)
    shutil.copy(python, python.with_name("python3"))
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": "yes"}
    ended = subprocess.run(["bash", SCRIPT, "--help"], env=environment, capture_output=True, text=True)
    assert ended.returncode == 2 and not (tmp_path / "begun").exists()
    assert ended.stderr.startswith("usage: ") and ended.stderr.count("\n") == 1


def test_a_slug():
    assert slug(()) == "" and slug(("--compile",)) == "-compile" and slug(("--adam-betas", "(0.9, 0.98)")) == "-adam-betas-0-9-0-98"


def test_the_commit_is_that_of_the_source_wherever_it_is_run(tmp_path, monkeypatch):
    here = current_commit()
    monkeypatch.chdir(tmp_path)
    assert current_commit() == here
    subprocess.run(["git", "init", "--quiet"], check=True)
    assert current_commit() == here


def test_what_a_measurement_rewrites_does_not_make_its_commit_another(tmp_path):
    git = partial(subprocess.run, check=True, cwd=tmp_path)
    (tmp_path / "results").mkdir()
    for name in ("results/a.json", "README.md", "code.py"):
        (tmp_path / name).write_text("1\n")
    git(["git", "init", "--quiet"])
    git(["git", "add", "."])
    git(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "all"])
    clean = current_commit(tmp_path)
    for name in ("results/a.json", "README.md"):
        (tmp_path / name).write_text("2\n")
    assert current_commit(tmp_path) == clean and len(clean) == 40
    (tmp_path / "code.py").write_text("2\n")
    assert current_commit(tmp_path) == f"{clean}-dirty" == current_commit(tmp_path / "results")
