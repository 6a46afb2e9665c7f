"""Table 1: exponents of n in the measured time of a layer, and in its operations."""

import pytest

from fairseq_linformer.reproduction.experiments import table_1
from fairseq_linformer.reproduction.paper import CELLS
from fairseq_linformer.reproduction.registry import Inputs, find
from fairseq_linformer.reproduction.report.tables import MISSING
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..evidence import cell, number, outcome, put_cells, record, verdict


def growth(name="benchmark-scaling-cpu-fp32-l2", made_by="benchmark", configuration=None, **exponents):
    """Exponents of models over the longer half of four lengths."""
    exponents = {
        name.replace("_", "-"): value
        for name, value in {"linformer": 0.02, "transformer_eager": 0.8, "recurrent": 1.0, **exponents}.items()
        if value is not None
    }
    found = [
        number("microseconds_per_token", 1.0, model=model, n=n) for model in exponents for n in (4096, 2048, 512, 1024)
    ]
    found += [
        number(metric, value, model=model)
        for model, value in exponents.items()
        for metric in ("exponent", "exponent_longer_half")
    ]
    return record(found, name, {"layers": 2, **(configuration or {})}, experiment="table-1", made_by=made_by)


@pytest.mark.parametrize("exponents, expected", [
    ({}, HOLDS),
    ({"linformer": 0.15}, HOLDS), ({"linformer": 0.151}, FAILS), ({"linformer": -0.3}, HOLDS),
    ({"transformer_eager": 0.5}, HOLDS), ({"transformer_eager": 0.499}, UNDECIDED),
    ({"transformer_sdpa": 0.1}, UNDECIDED),
    ({"linformer": None}, UNDECIDED), ({"transformer_eager": None}, UNDECIDED),
    ({"linformer": 0.3, "transformer_eager": None}, FAILS),
    ({"recurrent": 9.0}, HOLDS),
])  # fmt: skip
def test_time(exponents, expected):
    assert (table_1.FLAT, table_1.STEEP) == (0.15, 0.5)
    assert outcome("table-1", growth(**exponents)) == expected


def test_which_family_is_missing():
    for model, family in (("linformer", "Linformer"), ("transformer_eager", "Transformer")):
        found = verdict("table-1", growth(**{model: None}))
        assert found.deciding[0].endswith(family) and len(found.checks) == 2


def test_other_families_are_reported_beside():
    found = verdict("table-1", growth())
    (beside,) = found.remarks
    assert beside.startswith("recurrent") and "1.00" in beside and "2048" in beside and "4096" in beside
    assert all("recurrent" not in text for text in found.deciding)


def test_all_records_decide_and_are_named():
    steep = growth("benchmark-scaling-cpu-fp32-l12", linformer=0.3)
    found = verdict("table-1", growth(), steep)
    assert found.outcome == FAILS and found.records == [
        "benchmark-scaling-cpu-fp32-l2",
        "benchmark-scaling-cpu-fp32-l12",
    ]
    assert found.deciding[0].startswith("benchmark-scaling-cpu-fp32-l12: ") and len(found.remarks) == 2
    small = growth("benchmark-scaling-cpu-fp32-l2-d64", linformer=0.3, configuration={"embed_dim": 64})
    assert outcome("table-1", growth(), small) == HOLDS and outcome("table-1", small) == UNMEASURED
    ours = growth("benchmark-scaling-cpu-fp32-l2-cpu", made_by="reproduce")
    assert verdict("table-1", steep, ours).records == [ours.identifier] and outcome("table-1", steep, ours) == HOLDS


def test_an_exponent_without_times_is_no_evidence():
    one = growth()
    assert outcome("table-1", one.changed(measurements=one.select("exponent_longer_half"))) == UNDECIDED


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
    one = growth(bigbird=0.5)
    (table,) = find("table-1").tables([one])
    rows = {row[3]: row for row in table.rows}
    assert rows["linformer"] == ["linformer", "O(n)", "O(1)", "linformer", "n^1.02"]
    assert (
        rows["bigbird"] == ["sparse", "O(n sqrt(n))", "O(1)", "bigbird", "n^1.50"] and rows["longformer"][-1] == MISSING
    )
    assert len(table.rows) == 7 and sorted(table.names.values()) == sorted(
        name for name, c in CELLS.items() if c.table == "table-1"
    )
    assert all(CELLS[name].printed == table.rows[row][column] for (row, column), name in table.names.items())
    (empty,) = find("table-1").tables([])
    assert [row[-1] for row in empty.rows] == [MISSING] * 7


def test_cells():
    found = {cell.identifier: results for cell, results in find("table-1").paper_cells([growth(transformer_sdpa=0.6)])}
    assert list(found) == [name for name, cell in CELLS.items() if cell.table == "table-1"]
    models = {each.model: each.measured.value for each in found["table-1-transformer-per-layer"]}
    assert models == {"transformer-eager": 1.8, "transformer-sdpa": 1.6}
    assert found["table-1-sparse-per-layer"] == [] == found["table-1-linformer-sequential"]
    (result,) = found["table-1-linformer-per-layer"]
    assert (result.records, result.scale, result.measured.value) == (("benchmark-scaling-cpu-fp32-l2",), "cpu", 1.02)


def test_the_exponent_of_a_layer_keeps_its_interval():
    one = record([number("exponent_longer_half", 0.5, (0.4, 0.75), model="linformer")])
    m = table_1._of_layer(one, "linformer")
    assert (m.value, m.interval) == (1.5, (1.4, 1.75)) and table_1._of_layer(one, "other") is None


def test_charts():
    one = growth(configuration={"models": ["linformer", "transformer-eager", "fnet"]})
    (chart,) = table_1.time_charts([one])
    assert [s.name for s in chart.series] == ["linformer", "transformer-eager"] and len(chart.series[0].runs[0]) == 4
    assert table_1.time_charts([growth()]) == []  # which does not say its models
    many = growth(
        configuration={"models": ["linformer", "recurrent", *(f"m{i}" for i in range(9))]},
        **{f"m{i}": 1.0 for i in range(9)},
    )
    (chart,) = table_1.time_charts([many])
    assert [s.name for s in chart.series] == ["linformer"]
    ten = growth(
        configuration={"models": ["linformer", "recurrent", *(f"m{i}" for i in range(8))]},
        **{f"m{i}": 1.0 for i in range(8)},
    )
    assert len(table_1.time_charts([ten])[0].series) == 10


@pytest.mark.parametrize("scale, lengths, setting, usable", [
    ("smoke", (64, 128), ("cpu", "fp32", 1, 64, 1, 2, 0, 16), 8),
    ("cpu", (512, 1024, 2048, 4096, 8192), ("cpu", "fp32", 2, 768, 12, 3, 1, 256), 8),
    ("gpu", (512, 1024, 2048, 4096, 8192, 16384), ("cuda", "bf16", 12, 768, 12, 3, 1, 256), 70),
])  # fmt: skip
def test_cells_of_a_scale(scale, lengths, setting, usable):
    cells = find("table-1").cells_at[scale]()
    names = ("device", "dtype", "layers", "embed_dim", "heads", "rounds", "warm_up", "k")
    assert {tuple(getattr(each, name) for name in names) for each in cells} == {setting}
    assert tuple(each.n for each in cells) == lengths and {each.tokens for each in cells} == {lengths[-1]}
    assert all({"linformer", "transformer-eager", "transformer-sdpa"} <= set(each.models) for each in cells)
    assert {each.usable_gib for each in cells} == {usable}
    assert scale == "smoke" or {"recurrent", "reformer", "bigbird", "longformer"} <= set(cells[0].models)


# Operations


def operations(linformer, transformer):
    """A token's, at n = 512, 1024 and 2048."""
    found = [
        number("operations_per_token", value, model=model, n=n)
        for model, values in (("linformer", linformer), ("transformer", transformer))
        for n, value in [*zip((512, 1024, 2048), values)][::-1]
    ]
    return record(found, "operations-cpu", experiment="operations")


@pytest.mark.parametrize("linformer, transformer, expected", [
    ((100, 100, 100), (100, 150, 300), HOLDS),
    ((100, 500, 105), (100, 150, 300), HOLDS), ((100, 100, 106), (100, 150, 300), FAILS),
    ((100, 100, 100), (100, 150, 280), HOLDS), ((100, 100, 100), (100, 100, 186), UNDECIDED),  # 2^0.9 is 1.866
])  # fmt: skip
def test_operations(linformer, transformer, expected):
    assert (table_1.SAME_COUNT, table_1.ALMOST_ALL) == (1.05, 0.9)
    assert outcome("table-1-operations", operations(linformer, transformer)) == expected


def test_operations_of_a_layer():
    """A token's, of width 64 and k = 16, two for each product: E X is shared by K and V, which then have k rows."""
    (found,) = find("operations").measure("smoke", Inputs(), "it")
    query_and_output, feed_forward, projected, attention = (
        2 * 2 * 64 * 64,
        2 * 2 * 64 * 256,
        2 * 16 * 64,
        2 * 2 * 16 * 64,
    )
    for n in (64, 128, 256):
        of = {
            model: found.find("operations_per_token", model=model, n=n).value for model in ("linformer", "transformer")
        }
        assert of["transformer"] == 2 * query_and_output + feed_forward + 2 * 2 * n * 64
        assert of["linformer"] == query_and_output * (1 + 16 / n) + feed_forward + projected + attention
    assert (
        found.configuration == {"width": 64, "heads": 2, "k": 16, "lengths": [64, 128, 256]}
        and found.identifier == "operations-smoke"
    )
    assert table_1.OPERATIONS["cpu"] == (768, 12, 256, tuple(2**i for i in range(9, 17)))
