"""The commands write cells, ledger, tables and figures, record themselves, and refuse; scripts/benchmark.sh runs to its
end."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from fairseq_linformer.benchmark import __main__ as bare
from fairseq_linformer.benchmark import cells, train_process
from fairseq_linformer.benchmark.arguments import words_of
from fairseq_linformer.benchmark.fairseq_train import PARTS
from fairseq_linformer.benchmark.models import OF_INDEX, why_not
from fairseq_linformer.cli import benchmark, main
from fairseq_linformer.machine import current_commit
from fairseq_linformer.reproduce import ledger
from fairseq_linformer.reproduce.benchmarks import entries

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark.sh"
TINY = ["--layers", "1", "--width", "64", "--rounds", "2"]


def test_the_command_writes_ledger_table_and_figure(tmp_path):
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
    inference = ledger.read(results / "benchmark-inference-cpu-fp32-l1-d64.json")
    assert {
        "n=64 k=16: sdpa / linformer",
        "n=32 k=8: eager / linformer",
        "n=64 k=8: eager / linformer, largest batch",
    } <= set(inference.measured)
    assert (
        inference.measured["n=64 k=16: sdpa / linformer"].repetitions == 2
        and inference.configuration["clock"] == "processor"
    )
    assert (results / "benchmark-inference-cpu-fp32-l1-d64.png").stat().st_size > 1000
    said = (results / "benchmark.md").read_text()
    assert "| 64 | " in said and "| 65,536 |" not in said  # lengths of the paper that nothing was measured at
    assert "| at least 1.12 | not measured |" in said and "| the paper's or more | not measured |" in said
    assert "| n | k = 8 (paper) |" in said and re.search(
        r"\n\| 32 \| [^-]", said
    )  # lengths and k that are none of the paper's
    assert "\n1 layer, 1 thread, width 64; processor clock.\n" in said


@pytest.mark.slow
def test_the_other_commands_and_the_report(tmp_path):
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
    assert "- scaling-cpu-fp32-l1-n32: bigbird: ValueError: n is 32" in (results / "benchmark.md").read_text()
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
    scaling = ledger.read(results / "benchmark-scaling-cpu-fp32-l1-d64-k8.json")
    assert {"linformer: exponent", "n=64: recurrent"} <= set(scaling.measured)
    assert set(ledger.read(results / "benchmark-pertoken-cpu-fp32-l1-d64-k8.json").measured) == {"n=64 / n=32"}
    trained = ledger.read(results / "benchmark-training-cpu-fp32-l1-d64-k8.json")
    assert {
        "pretraining n=32: authors / ours",
        "finetuning n=8: roberta / ours",
        "pretraining n=32: bytes of ours / authors",
        "pretraining n=32: utilisation by ours",
    } <= set(trained.measured)
    main(["benchmark", "inference", out, "--results", str(results), "--whole", "--lengths", "32", "--k", "8", *TINY])
    whole = ledger.read(results / "benchmark-whole-cpu-fp32-l1-d64-k8.json")
    assert {"n=32: roberta / ours", "n=32: authors / ours"} <= set(whole.measured) and " --whole" in whole.command
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
    (entry,) = entries(tmp_path / "out")
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
        cwd=SCRIPT.parents[1],
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


@pytest.mark.parametrize(
    "script, words",
    [("benchmark.sh", ["OUT", "steps", "stepz"]), ("benchmark.sh", ["--help"]), ("gpu_benchmark.sh", ["--help"])],
)
def test_a_script_that_is_called_wrongly_begins_nothing(script, words, tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\n")
    python.chmod(0o755)
    shutil.copy(python, python.with_name("python3"))
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": "yes"}
    ended = subprocess.run(["bash", SCRIPT.with_name(script), *words], env=environment, capture_output=True, text=True)
    assert ended.returncode == 2 and not (tmp_path / "begun").exists()
    assert ("stepz" if "stepz" in words else "usage: ") in ended.stderr and ended.stderr.count("\n") == 1


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
    """Piece: the arguments that the script gives to ``fairseq-linformer``, taken down by a python that does nothing
    else."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {tmp_path}/said\n')
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": "yes", "SST2": "DATA"}
    told = subprocess.run(["bash", SCRIPT, "OUT"], env=environment, check=True, capture_output=True, text=True).stdout
    lines = [
        line.split("fairseq_linformer.cli ")[1].split()
        for line in (tmp_path / "said").read_text().splitlines()
        if "fairseq_linformer.cli" in line
    ]
    return dict(zip(re.findall("^== (.*)$", told, re.M), lines, strict=True))


def tiny(words, tmp_path, data):
    """The same options at a size that takes seconds: a 32nd of n and k, 3 layers where there are 12, one sentence or
    two."""
    kind, given = words[1], dict(zip(words, words[1:]))

    def divided(text):
        return text if text == "none" else ",".join(str(max(1, int(n) // 32)) for n in text.split(","))

    sizes = {"--width": "64", "--layers": given.get("--layers", "2" if kind == "scaling" else "3").replace("12", "3")}
    if kind == "finetuning":
        sizes |= {"--max-positions": "16", "--k": "4"}
    else:
        sizes |= {
            "--tokens": str(max(int(n) for n in divided(given["--lengths"]).split(","))) if kind == "scaling" else "32"
        }
        sizes |= {"--lengths": divided(given.get("--lengths", "512,1024"))}
        sizes |= {
            "--k": divided(given.get("--k", "256" if kind != "inference" or "--whole" in words else "128,256,512,1024"))
        }
    if kind == "training" and given["--part"] in ("steps", "memory"):
        sizes |= {"--finetuning": divided(given.get("--finetuning", "256,512"))}
    places = {"OUT": str(tmp_path / "out"), "results": str(tmp_path / "results"), "DATA": str(data)}
    return [
        places.get(word, word) for word in [*words, *(part for option in sizes.items() for part in option)]
    ]  # the last one wins


@pytest.mark.slow
def test_the_script_runs_to_its_end_in_one_folder(tmp_path, pieces, monkeypatch):
    """Every piece at a tiny size, one after the other; whole processes are not started here, they have tests of their
    own."""
    data = tmp_path / "data"
    shutil.copytree(pieces, data)
    (data / "manifest.json").write_text('{"task": "sst-2"}')
    log = "\n".join('| train_inner | {"epoch": 1, "wps": "%d", "wpb": "100"}' % wps for wps in (1, 50, 60, 70, 80))
    monkeypatch.setattr(train_process, "run", lambda command: (log, 2**20))
    monkeypatch.setattr(
        "fairseq_linformer.benchmark.train_process.Shares._updates",
        lambda *_: [{**dict.fromkeys(PARTS, 0.1), "whole": 1.0}] * 6,
    )
    threads = [1]  # those of the script are recorded, and one computes: two would only wait for each other
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    peers = all(why_not(name) is None for name in OF_INDEX)  # the script installs them, the tests do not
    for piece, words in pieces_of_the_script(tmp_path).items():
        if peers or not piece.startswith("peers"):
            main(tiny(words, tmp_path, data))
    results = tmp_path / "results"
    written = {path.stem.removeprefix("benchmark-"): ledger.read(path) for path in results.glob("*.json")}
    sized = {
        "training": "l3-d64-k8",
        "inference": "l2-d64",
        "whole": "l3-d64-k8",
        "pertoken": "l3-d64-k8",
        "scaling": "l2-d64-k8",
        "process": "l3-d64-k8",
        "shares": "l3-d64-k8",
        "finetuning": "l3-d64-k4",
    }
    expected = {f"{kind}-cpu-fp32-{sizes}" for kind, sizes in sized.items()} | {"inference-cpu-fp32-l1-d64"}
    assert set(written) == expected | ({"training-cpu-fp32-l3-d64-k8-peers"} if peers else set())
    assert {entry.configuration["threads"] for name, entry in written.items() if "-l3-" in name} == {2}
    before = {path: path.read_bytes() for path in results.glob("*.json")}
    main(["benchmark", "report", str(tmp_path / "out"), "--results", str(results)])
    assert before == {path: path.read_bytes() for path in results.glob("*.json")}
