"""The commands write cells and records, record themselves, and refuse."""

import argparse
import os
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from fairseq_linformer.benchmark import __main__ as bare
from fairseq_linformer.benchmark import cells, train_process
from fairseq_linformer.benchmark.arguments import words_of
from fairseq_linformer.cli import benchmark, main
from fairseq_linformer.machine import current_commit
from fairseq_linformer.reproduction.cells import records_in
from fairseq_linformer.reproduction.records import read

GPU_SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_benchmark.sh"
TINY = ["--layers", "1", "--width", "64", "--rounds", "2"]


def test_the_command_writes_a_record(tmp_path):
    out, results = str(tmp_path / "out"), tmp_path / "results"
    main(
        [
            "benchmark",
            "inference",
            out,
            "--results",
            str(results),
            "--lengths",
            "32,64",
            "--k",
            "8,16",
            "--tokens",
            "64",
            *TINY,
        ]
    )
    inference = read(results / "benchmark-inference-cpu-fp32-l1-d64.json")
    places = {(m.n, m.k, m.baseline) for m in inference.select("time_ratio")}
    assert places == {(n, k, base) for n, k in ((32, 8), (32, 16), (64, 8), (64, 16)) for base in ("eager", "sdpa")}
    assert inference.find("batch_ratio", n=64, k=8, baseline="eager") is not None
    assert inference.find("time_ratio", n=64, k=16, baseline="sdpa").repetitions == 2
    assert (inference.experiment, inference.made_by) == ("table-3", "benchmark")
    assert inference.configuration["clock"] == "processor"


@pytest.mark.slow
def test_the_other_commands_and_their_records(tmp_path, capsys):
    out, results = str(tmp_path / "out"), tmp_path / "results"
    main(
        [
            "benchmark",
            "scaling",
            out,
            "--results",
            str(results),
            "--lengths",
            "32,64",
            "--k",
            "8",
            "--models",
            "recurrent,bigbird,linformer",
            *TINY,
        ]
    )
    assert "not measured: scaling-cpu-fp32-l1-n32: bigbird" in capsys.readouterr().out
    training = [
        "benchmark",
        "training",
        out,
        "--results",
        str(results),
        "--lengths",
        "32",
        "--k",
        "8",
        "--tokens",
        "64",
        *TINY,
    ]
    main([*training, "--finetuning", "8", "--part", "steps"])
    main([*training, "--finetuning", "none", "--part", "memory"])
    scaling = read(results / "benchmark-scaling-cpu-fp32-l1-d64-k8.json")
    assert scaling.find("exponent", model="linformer") and scaling.find("microseconds_per_token", model="recurrent", n=64)
    (per_token,) = read(results / "benchmark-pertoken-cpu-fp32-l1-d64-k8.json").measurements
    assert (per_token.metric, per_token.n, per_token.baseline_n) == ("time_per_token_ratio", 64, 32)
    trained = read(results / "benchmark-training-cpu-fp32-l1-d64-k8.json")
    assert trained.find("time_ratio", phase="pretraining", n=32, baseline="authors", model="ours")
    assert trained.find("time_ratio", phase="finetuning", n=8, baseline="roberta", model="ours")
    assert trained.find("bytes_share", phase="pretraining", n=32, baseline="authors", model="ours")
    assert trained.find("utilization", phase="pretraining", n=32, model="ours")
    main(["benchmark", "inference", out, "--results", str(results), "--whole", "--lengths", "32", "--k", "8", *TINY])
    whole = read(results / "benchmark-whole-cpu-fp32-l1-d64-k8.json")
    assert {m.baseline for m in whole.select("time_ratio")} == {"roberta", "authors"} and " --whole" in whole.command
    steps, memory = trained.command.split("; ")
    assert (
        " --finetuning 8 --part steps" in steps
        and " --finetuning none --part memory" in memory
        and "--width 64" in steps
    )
    before = {path: path.read_bytes() for path in results.glob("*.json")}
    main(["benchmark", "report", out, "--results", str(results)])
    assert before == {path: path.read_bytes() for path in results.glob("*.json")}


@pytest.mark.slow
def test_a_process_is_trained_by_the_optimizer_among_its_options(tmp_path, monkeypatch):
    logs = []
    monkeypatch.setattr(
        train_process, "run", lambda command, run=train_process.run: logs.append(run(command)) or logs[-1]
    )
    shape = ["--lengths", "32", "--k", "8", "--tokens", "64", *TINY, "--rounds", "1"]
    main(
        [
            "benchmark",
            "training",
            str(tmp_path / "out"),
            "--results",
            str(tmp_path / "results"),
            "--part",
            "process",
            "--models",
            "ours",
            "--updates",
            "3",
            "--warm-up-updates",
            "2",
            "--fairseq-options=--optimizer fused_adam",
            *shape,
        ]
    )
    assert len(logs) == 1 and "'_name': 'fused_adam'" in logs[0][0] and "'_name': 'adam'" not in logs[0][0]
    (entry,) = records_in(tmp_path / "out")
    assert (
        entry.identifier == "benchmark-process-cpu-fp32-l1-d64-k8-optimizer-fused-adam"
        and entry.configuration["clock"] == "wall"
    )
    assert "--warm-up-updates 2" in entry.command and "'--fairseq-options=--optimizer fused_adam'" in entry.command


@pytest.mark.parametrize(
    "arguments, named",
    [
        ("inference OUT --lengths 64 --k 128", "k is 128"),
        ("inference OUT --lengths 64,256 --k 128", "n is 64"),
        ("inference OUT --lengths 64,256 --k 8,512", "k is 512"),
        ("inference OUT --lengths many", "'many'"),
        ("inference OUT --lengths 64,64", "64 twice"),
        ("inference OUT --lengths 64 --k 8 --rounds 0", "rounds is 0"),
        ("inference OUT --lengths 64 --k 8 --warm-up -1", "warm_up is -1"),
        ("inference OUT --lengths 64 --k 8 --minutes nan", "minutes is nan"),
        ("inference OUT --lengths 64 --k 8 --usable-gib nan", "usable_gib is nan"),
        ("inference OUT --lengths 64 --k 8 --memory-gib inf", "memory_gib is inf"),
        ("inference OUT --lengths 64 --k 8 --device cuda", "device is cuda"),
        ("inference OUT --width 100", "width is 100"),
        ("inference OUT --k none", "'none'"),
        ("inference OUT --k 0", "'0'"),
        ("inference OUT --tokens 0", "'0'"),
        ("inference OUT --whole --k 8,16", "--k is 8,16"),
        ("inference OUT --whole --lengths 512 --k 200", "k is 200"),
        ("inference OUT --whole --usable-gib 4", "--usable-gib"),
        ("inference OUT --whole --memory-gib 4", "--memory-gib"),
        ("scaling OUT --usable-gib -1", "usable_gib is -1.0"),
        ("scaling OUT --models transformer", "transformer"),
        ("scaling OUT --lengths 48,64", "tokens is 64"),
        ("scaling OUT --lengths none", "'none'"),
        ("scaling OUT --part pertoken --lengths 512", "lengths is 512"),
        ("scaling OUT --part pertoken --models linformer", "--models"),
        ("training OUT --models gpt", "gpt"),
        ("training OUT --models ours,", "'ours,'"),
        ("training OUT --models ours,ours --part process", "ours twice"),
        ("training OUT --models ours-modules --updates 9", "--updates"),
        ("training OUT --part steps --lengths 96 --k 24", "k is 24"),
        ("training OUT --part steps --fairseq-options=--compile", "--fairseq-options"),
        ("training OUT --part memory --warm-up 0", "--warm-up"),
        ("training OUT --part process --finetuning none", "--finetuning"),
        ("training OUT --part process --models linformer", "linformer"),
        ("training OUT --part process --updates 2 --warm-up-updates 2", "warm_up_updates is 2"),
        ("training OUT --part process --k 200 --lengths 512", "k is 200"),
        ("training OUT --part process --models roberta --fairseq-options=--compile", "--compile"),
        ("training OUT --part shares --fairseq-options=--max-update=3", "--max-update"),
        ("training OUT --lengths none --part process", "--lengths"),
        ("training OUT --lengths none --finetuning none", "--lengths"),
        ("training OUT --lengths none --updates 9", "--updates"),
        ("training OUT --threads 0", "threads is 0"),
        ("finetuning OUT --data OUT", "--data"),
        ("finetuning OUT --data OUT --batch-size 0", "'0'"),
        ("report OUT", "no cells"),
    ],
)
def test_refusals(arguments, named, tmp_path, capsys):
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit) as end:
        main(
            [
                "benchmark",
                *arguments.replace("OUT", str(tmp_path / "out")).split(),
                "--results",
                str(tmp_path / "results"),
            ]
        )
    assert named in (end.value.code if isinstance(end.value.code, str) else capsys.readouterr().err)
    assert not (tmp_path / "out").exists() and not (tmp_path / "results").exists()


def parsed(*words):
    parser = argparse.ArgumentParser()
    benchmark.add_parser(parser.add_subparsers(dest="command"))
    return parser.parse_args(["benchmark", *words])


@pytest.mark.parametrize(
    "words",
    [
        "inference OUT --lengths 512,1024 --k 64 --memory-gib 3 --usable-gib 2.5 --warm-up 0 --width 128 --tokens 99",
        "inference OUT --rounds 7 --threads 2 --layers 3",
        "inference OUT --whole --device cuda --dtype bf16",
        "scaling OUT --part pertoken --usable-gib 1 --models linformer,fnet",
        "training OUT --part process --finetuning none --updates 9 --warm-up-updates 3 --models ours "
        "--fairseq-options='--compile --optimizer fused_adam'",
        "finetuning OUT --data DATA --max-positions 64 --batch-size 2 --updates 7",
    ],
)
def test_every_option_is_in_the_command_that_is_recorded(words):
    options = parsed(*shlex.split(words))
    folders = ["OUT", *(["--data", "DATA"] if options.kind == "finetuning" else [])]
    again = parsed(options.kind, *folders, *words_of(vars(options), but=benchmark.NOT_RECORDED))
    assert again == options
    assert {"lengths", "k", "fairseq_options", "whole"}.isdisjoint(benchmark.NOT_RECORDED)


def test_time_per_token_is_of_every_length_that_was_given():
    (cell,) = benchmark._scaling(parsed("scaling", "OUT", "--part", "pertoken", "--lengths", "64,16,32", "--k", "8"))
    assert cell.lengths == (16, 32, 64) and cell.tokens == 64
    (cell,) = benchmark._scaling(parsed("scaling", "OUT", "--part", "pertoken"))
    assert cell.lengths == (512, 16384)


@pytest.mark.slow
def test_the_bare_script_needs_pytorch_only(tmp_path):
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
    options = [
        "--device",
        "cpu",
        "--lengths",
        "256",
        "--layers",
        "1",
        "--width",
        "64",
        "--rounds",
        "1",
        "--tokens",
        "512",
        "--commit",
        "abc",
    ]
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *options],
        check=True,
        capture_output=True,
        text=True,
        cwd=GPU_SCRIPT.parents[1],
    )
    assert "3 of 3 cells" in ended.stdout
    step = cells.read(tmp_path / "training-cpu-fp32-l1-n256-bare.json")
    assert set(step["measured"]["seconds"]) == {"ours-modules", "transformer-eager", "transformer-sdpa"}
    row = cells.read(tmp_path / "inference-cpu-fp32-l1-n256.json")
    assert set(row["measured"]["seconds"]) == {"eager", "sdpa", "k=128"} and row["commit"] == "abc"


def test_the_bare_command_is_recorded_too(tmp_path, monkeypatch):
    recorded = []
    monkeypatch.setattr(
        bare, "measure", lambda cells, out, provenance, minutes: recorded.append(provenance.command) or []
    )
    bare.main(
        [
            str(tmp_path),
            "--device",
            "cpu",
            "--dtype",
            "fp32",
            "--dtype",
            "bf16",
            "--lengths",
            "256",
            "--rounds",
            "2",
            "--commit",
            "abc",
            "--minutes",
            "3",
        ]
    )
    assert recorded == [
        "python -m fairseq_linformer.benchmark OUT --device cpu --lengths 256 --layers 12 --width 768 "
        "--tokens 32768 --rounds 2 "
        "--dtype fp32 --dtype bf16"
    ]


def test_the_bare_script_refuses_what_the_command_refuses(tmp_path, capsys):
    for words, named in (
        (["--width", "100"], "width is 100"),
        (["--lengths", "many"], "'many'"),
        (["--lengths", "0"], "'0'"),
        (["--tokens", "0"], "'0'"),
        (["--lengths", "256", "--minutes", "nan"], "minutes is nan"),
    ):
        with pytest.raises(SystemExit) as end:
            bare.main([str(tmp_path / "out"), "--device", "cpu", "--commit", "abc", *words])
        assert named in (end.value.code if isinstance(end.value.code, str) else capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_the_gpu_script_called_wrongly_begins_nothing(tmp_path):
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\n")
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    ended = subprocess.run(["bash", GPU_SCRIPT, "--help"], env=environment, capture_output=True, text=True)
    assert ended.returncode == 2 and not (tmp_path / "begun").exists()
    assert "usage: " in ended.stderr and ended.stderr.count("\n") == 1


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
