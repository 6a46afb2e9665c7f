"""The commands write cells and records, record their command line, and reject what cannot be measured."""

import argparse
import re
import shlex

import pytest
import torch

from fairseq_linformer import machine
from fairseq_linformer.benchmark import train_process
from fairseq_linformer.benchmark.arguments import format_options
from fairseq_linformer.cli import benchmark, main
from fairseq_linformer.cli.benchmark_cells import build_scaling_cells
from fairseq_linformer.reproduction.cells import read_all, rows_of

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


def test_uncommitted_changes_are_rejected_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "current_commit", lambda: "1" * 40 + machine.DIRTY)
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as end:
        main(["benchmark", "inference", str(out), "--lengths", "64", "--projected-dim", "8"])
    assert re.search("clean commit.*-dirty", str(end.value.code))
    assert not out.exists()
