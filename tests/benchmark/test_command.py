"""The command that is recorded is the command, and scripts/benchmark.sh runs to its end."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
import torch

from fairseq_linformer.benchmark import __main__ as bare
from fairseq_linformer.benchmark import process
from fairseq_linformer.benchmark.cells import slug, words_of
from fairseq_linformer.benchmark.stopwatch import PARTS
from fairseq_linformer.benchmark.whole import OF_INDEX, why_not
from fairseq_linformer.cli import benchmark, main
from fairseq_linformer.machine import current_commit
from fairseq_linformer.reproduce import ledger

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark.sh"


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


@pytest.mark.parametrize("script, words", [("benchmark.sh", ["OUT", "steps", "stepz"]), ("benchmark.sh", ["--help"]), ("gpu_benchmark.sh", ["--help"])])
def test_a_script_that_is_called_wrongly_begins_nothing(script, words, tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\n")
    python.chmod(0o755)
    shutil.copy(python, python.with_name("python3"))
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": "yes"}
    ended = subprocess.run(["bash", SCRIPT.with_name(script), *words], env=environment, capture_output=True, text=True)
    assert ended.returncode == 2 and not (tmp_path / "begun").exists()
    assert ended.stderr.startswith("no piece is called stepz; there are steps" if "stepz" in words else "usage: ") and ended.stderr.count("\n") == 1


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


def pieces_of_the_script(tmp_path):
    """Piece: the arguments that the script gives to ``fairseq-linformer``, taken down by a python that does nothing else."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {tmp_path}/said\n')
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": "yes", "SST2": "DATA"}
    told = subprocess.run(["bash", SCRIPT, "OUT"], env=environment, check=True, capture_output=True, text=True).stdout
    lines = [line.split("fairseq_linformer.cli ")[1].split() for line in (tmp_path / "said").read_text().splitlines() if "fairseq_linformer.cli" in line]
    return dict(zip(re.findall("^== (.*)$", told, re.M), lines, strict=True))


def tiny(words, tmp_path, data):
    """The same options at a size that takes seconds: a 32nd of n and k, 3 layers where there are 12, one sentence or two."""
    kind, given = words[1], dict(zip(words, words[1:]))
    divided = lambda text: text if text == "none" else ",".join(str(max(1, int(n) // 32)) for n in text.split(","))  # noqa: E731
    sizes = {"--width": "64", "--layers": given.get("--layers", "2" if kind == "scaling" else "3").replace("12", "3")}
    if kind == "finetuning":
        sizes |= {"--max-positions": "16", "--k": "4"}
    else:
        sizes |= {"--tokens": str(max(int(n) for n in divided(given["--lengths"]).split(","))) if kind == "scaling" else "32"}
        sizes |= {"--lengths": divided(given.get("--lengths", "512,1024"))}
        sizes |= {"--k": divided(given.get("--k", "256" if kind != "inference" or "--whole" in words else "128,256,512,1024"))}
    if kind == "training" and given["--part"] in ("steps", "memory"):
        sizes |= {"--finetuning": divided(given.get("--finetuning", "256,512"))}
    places = {"OUT": str(tmp_path / "out"), "results": str(tmp_path / "results"), "DATA": str(data)}
    return [places.get(word, word) for word in [*words, *(part for option in sizes.items() for part in option)]]  # the last one wins


@pytest.mark.slow
def test_the_script_runs_to_its_end_in_one_folder(tmp_path, pieces, monkeypatch):
    """Every piece at a tiny size, one after the other; whole processes are not started here, they have tests of their own."""
    data = tmp_path / "data"
    shutil.copytree(pieces, data)
    (data / "manifest.json").write_text('{"task": "sst-2"}')
    log = "\n".join('| train_inner | {"epoch": 1, "wps": "%d", "wpb": "100"}' % wps for wps in (1, 50, 60, 70, 80))
    monkeypatch.setattr(process, "run", lambda command: (log, 2**20))
    monkeypatch.setattr("fairseq_linformer.benchmark.shares.Shares._updates", lambda *_: [{**dict.fromkeys(PARTS, 0.1), "whole": 1.0}] * 6)
    threads = [1]  # as many as the script says are recorded, and one computes: two would only wait for each other
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    peers = all(why_not(name) is None for name in OF_INDEX)  # the script installs them, the tests do not
    for piece, words in pieces_of_the_script(tmp_path).items():
        if peers or not piece.startswith("peers"):
            main(tiny(words, tmp_path, data))
    results = tmp_path / "results"
    entries = {path.stem.removeprefix("benchmark-"): ledger.read(path) for path in results.glob("*.json")}
    sized = {"training": "l3-d64-k8", "inference": "l2-d64", "whole": "l3-d64-k8", "pertoken": "l3-d64-k8", "scaling": "l2-d64-k8", "process": "l3-d64-k8",
             "shares": "l3-d64-k8", "finetuning": "l3-d64-k4"}  # fmt: skip
    expected = {f"{kind}-cpu-fp32-{sizes}" for kind, sizes in sized.items()} | {"inference-cpu-fp32-l1-d64"}
    assert set(entries) == expected | ({"training-cpu-fp32-l3-d64-k8-peers"} if peers else set())
    assert {entry.configuration["threads"] for name, entry in entries.items() if "-l3-" in name} == {2}
    before = {path: path.read_bytes() for path in results.glob("*.json")}
    main(["benchmark", "report", str(tmp_path / "out"), "--results", str(results)])
    assert before == {path: path.read_bytes() for path in results.glob("*.json")}
