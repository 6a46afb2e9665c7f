"""``fairseq-linformer benchmark report``: records of measurements, possibly from another machine."""

import json

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import ledger

IDENTIFIER = "benchmark-inference-cpu-fp32-l2"


def inference(n=512, **changes):
    """A cell of Table 3: three rounds of a Transformer and of the Linformer of k = 128."""
    configuration = {
        "n": n,
        "dimensions": [128],
        "tokens": 4096,
        "device": "cpu",
        "dtype": "fp32",
        "layers": 2,
        "embed_dim": 768,
        "heads": 12,
        "rounds": 3,
    }
    measured = {
        "seconds": {"eager": [3.0, 2.0, 4.0], "sdpa": [1.0, 1.0, 1.5], "k=128": [1.0, 2.0, 1.0]},
        "largest": {"eager": 8, "k=128": 20},
        "bytes": {"eager": [0, 300], "k=128": [100, 200]},
        "failed": {},
    }
    cell = {
        "name": f"inference-n{n}",
        "configuration": configuration,
        "measured": measured,
        "command": f"fairseq-linformer benchmark inference OUT --lengths {n}",
        "commit": "abc",
        "date": "2026-01-02",
        "seconds": 2.04,
        "threads": 1,
        "clock": "cpu",
        "hardware": {"processor": "abacus", "cores": 2},
        "versions": {"torch": "2"},
    }
    return cell | changes


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path


def write(folder, *cells):
    for cell in cells:
        (folder / "out" / f"{cell['name']}.json").write_text(json.dumps(cell))


def report(folder, capsys):
    """Run the command, and return the lines that it prints."""
    main(["benchmark", "report", str(folder / "out"), "--results", str(folder / "results")])
    return capsys.readouterr().out.splitlines()


def test_record_of_all_cells(folder, capsys):
    write(folder, inference(), inference(1024, commit="def", date="2026-01-03", seconds=1.0))
    path = folder / "results" / f"{IDENTIFIER}.json"
    assert report(folder, capsys) == [str(path)] and [*(folder / "results").iterdir()] == [path]
    found = ledger.read(path)
    assert (found.experiment, found.made_by, found.scale, found.data) == (
        "table-3",
        "benchmark",
        "cpu",
        "random tokens",
    )
    assert (found.commit, found.date, found.seconds, found.tolerance) == ("abc; def", "2026-01-03", 3.0, None)
    assert found.command.split("; ") == [inference(n)["command"] for n in (512, 1024)]
    assert (found.hardware, found.versions) == ({"processor": "abacus", "cores": 2}, {"torch": "2"})
    assert (
        found.configuration["threads"] == 1
        and found.configuration["embed_dim"] == 768
        and found.configuration["failed"] == {}
    )
    assert [cell["n"] for cell in found.configuration["cells"].values()] == [
        512,
        1024,
    ] and "n" not in found.configuration
    assert [m.n for m in found.select("seconds", model="eager")] == [512, 1024]


def test_ratios_compare_the_same_rounds(folder, capsys):
    """A ratio is taken in each round; median, minimum and maximum over rounds are reported."""
    write(folder, inference())
    report(folder, capsys)
    found = ledger.read(folder / "results" / f"{IDENTIFIER}.json")

    def number(metric, **at):
        (m,) = found.select(metric, **at)
        return m.value, m.interval, m.repetitions

    at = {"n": 512, "k": 128, "model": "linformer"}
    assert number("time_ratio", baseline="eager", **at) == (3.0, (1.0, 4.0), 3)
    assert number("time_ratio", baseline="sdpa", **at) == (1.0, (0.5, 1.5), 3)
    assert number("seconds", model="eager") == (3.0, (2.0, 4.0), 3) and number("seconds", **at) == (1.0, (1.0, 2.0), 3)
    assert number("batch_ratio", baseline="eager", **at) == (2.5, None, 1)
    assert number("bytes_ratio", baseline="eager", **at) == (3.0, None, 1)
    assert len(found.measurements) == 7


def test_report_can_be_repeated_and_adds_newer_cells(folder, capsys):
    write(folder, inference())
    report(folder, capsys)
    path = folder / "results" / f"{IDENTIFIER}.json"
    before = path.read_bytes()
    report(folder, capsys)
    assert path.read_bytes() == before
    write(folder, inference(1024))
    report(folder, capsys)
    assert len(ledger.read(path).measurements) == 14


def test_failed_measurements_are_printed(folder, capsys):
    cell = inference()
    cell["measured"]["failed"] = {"k=64": "out of memory"}
    write(folder, cell)
    path, line = report(folder, capsys)
    assert all(word in line for word in ("inference-n512", "k=64", "out of memory"))
    assert ledger.read(path).configuration["failed"] == {"inference-n512": {"k=64": "out of memory"}}


def test_one_record_per_layers_precision_device_and_width(folder, capsys):
    base = inference()["configuration"]
    others = ({"layers": 1}, {"dtype": "bf16"}, {"device": "cuda"}, {"embed_dim": 64})
    write(
        folder, *(inference(name=f"inference-{i}", configuration={**base, **other}) for i, other in enumerate(others))
    )
    names = {
        "benchmark-inference-cpu-fp32-l1",
        "benchmark-inference-cpu-bf16-l2",
        "benchmark-inference-cuda-fp32-l2",
        "benchmark-inference-cpu-fp32-l2-d64",
    }
    report(folder, capsys)
    assert {path.stem for path in (folder / "results").iterdir()} == names
    assert ledger.read(folder / "results/benchmark-inference-cuda-fp32-l2.json").scale == "gpu"


NOTHING = {"seconds": {}, "largest": {}, "bytes": {}, "failed": {"eager": "out of memory"}}


@pytest.mark.parametrize(
    "cells, match",
    [
        ([], "out"),
        ([inference(measured=NOTHING)], "out.*inference-n512.*eager.*out of memory"),
        ([inference(name="other-n512")], "out"),
        ([inference(), inference(1024, threads=2)], "threads"),
        ([inference(), inference(1024, configuration={**inference(1024)["configuration"], "heads": 6})], "heads"),
        ([inference(measured={})], "inference-n512.json"),
        ([inference(measured={**NOTHING, "seconds": {"eager": [1.0, 2.0], "k=128": [1.0]}})], "inference-n512.json"),
    ],
)
def test_rejects_folders_without_usable_cells(cells, match, folder):
    write(folder, *cells)
    with pytest.raises(SystemExit, match=match):
        main(["benchmark", "report", str(folder / "out"), "--results", str(folder / "results")])
    assert not (folder / "results").exists()
