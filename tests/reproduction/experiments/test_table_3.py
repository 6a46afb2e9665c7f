"""Table 3: how much faster the Linformer is, and the rule and tables of both halves."""

import pytest

from fairseq_linformer.reproduction import paper
from fairseq_linformer.reproduction.experiments import table_3
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.report.tables import MISSING
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..evidence import cell, number, outcome, put_cells, record, verdict

METRICS = {"table-3-time": "time_ratio", "table-3-memory": "batch_ratio"}
EXPERIMENTS = {"time_ratio": "table-3", "batch_ratio": "memory"}
FASTER = {(512, 128): (1.4, 1.6), (512, 256): (1.2, 1.3), (1024, 128): (1.7, 1.9), (1024, 256): (1.5, 1.6)}


def ratios(found, metric="time_ratio", baseline="eager", identifier="benchmark-inference-cpu-fp32-l2", **changed):
    """(n, k) to the lowest and the highest; the median is between them."""
    measurements = [
        number(metric, (low + high) / 2, (low, high), model="linformer", baseline=baseline, n=n, k=k)
        for (n, k), (low, high) in reversed(found.items())
    ]
    changed = {
        "made_by": "benchmark",
        "experiment": EXPERIMENTS[metric],
        "configuration": {"layers": 2, "threads": 2, "device": "cpu", "dtype": "fp32"},
        **changed,
    }
    return record(measurements, identifier, **changed)


@pytest.mark.parametrize("claim", METRICS)
@pytest.mark.parametrize(
    "changed, expected, said",
    [
        ({}, HOLDS, ""),
        ({(512, 128): (0.99, 1.6)}, UNDECIDED, "n = 512, k = 128"),
        ({(512, 256): (1.0, 1.3)}, UNDECIDED, "n = 512, k = 256"),
        ({(512, 128): (0.7, 1.0)}, FAILS, "n = 512, k = 128"),
        ({(1024, 128): (1.3, 1.39)}, FAILS, "k = 128"),  # less at a longer n
        ({(1024, 128): (1.6, 1.9)}, UNDECIDED, "k = 128"),  # one round is not above every other
        ({(512, 256): (1.65, 1.67), (1024, 256): (1.68, 1.69)}, FAILS, "n = 512"),  # less at a smaller k
        ({(2048, 128): (1.55, 1.65), (4096, 128): (2.0, 2.1)}, FAILS, "k = 128"),  # a step down between the ends
        ({(2048, 128): (1.6, 1.7), (4096, 128): (2.0, 2.1)}, HOLDS, ""),  # a step within the rounds
    ],
)
def test_ratios_rise(claim, changed, expected, said):
    found = verdict(claim, ratios({**FASTER, **changed}, METRICS[claim]))
    assert found.outcome == expected and found.deciding[0].startswith(said)


def test_the_ends_and_the_step_down_are_reported():
    (first, *_) = verdict(
        "table-3-time", ratios({**FASTER, (2048, 128): (1.55, 1.65), (4096, 128): (2.0, 2.1)})
    ).deciding
    for said in ("1.5x at n = 512", "2.05x at n = 4096", "from n = 1024 to n = 2048"):
        assert said in first
    assert "(paper: 1.5x)" in verdict("table-3-time", ratios({(512, 128): (1.4, 1.6)})).deciding[0]


def test_each_half_has_numbers_of_its_own():
    batches = ratios({(512, 128): (1.7, 1.7)}, "batch_ratio")
    assert outcome("table-3-memory", batches) == HOLDS and outcome("table-3-time", batches) == UNMEASURED
    less = ratios({(512, 128): (0.9, 0.9)}, "batch_ratio", identifier="another")
    assert outcome("table-3-memory", batches, less) == FAILS
    assert "(paper: 1.7x)" in verdict("table-3-memory", batches).deciding[0]


def test_batches_of_this_implementation_do_not_decide():
    """They are counted on a CPU, for other kernels than the paper's."""
    ours = ratios({(512, 128): (4.18, 4.18)}, "batch_ratio", experiment="table-3")
    assert outcome("table-3-memory", ours) == UNMEASURED


def test_other_cells_and_baselines_do_not_count():
    for other in (
        ratios({(512, 100): (0.1, 0.2)}),
        ratios({(100, 128): (0.1, 0.2)}),
        ratios({(512, 512): (0.1, 0.2)}),
        ratios({(512, 128): (0.1, 0.2)}, baseline="sdpa"),
    ):
        assert outcome("table-3-time", other) == UNMEASURED
        assert verdict("table-3-time", ratios(FASTER, identifier="a"), other).records == ["a"]


def test_the_ratio_to_sdpa_is_a_remark():
    fused = ratios({(512, 128): (0.8, 1.0), (1024, 128): (1.0, 1.2), (1024, 256): (0.1, 0.2)}, baseline="sdpa")
    both = ratios(FASTER)
    found = verdict("table-3-time", both.copy_with(measurements=[*both.measurements, *fused.measurements]))
    assert found.outcome == HOLDS
    assert found.remarks == ["against SDPA, k = 128: 1.1x at n = 1,024, 0.9x at n = 512; not part of the verdict"]


def test_cells_in_the_order_of_the_paper():
    found = table_3.measured_cells(ratios(FASTER), "time")
    assert list(found) == [(512, 128), (512, 256), (1024, 128), (1024, 256)]


# Measurements


def inference(**changed):
    measured = {
        "seconds": {
            "eager": [4.0, 6.0, 20.0],
            "sdpa": [2.0, 3.0, 4.0],
            "k=16": [2.0, 2.0, 2.0],
            "k=8": [1.0, 2.0, 4.0],
        },
        "largest": {"eager": 10, "sdpa": 20, "k=16": 30, "k=8": 40},
        "bytes": {"eager": [100, 300], "sdpa": [100, 200], "k=16": [100, 180], "k=8": [100, 150]},
        **changed,
    }
    return cell("inference", measured, dimensions=[8, 16])


def test_ratios_of_a_cell(tmp_path):
    (found,) = table_3.KIND.records(put_cells(tmp_path, inference()), "table-3")
    at = {"model": "linformer", "n": 32, "baseline": "eager"}
    m = found.find("time_ratio", k=8, **at)
    assert (m.value, m.interval, m.repetitions) == (4, (3, 5), 3)  # round by round
    assert found.find("time_ratio", k=16, **{**at, "baseline": "sdpa"}).value == 1.5
    assert (
        found.find("batch_ratio", k=8, **at).value == 4
        and found.find("batch_ratio", k=16, **{**at, "baseline": "sdpa"}).value == 1.5
    )
    assert (
        found.find("bytes_ratio", k=8, **at).value == 4 and found.find("bytes_ratio", k=16, **at).value == 2.5
    )  # of one more sentence
    assert found.find("seconds", model="linformer", k=16).value == 2 and found.find("seconds", model="eager").value == 6
    assert found.paper.value["n=512 k=128"] == {"time": 1.5, "memory": 1.7} and "n=512 k=512" not in found.paper.value


@pytest.mark.parametrize(
    "changed, missing",
    [
        ({"seconds": {"sdpa": [2.0], "k=8": [1.0]}}, ("time_ratio", "eager", 8)),
        ({"seconds": {"eager": [2.0], "k=16": [1.0]}}, ("time_ratio", "eager", 8)),
        ({"largest": {"eager": 0, "sdpa": 1, "k=8": 4, "k=16": 3}}, ("batch_ratio", "eager", 16)),
        ({"largest": {"eager": 2, "sdpa": 1, "k=8": 4, "k=16": 0}}, ("batch_ratio", "sdpa", 16)),
        ({"bytes": {"sdpa": [1, 2], "k=8": [1, 2], "k=16": [1, 3]}}, ("bytes_ratio", "eager", 8)),
    ],
)
def test_what_did_not_fit_has_no_ratio(changed, missing, tmp_path):
    (found,) = table_3.KIND.records(put_cells(tmp_path, inference(**changed)), "table-3")
    metric, baseline, k = missing
    assert found.find(metric, baseline=baseline, k=k) is None and found.measurements


# Tables, cells and charts


def test_the_left_half():
    one = ratios({(512, 128): (1.2, 1.3), (1024, 256): (2.0, 2.8)})
    (time,) = find("table-3").tables([one])
    assert time.rows[0] == ["n = 512, k = 128", "1.5x", "1.25x", "1.2 to 1.3", "0.83"]
    rows = {row[0]: row for row in time.rows}
    assert rows["n = 1,024, k = 256"] == ["n = 1,024, k = 256", "1.6x", "2.4x", "2 to 2.8", "1.50"]
    assert rows["n = 65,536, k = 2048"] == ["n = 65,536, k = 2048", "7.9x", MISSING, "", ""]
    assert len(time.rows) == 34 and "2 layers, 2 threads" in time.caption and "CPU" in time.caption


def test_both_halves_have_all_cells():
    names = {}
    for experiment, metric in (("table-3", "time_ratio"), ("memory", "batch_ratio")):
        (table,) = find(experiment).tables([ratios(FASTER, metric)])
        assert len(table.rows) == 34
        for (row, column), name in table.names.items():
            assert paper.CELLS[name].printed == float(table.rows[row][column].rstrip("x"))
            names[name] = experiment
    assert sorted(names) == sorted(name for name, c in paper.CELLS.items() if c.table == "table-3")
    assert names["table-3-memory-n-512-k-128"] == "memory" and names["table-3-time-n-512-k-128"] == "table-3"


def test_a_second_record_adds_what_it_has():
    tables = find("table-3").tables(
        [ratios({(512, 128): (1.2, 1.3)}), ratios({(512, 256): (1.2, 1.3)}, identifier="another")]
    )
    assert [len(table.rows) for table in tables] == [34, 1]
    assert "another" in tables[1].caption and tables[1].names == {}
    assert [len(find(name).tables([])[0].rows) for name in ("table-3", "memory")] == [34, 34]


@pytest.mark.parametrize("scale, chunks", [("cpu", True), ("gpu", False)])
def test_the_fused_kernel_and_batches_of_this_implementation_have_a_table_of_their_own(scale, chunks):
    one = ratios({(1024, 128): (1.2, 1.4), (512, 256): (0.8, 1.0)}, baseline="sdpa", scale=scale)
    batches = [
        number("batch_ratio", value, model="linformer", baseline=baseline, n=512, k=256)
        for baseline, value in (("sdpa", 2.5), ("eager", 4.0))
    ]
    one = one.copy_with(measurements=[*one.measurements, *batches])
    *_, table = find("table-3").tables([one])
    assert table.rows == [
        ["n = 512, k = 256", "0.9x", "0.8 to 1", "4x", "2.5x"],
        ["n = 1,024, k = 128", "1.3x", "1.2 to 1.4", MISSING, MISSING],
    ]
    assert "16 GiB" in table.caption and ("in chunks" in table.caption) == chunks
    assert len(find("table-3").tables([ratios(FASTER)])) == 1  # the paper's alone


def test_cells():
    one = ratios({(512, 128): (1.2, 1.3)})
    found = {each.identifier: results for each, results in find("table-3").paper_cells([one])}
    assert list(found) == [name for name, each in paper.CELLS.items() if name.startswith("table-3-time")]
    (result,) = found["table-3-time-n-512-k-128"]
    assert (result.records, result.scale, result.measured.value, result.measured.unit) == (
        (one.identifier,),
        "cpu",
        1.25,
        "times",
    )
    fused = dict(find("table-3").paper_cells([ratios({(512, 128): (1.2, 1.3)}, baseline="sdpa")]))
    assert fused[paper.CELLS["table-3-time-n-512-k-128"]] == []
    right = {each.identifier: found for each, found in find("memory").paper_cells([ratios(FASTER, "batch_ratio")])}
    assert list(right) == [name for name, each in paper.CELLS.items() if name.startswith("table-3-memory")]
    assert right["table-3-memory-n-512-k-128"][0].measured.value == 1.5


def test_charts():
    records = [ratios(FASTER), ratios({(512, 512): (9.0, 9.0)}, identifier="another")]
    (time,) = find("table-3").charts(records)
    lines = {series.name: series for series in time.series}
    assert lines["k = 128, paper"].runs[0][:2] == [(512, 1.5), (1024, 1.7)]
    assert lines["k = 2048, paper"].runs == [[(4096, 1.3), (8192, 2.1), (16384, 3.3), (32768, 5.0), (65536, 7.9)]]
    assert lines["k = 256, ours"].runs == [[(512, 1.25), (1024, 1.55)]] and "k = 512, ours" not in lines
    assert lines["k = 128, paper"].color == lines["k = 128, ours"].color != lines["k = 256, ours"].color
    assert lines["k = 128, paper"].thin and not lines["k = 128, ours"].thin
    (memory,) = find("memory").charts([])
    assert len(memory.series) == 5 and (time.identifier, memory.identifier) == (
        "table-3-time-chart",
        "table-3-memory-chart",
    )


def test_a_line_of_ours_is_against_the_transformer_of_the_paper():
    """Not against one with a fused kernel, which the same record has too."""
    eager, sdpa = ratios({(512, 128): (1.2, 1.3)}), ratios({(512, 128): (0.2, 0.3)}, baseline="sdpa")
    (time,) = find("table-3").charts([eager.copy_with(measurements=[*sdpa.measurements, *eager.measurements])])
    assert {series.name: series.runs for series in time.series}["k = 128, ours"] == [[(512, 1.25)]]


@pytest.mark.parametrize(
    "scale, lengths, device, layers, tokens, usable",
    [
        ("smoke", [256], "cpu", 1, 256, 8),
        ("cpu", [2**i for i in range(9, 15)], "cpu", 2, 4096, 8),
        ("gpu", [2**i for i in range(9, 17)], "cuda", 12, 65536, 70),
    ],
)
def test_cells_of_a_scale(scale, lengths, device, layers, tokens, usable):
    cells = find("table-3").cells_at[scale]()
    assert [each.n for each in cells] == lengths
    assert {(each.device, each.layers, each.tokens, each.usable_gib) for each in cells} == {
        (device, layers, tokens, usable)
    }
    if scale != "smoke":
        assert [each.dimensions for each in cells] == [
            tuple(k for k in paper.TABLE_3_DIMENSIONS if k < n) for n in lengths
        ]
        assert {(each.embed_dim, each.heads, each.memory_gib) for each in cells} == {(768, 12, 16)}
    else:
        assert cells[0].dimensions == (128,)
