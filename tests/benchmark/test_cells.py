"""Cells are measured once, in pieces; the command and the bare script write them, and the ledger is made of them."""

import json
import sys
from dataclasses import dataclass
from unittest import mock

import pytest
import torch

from fairseq_linformer.benchmark import __main__ as bare
from fairseq_linformer.benchmark import cells, process
from fairseq_linformer.benchmark.training import Training
from fairseq_linformer.cli import main
from fairseq_linformer.reproduce import ledger

WHO = cells.Provenance("abc", "command")


@dataclass(frozen=True)
class Counts:
    """A cell that counts how often it is measured."""

    n: int
    work: float = 0
    device: str = "cpu"
    dtype: str = "fp32"

    @property
    def name(self):
        return f"counts-n{self.n}"

    def operations(self):
        return self.work

    def measure(self):
        MEASURED.append(self.n)
        return {"n": self.n}


MEASURED = []


def test_a_cell_is_measured_once_and_what_would_take_too_long_is_left(tmp_path):
    MEASURED.clear()
    row = [Counts(1), Counts(2, work=1e30), Counts(3)]
    assert cells.measure(row, tmp_path, WHO, minutes=1) == ["counts-n2"] and MEASURED == [1, 3]
    assert cells.measure(row, tmp_path, WHO, minutes=1) == [] and MEASURED == [1, 3, 2]  # the first is always begun
    cell = cells.read(tmp_path / "counts-n3.json")
    assert cell["configuration"] == {"n": 3, "work": 0, "device": "cpu", "dtype": "fp32"} and cell["commit"] == "abc"
    with pytest.raises(ValueError, match=r"counts-n1.json was measured with work 0, and not 7; take another folder"):
        cells.measure([Counts(1, work=7)], tmp_path, WHO)
    (tmp_path / "counts-n4.json").write_text("{")
    with pytest.raises(ValueError, match="counts-n4.json is no cell of a benchmark"):
        cells.read_all(tmp_path, "counts")


TINY = ["--layers", "1", "--width", "64", "--rounds", "2"]


def test_the_command_writes_ledger_table_and_figure(tmp_path):
    out, results = str(tmp_path / "out"), tmp_path / "results"
    main(["benchmark", "inference", out, "--results", str(results), "--lengths", "32,64", "--k", "8,16", "--tokens", "64", *TINY])
    inference = ledger.read(results / "benchmark-inference-cpu-fp32-l1.json")
    assert {"n=64 k=16: sdpa / linformer", "n=32 k=8: eager / linformer", "n=64 k=8: eager / linformer, largest batch"} <= set(inference.measured)
    assert inference.measured["n=64 k=16: sdpa / linformer"].repetitions == 2 and inference.configuration["clock"] == "processor"
    assert (results / "benchmark-inference-cpu-fp32-l1.png").stat().st_size > 1000
    said = (results / "benchmark.md").read_text()
    assert "not measured (20)" in said and "On a GPU: not measured." in said and "| at least 1.12 | not measured |" in said


@pytest.mark.slow
def test_the_other_commands_and_the_report(tmp_path):
    out, results = str(tmp_path / "out"), tmp_path / "results"
    main(["benchmark", "scaling", out, "--results", str(results), "--lengths", "32,64", "--k", "8", "--models", "recurrent,linformer", *TINY])
    training = ["benchmark", "training", out, "--results", str(results), "--lengths", "32", "--k", "8", "--tokens", "64", *TINY]
    main([*training, "--finetuning", "8", "--part", "steps"])
    main([*training, "--finetuning", "none", "--part", "memory"])
    scaling = ledger.read(results / "benchmark-scaling-cpu-fp32-l1.json")
    assert {"linformer: exponent", "n=64: recurrent"} <= set(scaling.measured)
    assert set(ledger.read(results / "benchmark-pertoken-cpu-fp32-l1.json").measured) == {"n=64 / n=32"}
    trained = ledger.read(results / "benchmark-training-cpu-fp32-l1.json")
    assert {"pretraining n=32: authors / ours", "finetuning n=8: roberta / ours", "pretraining n=32: bytes of ours / authors",
            "pretraining n=32: utilisation by ours"} <= set(trained.measured)  # fmt: skip
    main(["benchmark", "inference", out, "--results", str(results), "--whole", "--lengths", "32", "--k", "8", *TINY])
    whole = ledger.read(results / "benchmark-whole-cpu-fp32-l1.json")
    assert {"n=32: roberta / ours", "n=32: authors / ours"} <= set(whole.measured) and " --whole" in whole.command
    before = {path: path.read_bytes() for path in results.glob("*.json")}
    main(["benchmark", "report", out, "--results", str(results)])
    assert before == {path: path.read_bytes() for path in results.glob("*.json")}


@pytest.mark.parametrize("arguments, sentence", [
    ("inference OUT --lengths 64 --k 128", "n is 64; a k below it is needed, and there are 128"),
    ("inference OUT --lengths many", "'many' is not numbers separated by commas"),
    ("inference OUT --lengths 64 --k 8 --rounds 0", "rounds is 0; it must be at least 1"),
    ("inference OUT --whole --k 8,16", "--k is 8,16; with --whole it must be one number"),
    ("inference OUT --width 100", "width is 100; it must be a multiple of 64"),
    ("inference OUT --lengths 64 --k 8 --device cuda", "device is cuda; PyTorch sees no GPU here"),
    ("scaling OUT --models transformer", "transformer is no model of the benchmark; they are recurrent,"),
    ("scaling OUT --lengths 48,64", "tokens is 64; it must be a multiple of n, which is 48"),
    ("training OUT --models gpt", "gpt is no model of the benchmark"),
    ("training OUT --part steps --fairseq-options=--compile", "it is for --part process"),
    ("training OUT --threads 0", "threads is 0; it must be at least 1"),
    ("report OUT", "has no cells of a benchmark"),
])  # fmt: skip
def test_refusals(arguments, sentence, tmp_path, capsys):
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit) as end:
        main(["benchmark", *arguments.replace("OUT", str(tmp_path / "out")).split(), "--results", str(tmp_path / "results")])
    assert sentence in (end.value.code if isinstance(end.value.code, str) else capsys.readouterr().err)
    assert not (tmp_path / "out").exists() and not (tmp_path / "results").exists()


@pytest.mark.slow
def test_the_bare_script_needs_pytorch_only(tmp_path, capsys):
    """fairseq, transformers, matplotlib and all else of others cannot be imported, and it still measures."""
    others = {name: None for name in ("fairseq", "transformers", "matplotlib", "hydra", "omegaconf", "linformer", "linformer_pytorch")}
    with mock.patch.dict(sys.modules, others):
        bare.main([str(tmp_path), "--device", "cpu", "--lengths", "256", "--layers", "1", "--width", "64", "--rounds", "1", "--tokens", "512",
                   "--commit", "abc"])  # fmt: skip
    assert "3 of 3 cells" in capsys.readouterr().out
    step = cells.read(tmp_path / "training-cpu-fp32-l1-n256-bare.json")
    assert set(step["measured"]["seconds"]) == {"ours-modules", "transformer-eager", "transformer-sdpa"}
    row = cells.read(tmp_path / "inference-cpu-fp32-l1-n256.json")
    assert set(row["measured"]["seconds"]) == {"eager", "sdpa", "k=128"} and row["commit"] == "abc"


def test_cells_of_two_machines_are_not_one_entry(tmp_path):
    from fairseq_linformer.reproduce.benchmarks import entries

    for n in (16, 32):
        cells.measure([Training(n, 1, ("ours-modules",), positions=n, k=4, layers=1, embed_dim=64, heads=1, vocabulary=20, rounds=1)], tmp_path, WHO)
    path = tmp_path / "training-cpu-fp32-l1-n32-bare.json"
    path.write_text(json.dumps({**cells.read(path), "threads": 96}))
    with pytest.raises(ValueError, match="differ in machine, versions or threads"):
        list(entries(tmp_path))


def test_words_a_second_of_a_log():
    lines = ['2026 | INFO | train_inner | {"epoch": 1, "wps": "%s"}' % w for w in (10, 300, 500, 400)]
    assert process.words_a_second("\n".join(lines)) == 400
    with pytest.raises(ValueError, match="the log has 1 updates"):
        process.words_a_second(lines[0])


@pytest.mark.slow
def test_whole_processes(tmp_path):
    """fairseq-train of theirs and of ours; the memory is that of the process, and a failure is told."""
    found = process.Process(32, 2, ("authors", "ours"), k=8, updates=2, layers=1, embed_dim=64, heads=4, vocabulary=100).measure()
    assert all(len(found["words"][name]) == 1 and 1e8 < found["bytes"][name][0] < 4e9 for name in ("authors", "ours"))
    allocate = "import time; x = bytearray(200_000_000); x[::4096] = b'1' * len(x[::4096]); time.sleep(1)"
    assert process.run([sys.executable, "-c", allocate])[1] == pytest.approx(2.1e8, rel=0.1)
    with pytest.raises(ValueError, match="ended with 1: .*ZeroDivisionError"):
        process.run([sys.executable, "-c", "1 / 0"])
