"""Sections: verdicts by scale, the records behind them, and where and when they were measured."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fairseq_linformer.reproduction.report.sections import (
    LONGEST_EVIDENCE,
    claims_table,
    common_n,
    describe_circumstances,
    machine,
    readme_table,
    sections_of,
)
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED, Check, Verdict

from ..sample_records import measurement, record
from .sample_experiment import Sample, timed


def section(*records):
    (found,) = sections_of(records, [Sample()])
    return found


def verdicts(*records):
    (found,) = section(*records).claims
    return found


def test_every_scale_has_a_verdict_the_largest_first():
    found = verdicts(
        timed({"a": 1.0}), timed({"a": 3.0}, "gpu"), timed({"a": 1.5}, "paper", n=512), timed({"a": 1.0}, "smoke")
    )
    labels = ["paper, n = 512", "gpu, n = 64", "cpu, n = 64"]
    assert [(each.label, each.verdict.outcome) for each in found.verdicts] == [
        *zip(labels, ("holds", "does not hold", "holds"), strict=True)
    ]
    assert found.outcome == "**holds** (paper, n = 512); **does not hold** (gpu, n = 64); **holds** (cpu, n = 64)"
    assert found.short_numbers == "a: 1.5 s / a: 3 s / a: 1 s"


def test_the_decisive_numbers_come_first_and_two_are_in_the_cell():
    found = verdicts(timed({"a": 1.0, "b": 3.0, "c": 4.0, "d": 2.0}))
    assert found.short_numbers.split("; ") == ["b: 3 s", "c: 4 s", "2 more"]
    assert verdicts(timed({"a": 1.0, "b": 2.0})).short_numbers == "a: 1 s; b: 2 s"


def test_without_records_nothing_is_measured():
    found = section()
    assert [(each.label, each.verdict.outcome) for each in found.claims[0].verdicts] == [("", "not measured")]
    assert found.claims[0].outcome == "**not measured**" and found.claims[0].short_numbers == ""
    assert not (found.records or found.earlier or found.tables or found.charts)


def test_the_smoke_scale_has_no_verdict_and_is_not_shown():
    found = section(timed({"a": 1.0}, "smoke"))
    assert found.claims[0].outcome == "**not measured**" and not found.records and not found.charts


def test_a_label_has_n_where_all_records_share_one():
    several = [
        timed({"a": 1.0}, identifier="figure-9-cpu"),
        timed({"a": 1.0}, identifier="figure-9-more", configuration={"n": 8}),
    ]
    assert [each.label for each in verdicts(*several).verdicts] == ["cpu"]
    other = timed({"a": 1.0}, experiment="figure-8", identifier="unused", configuration={"n": 8})
    assert [each.label for each in verdicts(timed({"a": 1.0}, configuration={"n": 64}), other).verdicts] == [
        "cpu, n = 64"
    ]


@pytest.mark.parametrize(
    "lengths, configuration, n",
    [
        ([64, 64, None], {"n": 64}, 64),
        ([64, 128], {"n": 64}, None),
        ([64, None], {"seeds": [1]}, 64),
        ([None], {"n": 32}, 32),
        ([64], {"model": {"max_positions": 512}}, 512),
        ([None], {"n": 32, "model": {"max_positions": 512}}, 32),
    ],
)
def test_common_n(lengths, configuration, n):
    measurements = [measurement(n=each, seed=i) for i, each in enumerate(lengths)]
    assert common_n(record(measurements=measurements, configuration=configuration)) == n


def test_records_and_earlier_ones():
    """Context is what other commands measured earlier: shown apart, without a verdict."""
    mine, old = timed({"a": 1.0}), timed({"a": 9.0}, identifier="old", made_by="script")
    other = record()
    found = section(mine, old, other)
    assert found.records == [mine] and found.earlier == [old] and found.claims[0].outcome == "**holds** (cpu, n = 64)"
    assert [table.caption for table in found.tables] == ["figure-9-cpu"]
    assert [table.caption for table in found.earlier_tables] == ["old"]
    assert [chart.identifier for chart in found.charts] == [Sample.picture]
    assert [chart.identifier for chart in found.earlier_charts] == ["earlier-chart"]


def test_the_command_names_its_inputs(monkeypatch):
    assert section().command == "fairseq-linformer reproduce figure-9 --data FOLDER"
    monkeypatch.setattr(Sample, "scales", ("smoke", "encoder"))
    monkeypatch.setattr(Sample, "reads", ("data", "encoder", "source"))
    command = "fairseq-linformer reproduce figure-9 --scale encoder --data FOLDER --encoder NAME --source TEXT"
    assert section().command == command


def test_the_table_of_all_claims():
    table = claims_table([section(timed({"a": 1.0})), section()])
    assert len(table.head) == 4 and table.links == ["claim-figure-9", "claim-figure-9"]
    assert table.rows == [
        ["Figure 9, section 8", "It is **fast**.", "**holds** (cpu, n = 64)", "a: 1 s"],
        ["Figure 9, section 8", "It is **fast**.", "**not measured**", ""],
    ]


def test_the_readme_omits_claims_of_this_project_that_lack_evidence():
    def claim(where, *outcomes):
        verdicts = [
            SimpleNamespace(verdict=SimpleNamespace(outcome=each, deciding=["1 s"], records=[])) for each in outcomes
        ]
        return SimpleNamespace(claim=SimpleNamespace(where=where, statement=""), verdicts=verdicts, outcome="")

    ours = [("this project: a", UNDECIDED), ("this project: b", UNMEASURED), ("this project: c", UNDECIDED, FAILS)]
    claims = [claim(*each) for each in [*ours, ("this project: d", HOLDS), ("Table 1", UNMEASURED)]]
    rows = readme_table([SimpleNamespace(claims=claims)]).rows
    assert [row[1] for row in rows] == ["this project: c", "this project: d", "Table 1"]


def test_the_readme_has_the_first_number_of_every_verdict(monkeypatch):
    """Without the name of its record, and truncated if it is long."""
    times = {"a": 1.0}
    assert readme_table([section(timed(times))]).rows[0][-1] == "a: 1 s"
    verdict = Verdict(HOLDS, [Check(HOLDS, "figure-9-cpu: 1 s, " + "as long as necessary " * 9)], ["figure-9-cpu"])
    monkeypatch.setattr(Sample, "claims", (replace(Sample.claims[0], evaluate=lambda records, scale: verdict),))
    evidence = readme_table([section(timed(times))]).rows[0][-1]
    assert evidence.startswith("1 s, as long") and evidence.endswith(" ...") and len(evidence) <= LONGEST_EVIDENCE


def test_circumstances():
    found = record(hardware={"processor": "abacus", "cores": 2, "accelerators": ["V100"] * 4})
    assert describe_circumstances(found) == "cpu scale; abacus, 2 cores, 4 x V100; 2026-01-02; commit abc"
    assert machine(record(hardware={"memory_gib": 3})) == "unknown processor, ? cores"
    assert machine(record()) == "abacus, 2 cores"


def test_a_record_that_cannot_be_reported_is_named(monkeypatch):
    def tables(experiment, records):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(Sample, "tables", tables)
    with pytest.raises(ValueError, match="figure-9.*figure-9-cpu.*ZeroDivisionError"):
        section(timed({"a": 1.0}))
