"""The commands write cells and records, record their command line, and reject what cannot be measured."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from fairseq_linformer import machine
from fairseq_linformer.benchmark import __main__ as bare
from fairseq_linformer.benchmark import cells, train_process
from fairseq_linformer.benchmark.arguments import format_options
from fairseq_linformer.cli import benchmark, main
from fairseq_linformer.cli.benchmark_cells import build_scaling_cells
from fairseq_linformer.machine import current_commit
from fairseq_linformer.reproduction.cells import read_all, rows_of

GPU_SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_benchmark.sh"
SMALL = "--encoder-layers 1 --encoder-embed-dim 64"
TINY = f"{SMALL} --rounds 2"


@pytest.fixture
def run(tmp_path, capsys):
    """Runs ``benchmark WORDS`` with OUT for the folder of cells; returns what it prints."""

    def call(words: str) -> str:
        main(["benchmark", *shlex.split(words.replace("OUT", str(tmp_path / "out")))])
        return capsys.readouterr().out

    return call


@pytest.mark.slow
def test_inference(run, tmp_path):
    printed = run(f"inference OUT --lengths 32,64 --projected-dim 8,16 --max-tokens 64 {TINY}")
    assert "| 64 | 8 | linformer | eager | batch_ratio |" in printed
    rows = rows_of(read_all(tmp_path / "out"))
    places = {(row.n, row.k, row.baseline) for row in rows.select("time_ratio")}
    assert places == {(n, k, base) for n, k in ((32, 8), (32, 16), (64, 8), (64, 16)) for base in ("eager", "sdpa")}
    assert rows.find("time_ratio", n=64, k=16, baseline="sdpa").repetitions == 2


@pytest.mark.slow
def test_other_kinds(run, tmp_path):
    printed = run(f"scaling OUT --lengths 32,64 --projected-dim 8 --models recurrent,bigbird,linformer {TINY}")
    assert "not measured: scaling-cpu-fp32-l1-n32: bigbird" in printed and "microseconds_per_token" in printed
    training = f"training OUT --lengths 32 --projected-dim 8 --max-tokens 64 {SMALL}"
    run(f"{training} --finetuning-lengths 8 --only steps --rounds 2")
    run(f"{training} --finetuning-lengths none --only memory")
    run(f"inference OUT --whole-models --lengths 32 --projected-dim 8 {TINY}")
    rows = rows_of(read_all(tmp_path / "out"))
    assert rows.find("microseconds_per_token", model="recurrent", n=64)
    (per_token,) = rows.select("time_per_token_ratio")
    assert (per_token.n, per_token.baseline_n) == (64, 32)
    assert rows.find("time_ratio", phase="pretraining", n=32, baseline="authors", model="ours")
    assert rows.find("time_ratio", phase="finetuning", n=8, baseline="roberta", model="ours")
    assert rows.find("bytes_share", phase="pretraining", n=32, baseline="authors", model="ours")
    assert rows.find("utilization", phase="pretraining", n=32, model="ours")
    assert {row.baseline for row in rows.select("time_ratio", phase=None)} == {"roberta", "authors"}
    assert run("report OUT") == run("report OUT")


@pytest.mark.slow
@pytest.mark.long
def test_process_uses_the_optimizer_of_its_options(run, tmp_path, monkeypatch):
    logs, run_command = [], train_process.run_command
    monkeypatch.setattr(train_process, "run_command", lambda *call: logs.append(run_command(*call)) or logs[-1])
    process = (
        "--only process --models ours --max-update 3 --warmup-updates 2 '--fairseq-options=--optimizer fused_adam'"
    )
    run(f"training OUT --lengths 32 --projected-dim 8 --max-tokens 64 {TINY} --rounds 1 {process}")
    assert len(logs) == 1 and "'_name': 'fused_adam'" in logs[0][0] and "'_name': 'adam'" not in logs[0][0]
    (cell,) = read_all(tmp_path / "out")
    assert (cell["configuration"]["options"], cell["clock"]) == (["--optimizer", "fused_adam"], "wall")
    assert "--warmup-updates 2" in cell["command"] and "'--fairseq-options=--optimizer fused_adam'" in cell["command"]


def test_a_missing_gpu_is_rejected(run, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match="device .*cuda"):
        run("inference OUT --lengths 64 --projected-dim 8 --device cuda")
    assert not (tmp_path / "out").exists()


def parsed(*words):
    parser = argparse.ArgumentParser()
    benchmark.add_parser(parser.add_subparsers(dest="command"))
    return parser.parse_args(["benchmark", *words])


@pytest.mark.parametrize(
    "words",
    [
        "inference OUT --lengths 512,1024 --projected-dim 64 --gpu-memory-gib 3 --max-memory-gib 2.5 --warmup-rounds 0 "
        "--encoder-embed-dim 128 --max-tokens 99",
        "inference OUT --rounds 7 --threads 2 --encoder-layers 3",
        "inference OUT --whole-models --device cuda --dtype bf16",
        "scaling OUT --only pertoken --max-memory-gib 1 --models linformer,fnet",
        "training OUT --only process --finetuning-lengths none --max-update 9 --warmup-updates 3 --models ours "
        "--fairseq-options='--compile --optimizer fused_adam'",
        "finetuning OUT --data DATA --max-positions 64 --batch-size 2 --max-update 7",
    ],
)
def test_recorded_command_has_all_options(words):
    options = parsed(*shlex.split(words))
    folders = ["OUT", *(["--data", "DATA"] if options.kind == "finetuning" else [])]
    again = parsed(options.kind, *folders, *format_options(vars(options), exclude=benchmark.NOT_RECORDED))
    assert again == options
    assert {"lengths", "k", "fairseq_options", "whole"}.isdisjoint(benchmark.NOT_RECORDED)


def test_per_token_cell_has_all_lengths():
    (cell,) = build_scaling_cells(
        parsed("scaling", "OUT", "--only", "pertoken", "--lengths", "64,16,32", "--projected-dim", "8")
    )
    assert cell.lengths == (16, 32, 64) and cell.tokens == 64
    (cell,) = build_scaling_cells(parsed("scaling", "OUT", "--only", "pertoken"))
    assert cell.lengths == (512, 16384)


@pytest.mark.slow
def test_module_needs_only_pytorch(tmp_path):
    """A process in which fairseq, transformers, psutil and other packages cannot be imported still measures."""
    others = (
        "fairseq",
        "transformers",
        "matplotlib",
        "hydra",
        "omegaconf",
        "psutil",
        "scipy",
        "linformer",
        "linformer_pytorch",
    )
    hide = f"import runpy, sys; sys.modules.update(dict.fromkeys({others})); "
    code = hide + "runpy.run_module('fairseq_linformer.benchmark', run_name='__main__')"
    options = "--device cpu --lengths 256 --encoder-layers 1 --encoder-embed-dim 64 --rounds 1 --max-tokens 512"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *options.split(), "--commit", "abc"],
        check=True,
        capture_output=True,
        text=True,
        cwd=GPU_SCRIPT.parents[1],
    )
    assert "3 of 3 cells" in ended.stdout
    step = cells.read_cell(tmp_path / "training-cpu-fp32-l1-n256-bare.json")
    assert set(step["measured"]["seconds"]) == {"ours-modules", "transformer-eager", "transformer-sdpa"}
    row = cells.read_cell(tmp_path / "inference-cpu-fp32-l1-n256.json")
    assert set(row["measured"]["seconds"]) == {"eager", "sdpa", "k=128"} and row["commit"] == "abc"


def test_command_of_the_module_is_recorded(tmp_path, monkeypatch):
    recorded = []
    monkeypatch.setattr(
        bare, "measure_cells", lambda cells, out, provenance, minutes: recorded.append(provenance.command) or []
    )
    options = "--device cpu --dtype fp32 --dtype bf16 --lengths 256 --rounds 2 --commit abc --minutes 3"
    bare.main([str(tmp_path), *options.split()])
    assert recorded == [
        "python -m fairseq_linformer.benchmark OUT --device cpu --lengths 256 --encoder-layers 12 "
        "--encoder-embed-dim 768 --max-tokens 32768 --rounds 2 "
        "--dtype fp32 --dtype bf16"
    ]


def test_module_rejects_invalid_arguments(tmp_path, capsys):
    for words, message in (
        (["--encoder-embed-dim", "100"], "embed_dim .*100"),
        (["--lengths", "many"], "'many'"),
        (["--lengths", "0"], "'0'"),
        (["--max-tokens", "0"], "'0'"),
        (["--lengths", "256", "--minutes", "nan"], "minutes .*nan"),
    ):
        with pytest.raises(SystemExit) as end:
            bare.main([str(tmp_path / "out"), "--device", "cpu", "--commit", "abc", *words])
        assert re.search(message, end.value.code if isinstance(end.value.code, str) else capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_gpu_script_with_wrong_arguments_starts_nothing(tmp_path):
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\n")
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    ended = subprocess.run(["bash", GPU_SCRIPT, "--help"], env=environment, capture_output=True, text=True)
    assert ended.returncode == 2 and not (tmp_path / "begun").exists()
    assert "usage: " in ended.stderr and ended.stderr.count("\n") == 1


def test_commit_does_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    here = current_commit()
    monkeypatch.chdir(tmp_path)
    assert current_commit() == here
    subprocess.run(["git", "init", "--quiet"], check=True)
    assert current_commit() == here


def test_rewritten_results_do_not_make_the_commit_dirty(tmp_path):
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


@pytest.mark.parametrize("command", ["benchmark", "module"])
def test_uncommitted_changes_are_rejected_before_anything_is_measured(tmp_path, monkeypatch, capsys, command):
    monkeypatch.setattr(machine, "changed_files", lambda folder=None: ["code.py"])
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as end:
        if command == "module":
            bare.main([str(out), "--device", "cpu"])
        else:
            main(["benchmark", "inference", str(out), "--lengths", "64", "--projected-dim", "8"])
    assert re.search("clean commit.*-dirty.*code.py", str(end.value.code))
    assert not out.exists()
