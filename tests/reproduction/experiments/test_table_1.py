"""Table 1: exponents of n in the measured time of a layer."""

import pytest

from fairseq_linformer.reproduction.experiments import table_1
from fairseq_linformer.reproduction.paper import CELLS
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.report.tables import MISSING
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..evidence import cell, number, outcome, put_cells, record, verdict


def growth(name="benchmark-scaling-cpu-fp32-l2", made_by="benchmark", configuration=None, rounds=3, **exponents):
    """Times of a layer that grow as n to these powers over the longer two of four lengths, where a tuple gives the
    lowest, the median and the highest power of any rounds; flat before."""
    exponents = {
        name.replace("_", "-"): value if isinstance(value, tuple) else (value, value, value)
        for name, value in {"linformer": 1.02, "transformer_eager": 1.8, "recurrent": 2.0, **exponents}.items()
        if value is not None
    }
    found = []
    for model, powers in exponents.items():
        for n in (4096, 2048, 512, 1024):
            low, value, high = (64 * (n / 2048) ** (power - 1) if n == 4096 else 64.0 for power in powers)
            interval = (low, high) if rounds > 1 else None
            found.append(number("microseconds_per_token", value, interval, rounds, model=model, n=n))
    return record(found, name, {"layers": 2, **(configuration or {})}, experiment="table-1", made_by=made_by)


@pytest.mark.parametrize(
    "exponents, expected",
    [
        ({}, HOLDS),
        ({"linformer": 1.1499}, HOLDS),
        ({"linformer": 1.1501}, FAILS),
        ({"linformer": (1.0, 1.1, 1.1501)}, UNDECIDED),  # one round is above
        ({"linformer": (1.1499, 1.2, 1.3)}, UNDECIDED),  # one round is not
        ({"linformer": 0.7}, HOLDS),
        ({"transformer_eager": 1.501}, HOLDS),
        ({"transformer_eager": (1.499, 1.9, 2.0)}, UNDECIDED),  # the interval has n^1.5
        ({"transformer_eager": (1.501, 1.9, 2.0)}, HOLDS),
        ({"transformer_eager": 1.1}, UNDECIDED),
        ({"transformer_sdpa": 1.1}, HOLDS),
        ({"transformer_eager": None, "transformer_sdpa": 1.9}, UNDECIDED),
        ({"linformer": None}, UNDECIDED),
        ({"linformer": 1.3, "transformer_eager": None}, FAILS),
        ({"recurrent": 9.0}, HOLDS),
        ({"rounds": 1}, UNDECIDED),
    ],
)
def test_time(exponents, expected):
    assert (table_1.LINEAR, table_1.QUADRATIC) == (1.15, 1.5)
    assert outcome("table-1", growth(**exponents)) == expected


def test_which_model_is_missing():
    for model in ("linformer", "transformer_eager"):
        found = verdict("table-1", growth(**{model: None}))
        assert found.deciding[0].endswith(model.replace("_", "-")) and len(found.checks) == 2


def test_the_interval_is_of_any_rounds():
    """Three lengths: the middle one has no weight in the slope."""
    at = {"model": "linformer"}
    times = [(512, 1.0, 1.0), (1024, 1.0, 1.0), (2048, 1.0, 2.0), (4096, 1.0, 64.0), (8192, 1.0, 4.0)]
    one = record([number("microseconds_per_token", low, (low, high), n=n, **at) for n, low, high in times])
    found = table_1.exponent(one, "linformer")
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(2.0)) and found.value == 1
    assert "n = 2048 to 8192" in found.text and table_1.exponent(one, "reformer") is None
    assert table_1.exponent(one.copy_with(measurements=one.measurements[:2]), "linformer") is None


def test_sdpa_and_other_families_are_reported():
    found = verdict("table-1", growth(transformer_sdpa=1.53))
    remarks = {remark.split(":")[0]: remark for remark in found.remarks}
    assert list(remarks) == ["recurrent", "transformer-sdpa"] and "1.53" in remarks["transformer-sdpa"]
    assert "2 [2, 2]" in remarks["recurrent"] and "n = 2048 to 4096" in remarks["recurrent"]
    assert len(found.checks) == 2 and not any("recurrent" in text or "sdpa" in text for text in found.deciding)


def test_all_records_decide_and_are_named():
    steep = growth("benchmark-scaling-cpu-fp32-l12", linformer=1.3)
    found = verdict("table-1", growth(), steep)
    assert found.outcome == FAILS and found.records == [
        "benchmark-scaling-cpu-fp32-l2",
        "benchmark-scaling-cpu-fp32-l12",
    ]
    assert found.deciding[0].startswith("benchmark-scaling-cpu-fp32-l12: ")
    small = growth("benchmark-scaling-cpu-fp32-l2-d64", linformer=1.3, configuration={"embed_dim": 64})
    assert outcome("table-1", growth(), small) == HOLDS and outcome("table-1", small) == UNMEASURED
    ours = growth("benchmark-scaling-cpu-fp32-l2-cpu", made_by="reproduce")
    assert verdict("table-1", steep, ours).records == [ours.identifier] and outcome("table-1", steep, ours) == HOLDS


def test_an_exponent_without_times_is_no_evidence():
    alone = [number("exponent_longer_half", 0.0, model="linformer")]
    assert outcome("table-1", growth().copy_with(measurements=alone)) == UNDECIDED


def scaling(seconds, n, tokens=64):
    return cell("scaling", {"seconds": seconds}, f"n{n}", n=n, tokens=tokens, models=["linformer", "transformer-sdpa"])


def test_exponents_of_cells(tmp_path):
    """The Linformer's time is the same for every n; the Transformer's is flat at first, then doubles with n."""
    times = {64: [1.0, 2.0, 9.0], 128: [1.0, 2.0, 2.0], 256: [2.0, 2.0, 2.0], 512: [4.0, 4.0, 4.0]}
    put_cells(
        tmp_path,
        *(scaling({"linformer": [2.0, 1.0, 3.0], "transformer-sdpa": values}, n) for n, values in times.items()),
    )
    (found,) = table_1.KIND.records(tmp_path, "table-1")
    exponents = {(m.metric, m.model): m.value for m in found.measurements if m.metric.startswith("exponent")}
    assert exponents == {
        ("exponent", "linformer"): 0,
        ("exponent_longer_half", "linformer"): 0,
        ("exponent", "transformer-sdpa"): pytest.approx(0.3),
        ("exponent_longer_half", "transformer-sdpa"): 1,
    }
    m = found.find("microseconds_per_token", model="linformer", n=128)
    assert (m.value, m.interval, m.repetitions) == (31250, (15625, 46875), 3)  # 2 s for 64 tokens
    assert found.find("microseconds_per_token", model="transformer-sdpa", n=64).value == 31250


def test_one_length_has_no_exponent(tmp_path):
    (found,) = table_1.KIND.records(put_cells(tmp_path, scaling({"linformer": [1.0]}, 64)), "table-1")
    assert [m.metric for m in found.measurements] == ["microseconds_per_token"]
    put_cells(tmp_path, scaling({"linformer": [1.0], "transformer-sdpa": [1.0]}, 128))
    (found,) = table_1.KIND.records(tmp_path, "table-1")
    assert {m.metric for m in found.select("exponent")} == {"exponent"} and not found.select("exponent_longer_half")


def test_lengths_at_other_numbers_of_tokens_are_rejected(tmp_path):
    put_cells(tmp_path, scaling({"linformer": [1.0]}, 64), scaling({"linformer": [1.0]}, 128, tokens=128))
    with pytest.raises(ValueError, match="tokens"):
        list(table_1.KIND.records(tmp_path, "table-1"))


# Table, cells and chart


def test_table():
    one = growth(bigbird=(1.3, 1.5, 1.75))
    (table,) = find("table-1").tables([one])
    rows = {row[3]: row for row in table.rows}
    assert rows["linformer"] == ["linformer", "O(n)", "O(1)", "linformer", "n^1.02 [1.02, 1.02]"]
    assert rows["bigbird"] == ["sparse", "O(n sqrt(n))", "O(1)", "bigbird", "n^1.50 [1.30, 1.75]"]
    assert rows["longformer"][-1] == MISSING
    assert len(table.rows) == 7 and sorted(table.names.values()) == sorted(
        name for name, c in CELLS.items() if c.table == "table-1"
    )
    assert all(CELLS[name].printed == table.rows[row][column] for (row, column), name in table.names.items())
    (empty,) = find("table-1").tables([])
    assert [row[-1] for row in empty.rows] == [MISSING] * 7


def test_cells():
    found = {cell.identifier: results for cell, results in find("table-1").paper_cells([growth(transformer_sdpa=1.6)])}
    assert list(found) == [name for name, cell in CELLS.items() if cell.table == "table-1"]
    models = {each.model: round(each.measured.value, 6) for each in found["table-1-transformer-per-layer"]}
    assert models == {"transformer-eager": 1.8, "transformer-sdpa": 1.6}
    assert found["table-1-sparse-per-layer"] == [] == found["table-1-linformer-sequential"]
    (result,) = found["table-1-linformer-per-layer"]
    assert (result.records, result.scale) == (("benchmark-scaling-cpu-fp32-l2",), "cpu")
    assert result.measured.value == pytest.approx(1.02) and result.measured.repetitions == 3


def test_a_cell_has_the_interval_of_its_rounds():
    def cell_of(**changed):
        cells = find("table-1").paper_cells([growth(linformer=(0.9, 1.0, 1.25), **changed)])
        return next(results[0].measured for cell, results in cells if cell.identifier == "table-1-linformer-per-layer")

    assert cell_of().interval == (pytest.approx(0.9), pytest.approx(1.25)) and cell_of(rounds=1).interval is None


def test_charts():
    one = growth(configuration={"models": ["linformer", "transformer-eager", "fnet"]})
    (chart,) = table_1.time_charts([one])
    assert [s.name for s in chart.series] == ["linformer", "transformer-eager"] and len(chart.series[0].runs[0]) == 4
    assert table_1.time_charts([growth()]) == []  # which does not say its models
    many = growth(
        configuration={"models": ["linformer", "recurrent", *(f"m{i}" for i in range(9))]},
        **{f"m{i}": 2.0 for i in range(9)},
    )
    (chart,) = table_1.time_charts([many])
    assert [s.name for s in chart.series] == ["linformer"]
    ten = growth(
        configuration={"models": ["linformer", "recurrent", *(f"m{i}" for i in range(8))]},
        **{f"m{i}": 2.0 for i in range(8)},
    )
    assert len(table_1.time_charts([ten])[0].series) == 10


@pytest.mark.parametrize(
    "scale, lengths, setting, usable",
    [
        ("smoke", (64, 128), ("cpu", "fp32", 1, 64, 1, 2, 0, 16), 8),
        ("cpu", (512, 1024, 2048, 4096, 8192), ("cpu", "fp32", 2, 768, 12, 3, 1, 256), 8),
        ("gpu", (512, 1024, 2048, 4096, 8192, 16384), ("cuda", "bf16", 12, 768, 12, 3, 1, 256), 70),
    ],
)
def test_cells_of_a_scale(scale, lengths, setting, usable):
    cells = find("table-1").cells_at[scale]()
    names = ("device", "dtype", "layers", "embed_dim", "heads", "rounds", "warm_up", "k")
    assert {tuple(getattr(each, name) for name in names) for each in cells} == {setting}
    assert tuple(each.n for each in cells) == lengths and {each.tokens for each in cells} == {lengths[-1]}
    assert all({"linformer", "transformer-eager", "transformer-sdpa"} <= set(each.models) for each in cells)
    assert {each.usable_gib for each in cells} == {usable}
    assert scale == "smoke" or {"recurrent", "reformer", "bigbird", "longformer"} <= set(cells[0].models)
