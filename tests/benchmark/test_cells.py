"""Cells are measured once, in pieces; the command and the bare script write them, and the ledger is made of them."""

import json
import os
import re
import sys
from dataclasses import dataclass
from typing import ClassVar
from unittest import mock

import pytest
import torch

from fairseq_linformer.benchmark import __main__ as bare
from fairseq_linformer.benchmark import cells, process
from fairseq_linformer.benchmark.training import Training
from fairseq_linformer.cli import main
from fairseq_linformer.reproduce import ledger

WHO = cells.Provenance("abc", "command")


def test_what_a_cell_took_beside_its_operations_is_foreseen_of_the_next(tmp_path, monkeypatch):
    """Making and counting models is most of the time on a GPU, and no operations tell it."""
    now = [0.0]
    monkeypatch.setattr(cells.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Counts, "measure", lambda self: now.__setitem__(0, now[0] + 25) or {"n": self.n})
    assert cells.measure([Counts(1), Counts(2), Counts(3)], tmp_path, WHO, minutes=1) == ["counts-n3"] and now == [50]


def test_a_cell_without_room_is_told_and_the_next_is_measured(tmp_path, monkeypatch, capsys):
    def measured(self):
        if self.n == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return {"n": self.n}

    monkeypatch.setattr(Counts, "measure", measured)
    assert cells.measure([Counts(1), Counts(2)], tmp_path, WHO) == [] and [path.name for path in tmp_path.iterdir()] == ["counts-n2.json"]
    assert "counts-n1: not measured, out of memory\n" in capsys.readouterr().out


def test_rounds_mean_nothing_to_bytes(tmp_path):
    shape = dict(n=32, batch=1, positions=32, k=8, layers=1, embed_dim=64, heads=4, vocabulary=100, models=("ours-modules",), memory=True)
    cells.measure([Training(rounds=2, **shape)], tmp_path, WHO)
    assert cells.measure([Training(rounds=3, **shape)], tmp_path, WHO) == []
    with pytest.raises(ValueError, match="was measured with batch 1, and not 2"):
        cells.measure([Training(**{**shape, "batch": 2})], tmp_path, WHO)


@dataclass(frozen=True)
class Counts:
    """A cell that counts how often it is measured."""

    n: int
    work: float = 0
    layers: int = 1
    device: str = "cpu"
    dtype: str = "fp32"
    clock: ClassVar[str] = "sun"

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
    row = [Counts(1), Counts(2, work=1e30, layers=2), Counts(3)]
    assert cells.measure(row, tmp_path, WHO, minutes=1) == ["counts-n2"] and MEASURED == [1, 3]
    assert cells.measure(row, tmp_path, WHO, minutes=1) == [] and MEASURED == [1, 3, 2]  # the first is always begun
    cell = cells.read(tmp_path / "counts-n3.json")
    assert cell["configuration"] == {"n": 3, "work": 0, "layers": 1, "device": "cpu", "dtype": "fp32"} and cell["commit"] == "abc" and cell["clock"] == "sun"
    with pytest.raises(ValueError, match=r"counts-n1.json was measured with work 0, and not 7; take another folder"):
        cells.measure([Counts(1, work=7)], tmp_path, WHO)
    (tmp_path / "counts-n4.json").write_text("{")
    with pytest.raises(ValueError, match="counts-n4.json is no cell of a benchmark"):
        cells.read_all(tmp_path, "counts")


@pytest.mark.parametrize("cell, sentence", [
    (Counts(3, work=7), "counts-n3 and counts-n1 differ in work; one folder is for one machine and one set of options"),
    (Counts(1, work=7), "counts-n1.json was measured with work 0, and not 7; take another folder"),
])  # fmt: skip
def test_what_no_report_would_take_is_refused_before_anything_is_measured(cell, sentence, tmp_path):
    cells.measure([Counts(1)], tmp_path, WHO)
    MEASURED.clear()
    with pytest.raises(ValueError, match=sentence):
        cells.measure([Counts(9, layers=2), cell], tmp_path, WHO)
    assert MEASURED == [] and len(list(tmp_path.iterdir())) == 1


def test_other_threads_and_a_folder_that_is_none_are_refused_before_anything_is_measured(tmp_path):
    cells.measure([Counts(1)], tmp_path, WHO)
    MEASURED.clear()
    with mock.patch.object(torch, "get_num_threads", lambda: 96):
        with pytest.raises(ValueError, match="counts-n1.json was measured with threads [0-9]+, and not 96"):
            cells.measure([Counts(1)], tmp_path, WHO)
        with pytest.raises(ValueError, match="counts-n2 and counts-n1 differ in machine, versions or threads"):
            cells.measure([Counts(2)], tmp_path, WHO)
    with pytest.raises(ValueError, match="counts-n1.json is not a folder"):
        cells.measure([Counts(2)], tmp_path / "counts-n1.json", WHO)
    assert MEASURED == []


def test_a_damaged_cell_is_named(tmp_path):
    from fairseq_linformer.reproduce.benchmarks import entries

    cells.measure([Counts(1)], tmp_path, WHO)
    whole = cells.read(tmp_path / "counts-n1.json")
    (tmp_path / "counts-n2.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="counts-n2.json is no cell of a benchmark: it calls itself counts-n1"):
        cells.read_all(tmp_path, "counts")
    (tmp_path / "counts-n2.json").write_text(json.dumps({**{key: value for key, value in whole.items() if key != "threads"}, "name": "counts-n2"}))
    with pytest.raises(ValueError, match="counts-n2.json is no cell of a benchmark: it has no threads"):
        cells.read_all(tmp_path, "counts")
    (tmp_path / "whole-n1.json").write_text(json.dumps({**whole, "name": "whole-n1", "measured": {"seconds": {"ours": [1.0, 2.0], "roberta": [1.0]}}}))
    with pytest.raises(ValueError, match="whole-n1.json is a damaged cell: ValueError: 1 rounds against 2"):
        list(entries(tmp_path))


TINY = ["--layers", "1", "--width", "64", "--rounds", "2"]


def test_the_command_writes_ledger_table_and_figure(tmp_path):
    out, results = str(tmp_path / "out"), tmp_path / "results"
    main(["benchmark", "inference", out, "--results", str(results), "--lengths", "32,64", "--k", "8,16", "--tokens", "64", *TINY])
    inference = ledger.read(results / "benchmark-inference-cpu-fp32-l1-d64.json")
    assert {"n=64 k=16: sdpa / linformer", "n=32 k=8: eager / linformer", "n=64 k=8: eager / linformer, largest batch"} <= set(inference.measured)
    assert inference.measured["n=64 k=16: sdpa / linformer"].repetitions == 2 and inference.configuration["clock"] == "processor"
    assert (results / "benchmark-inference-cpu-fp32-l1-d64.png").stat().st_size > 1000
    said = (results / "benchmark.md").read_text()
    assert "| 64 | " in said and "| 65,536 |" not in said  # lengths of the paper that nothing was measured at
    assert "| at least 1.12 | not measured |" in said and "| the paper's or more | not measured |" in said
    assert "| n | k = 8 (paper) |" in said and re.search(r"\n\| 32 \| [^-]", said)  # lengths and k that are none of the paper's
    assert "\n1 layer, 1 thread, width 64; processor clock.\n" in said


@pytest.mark.slow
def test_the_other_commands_and_the_report(tmp_path):
    out, results = str(tmp_path / "out"), tmp_path / "results"
    main(["benchmark", "scaling", out, "--results", str(results), "--lengths", "32,64", "--k", "8", "--models", "recurrent,bigbird,linformer", *TINY])
    assert "- scaling-cpu-fp32-l1-n32: bigbird: ValueError: n is 32; up to 704 positions" in (results / "benchmark.md").read_text()
    training = ["benchmark", "training", out, "--results", str(results), "--lengths", "32", "--k", "8", "--tokens", "64", *TINY]
    main([*training, "--finetuning", "8", "--part", "steps"])
    main([*training, "--finetuning", "none", "--part", "memory"])
    scaling = ledger.read(results / "benchmark-scaling-cpu-fp32-l1-d64-k8.json")
    assert {"linformer: exponent", "n=64: recurrent"} <= set(scaling.measured)
    assert set(ledger.read(results / "benchmark-pertoken-cpu-fp32-l1-d64-k8.json").measured) == {"n=64 / n=32"}
    trained = ledger.read(results / "benchmark-training-cpu-fp32-l1-d64-k8.json")
    assert {"pretraining n=32: authors / ours", "finetuning n=8: roberta / ours", "pretraining n=32: bytes of ours / authors",
            "pretraining n=32: utilisation by ours"} <= set(trained.measured)  # fmt: skip
    main(["benchmark", "inference", out, "--results", str(results), "--whole", "--lengths", "32", "--k", "8", *TINY])
    whole = ledger.read(results / "benchmark-whole-cpu-fp32-l1-d64-k8.json")
    assert {"n=32: roberta / ours", "n=32: authors / ours"} <= set(whole.measured) and " --whole" in whole.command
    steps, memory = trained.command.split("; ")
    assert " --finetuning 8 --part steps" in steps and " --finetuning none --part memory" in memory and "--width 64" in steps
    before = {path: path.read_bytes() for path in results.glob("*.json")}
    main(["benchmark", "report", out, "--results", str(results)])
    assert before == {path: path.read_bytes() for path in results.glob("*.json")}


@pytest.mark.parametrize("arguments, sentence", [
    ("inference OUT --lengths 64 --k 128", "k is 128; an n above it is needed, and there are 64"),
    ("inference OUT --lengths 64,256 --k 128", "n is 64; a k below it is needed, and there are 128"),
    ("inference OUT --lengths 64,256 --k 8,512", "k is 512; an n above it is needed, and there are 64, 256"),
    ("inference OUT --lengths many", "'many' is not numbers separated by commas"),
    ("inference OUT --lengths 64 --k 8 --rounds 0", "rounds is 0; it must be at least 1"),
    ("inference OUT --whole --k 8,16", "--k is 8,16; with --whole it must be one number"),
    ("inference OUT --width 100", "width is 100; it must be a multiple of 64"),
    ("inference OUT --lengths 64 --k 8 --device cuda", "device is cuda; PyTorch sees no GPU here"),
    ("scaling OUT --models transformer", "transformer is no model of the benchmark; they are recurrent,"),
    ("scaling OUT --lengths 48,64", "tokens is 64; it must be a multiple of n, which is 48"),
    ("training OUT --models gpt", "gpt is no model of the benchmark"),
    ("training OUT --part steps --fairseq-options=--compile", "--fairseq-options is for --part process or shares"),
    ("training OUT --part memory --warm-up 0", "--warm-up is for --part steps"),
    ("training OUT --part process --finetuning none", "--finetuning is for --part steps or memory"),
    ("training OUT --part process --models linformer", "linformer is not trained by fairseq; ours, roberta, authors are"),
    ("training OUT --part process --updates 2 --warm-up-updates 2", "warm_up_updates is 2; it must be at least 1 and less than updates, which is 2"),
    ("training OUT --part process --k 200 --lengths 512", "k is 200; the authors' code wants one that divides n, 512"),
    ("scaling OUT --lengths none", "'none' is not numbers separated by commas"),
    ("training OUT --lengths none --part process", "--lengths is none; without a length there are steps of finetuning only"),
    ("training OUT --lengths none --finetuning none", "--lengths is none; without a length there are steps of finetuning only"),
    ("training OUT --lengths none --updates 9", "--updates is for processes of fairseq-train, which want a length; --lengths is none"),
    ("inference OUT --k none", "'none' is not numbers separated by commas"),
    ("inference OUT --k 0", "'0' has a number below 1"),
    ("inference OUT --whole --usable-gib 4", "--usable-gib is not for --whole, which measures times only"),
    ("inference OUT --whole --memory-gib 4", "--memory-gib is not for --whole, which measures times only"),
    ("scaling OUT --part pertoken --lengths 512", "lengths is 512; at least two are needed"),
    ("scaling OUT --part pertoken --models linformer", "--models is not for --part pertoken"),
    ("inference OUT --tokens 0", "'0' has a number below 1"),
    ("finetuning OUT --data OUT", "a folder with classes is wanted, as `fairseq-linformer prepare sst-2` writes it"),
    ("training OUT --threads 0", "threads is 0; it must be at least 1"),
    ("report OUT", "has no cells of a benchmark"),
    ("inference OUT --lengths 64 --k 8 --usable-gib nan", "usable_gib is nan; it must be a number above 0"),
    ("inference OUT --lengths 64 --k 8 --memory-gib inf", "memory_gib is inf; it must be a number above 0"),
    ("scaling OUT --usable-gib -1", "usable_gib is -1.0; it must be a number above 0"),
    ("inference OUT --lengths 64 --k 8 --warm-up -1", "warm_up is -1; it must be at least 0"),
    ("inference OUT --lengths 64 --k 8 --minutes nan", "minutes is nan; it must be at least 0"),
    ("inference OUT --lengths 64,64", "'64,64' has 64 twice"),
    ("training OUT --models ours,ours --part process", "'ours,ours' has ours twice"),
    ("training OUT --models ours,", "'ours,' is not names separated by commas"),
    ("inference OUT --whole --lengths 512 --k 200", "k is 200; the authors' code wants one that divides n, 512"),
    ("training OUT --part steps --lengths 96 --k 24", "k is 24; the authors' code wants one that divides n, 512"),
    ("training OUT --models ours-modules --updates 9", "--updates is for processes of fairseq-train, which trains none of ours-modules"),
    ("training OUT --part process --models roberta --fairseq-options=--compile", "they are for this plugin's model, and ours is not among roberta"),
    ("training OUT --part shares --fairseq-options=--max-update=3", "fairseq options have --max-update, which the benchmark says itself"),
    ("finetuning OUT --data OUT --batch-size 0", "'0' has a number below 1"),
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
    """The first does not count; 600 words in 2 seconds, then 100 in 2."""
    lines = ['2026 | INFO | train_inner | {"epoch": 1, "wps": "%s", "wpb": "%s"}' % w for w in ((10, 10), (300, 600), (50, 100))]
    assert process.words_a_second("\n".join(lines)) == 175
    assert process.words_a_second("\n".join(lines), warm_up=2) == 50
    with pytest.raises(ValueError, match="the log has 1 updates"):
        process.words_a_second(lines[0])


def test_options_of_a_process_are_our_models_and_win():
    """The last of two options is the one that fairseq takes; and they are in the name."""
    cell = process.Process(32, 2, k=8, layers=1, options=("--optimizer", "fused_adam"))
    assert cell.arguments("ours", "data")[-2:] == ["--optimizer", "fused_adam"] and "fused_adam" not in cell.arguments("roberta", "data")
    assert cell.name == "process-cpu-fp32-l1-n32-optimizer-fused-adam" and cell.clock == "wall"


@pytest.mark.slow
def test_a_process_is_trained_by_the_optimizer_that_was_asked_for(tmp_path, monkeypatch):
    from fairseq_linformer.reproduce.benchmarks import entries

    said = []
    monkeypatch.setattr(process, "run", lambda command, run=process.run: said.append(run(command)) or said[-1])
    shape = ["--lengths", "32", "--k", "8", "--tokens", "64", *TINY, "--rounds", "1"]
    main(["benchmark", "training", str(tmp_path / "out"), "--results", str(tmp_path / "results"), "--part", "process", "--models", "ours", "--updates", "3",
          "--warm-up-updates", "2", "--fairseq-options=--optimizer fused_adam", *shape])  # fmt: skip
    assert len(said) == 1 and "'_name': 'fused_adam'" in said[0][0] and "'_name': 'adam'" not in said[0][0]
    (entry,) = entries(tmp_path / "out")
    assert entry.identifier == "benchmark-process-cpu-fp32-l1-d64-k8-optimizer-fused-adam" and entry.configuration["clock"] == "wall"
    assert "--warm-up-updates 2" in entry.command and "'--fairseq-options=--optimizer fused_adam'" in entry.command


@pytest.mark.slow
def test_whole_processes(tmp_path):
    """fairseq-train of theirs and of ours; the memory is that of the process, and a failure is told."""
    found = process.Process(32, 2, ("authors", "ours"), 8, 2, layers=1, embed_dim=64, heads=4, vocabulary=100).measure()
    assert all(len(found["words"][name]) == 1 and 1e8 < found["bytes"][name][0] < 4e9 for name in ("authors", "ours"))
    allocate = "import time; x = bytearray(200_000_000); x[::4096] = b'1' * len(x[::4096]); time.sleep(1)"
    assert process.run([sys.executable, "-c", allocate])[1] == pytest.approx(2.1e8, rel=0.1)
    with pytest.raises(ValueError, match="ended with 1: .*ZeroDivisionError"):
        process.run([sys.executable, "-c", "1 / 0"])


@pytest.mark.slow
def test_half_precision_is_trained_in_by_a_process_and_by_one_with_a_stopwatch(monkeypatch):
    """fairseq's own command takes --bf16 for a TPU."""
    from fairseq_linformer.benchmark import shares

    said, run = [], process.run
    for module in (process, shares):
        monkeypatch.setattr(module, "run", lambda command: said.append(run(command)) or said[-1])
    for kind in (process.Process, shares.Shares):
        kind(32, 2, ("ours",), 8, 2, layers=1, embed_dim=64, heads=4, vocabulary=100, dtype="bf16").measure()
    assert len(said) == 2 and all("'bf16': True" in log and "'tpu': False" in log for log, _ in said)


@pytest.mark.parametrize("word", ["--memory-efficient-fp16", "--amp", "--update-freq", "--max-tokens=4", "--distributed-world-size"])
def test_what_would_make_a_process_another_is_no_option_of_it(word):
    with pytest.raises(ValueError, match=f"fairseq options have {word.split('=')[0]}, which the benchmark says itself"):
        process.Process(32, 2, k=8, options=(word,))


def test_fairseq_trains_in_fp16_on_a_gpu_only_and_on_one():
    with pytest.raises(ValueError, match="dtype is fp16; fairseq trains in it on a GPU only"):
        process.Process(32, 2, k=8, dtype="fp16")
    words = process.Process(32, 2, k=8, dtype="fp16", device="cuda").arguments("ours", "data")
    assert words[words.index("--distributed-world-size") + 1] == "1" and "--fp16" in words and "--cpu" not in words


def test_a_process_that_the_gpu_has_no_room_for_is_told_and_the_others_are_measured(monkeypatch):
    log = 3 * '2026 | INFO | train_inner | {"epoch": 1, "wps": "50", "wpb": "100"}\n'

    def trained(command, run=process.run):
        if "linformer_roberta_base" in command:
            return log, 10**8
        return run([sys.executable, "-c", "print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate'); exit(1)"])

    monkeypatch.setattr(process, "run", trained)
    found = process.Process(32, 2, ("ours", "roberta"), 8, rounds=2, vocabulary=100).measure()
    assert found["failed"] == {"roberta": "out of memory"} and found["words"] == {"ours": [50.0, 50.0]} and list(found["bytes"]) == ["ours"]


@pytest.mark.slow
def test_whole_processes_on_a_task(pieces, tmp_path):
    """Real sentences: the ledger says which, and not where they lie on this machine."""
    from fairseq_linformer.benchmark.process import Finetuning
    from fairseq_linformer.reproduce.benchmarks import entries

    cell = Finetuning(16, 2, ("ours",), 4, 2, rounds=1, layers=1, embed_dim=64, heads=4, vocabulary=100, data="cats and dogs", folder=str(pieces))
    cells.measure([cell], tmp_path / "out", WHO)
    (entry,) = entries(tmp_path / "out")
    assert entry.data == "cats and dogs" and entry.measured["n=16: ours"].value > 0 and str(pieces) not in json.dumps(entry.configuration)


def test_a_process_ends_with_who_started_it(tmp_path, monkeypatch):
    """A signal in the middle must not leave one behind that trains on."""
    started = []

    def ended(pid):
        started.append(pid)
        raise SystemExit(143)

    monkeypatch.setattr(process, "_high_water_mark", ended)
    with pytest.raises(SystemExit):
        process.run([sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
