"""Table 3 (right): largest batches, counted for the paper's GPU."""

from pathlib import Path

import pytest

from fairseq_linformer.reproduction import paper
from fairseq_linformer.reproduction.experiments import memory
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import read
from fairseq_linformer.reproduction.registry import claims, find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS

from ..evidence import number, record, verdict

RESULTS = Path(__file__).parents[3] / "results"


def batches(found, too_long=(), **changed):
    """Ratios by (n, k); and lengths at which no sentence of the Transformer fits."""
    at = {"model": "linformer", "baseline": "eager"}
    measurements = [number("batch_ratio", ratio, n=n, k=k, **at) for (n, k), ratio in found.items()]
    for n in {n for n, _ in found} | set(too_long):
        measurements.append(number("largest_batch", 0.0 if n in too_long else 3.0, model="transformer", n=n))
    measurements += [number("bytes_ratio", 10.0 * k, n=n, k=k, **at) for n in too_long for k in (256, 128)]
    return record(measurements, "memory-cpu", {"conditions": "as in 2020"}, experiment="memory", **changed)


LARGER = {(512, 128): 2.2, (512, 256): 2.0, (1024, 128): 3.6, (1024, 256): 3.5}


@pytest.mark.parametrize(
    "changed, expected",
    [
        ({}, HOLDS),
        ({(512, 256): 1.01}, HOLDS),
        ({(512, 256): 1.0}, FAILS),
        ({(1024, 256): 2.0}, FAILS),  # no more than at the shorter n
        ({(1024, 256): 2.01}, HOLDS),
        ({(512, 256): 2.2}, FAILS),  # no less than at the smaller k
    ],
)
def test_batches_are_larger_and_rise(changed, expected):
    result = verdict("table-3-memory", batches({**LARGER, **changed}))
    assert (result.outcome == HOLDS) == (expected == HOLDS) and result.records == ["memory-cpu"]


def test_lengths_at_which_no_sentence_fits_are_reported():
    (remark,) = verdict("table-3-memory", batches(LARGER, too_long=[32768])).remarks
    assert "n = 32768" in remark and "k = 128" in remark and "1.28e+03 times" in remark and "(paper: 56x)" in remark
    assert verdict("table-3-memory", batches(LARGER)).remarks == []


@pytest.fixture(scope="module")
def counted():
    (found,) = find("memory").measure("smoke", Inputs(), "it")
    return found


@pytest.mark.slow
def test_bytes_of_both_models(counted):
    """Width 64, two heads, in fp16: per position a Transformer holds scores and weights and seven times the width; a
    Linformer of small k no more than in its feed-forward, ten times the width."""
    for n in (256, 512):
        transformer = counted.find("bytes_per_sentence", model="transformer", n=n).value
        linformer = counted.find("bytes_per_sentence", model="linformer", n=n, k=64).value
        assert transformer == pytest.approx(2 * n * (2 * 2 * n + 7 * 64), rel=0.02)
        assert linformer == pytest.approx(2 * n * 10 * 64, rel=0.02)
        # With k = 128 its scores and weights, seven times the width, and about four times more.
        larger = counted.find("bytes_per_sentence", model="linformer", n=n, k=128).value
        assert larger == pytest.approx(2 * n * 11 * 64, rel=0.05)
        ratio = counted.find("bytes_ratio", n=n, k=64)
        assert ratio.value == pytest.approx(transformer / linformer, rel=1e-3) and ratio.baseline == "eager"


def test_batches_fill_the_memory(counted):
    for m in counted.select("largest_batch"):
        used = m.value * counted.find("bytes_per_sentence", model=m.model, n=m.n, k=m.k).value
        assert used == pytest.approx(16 * 2**30, rel=0.01)
    theirs, ours = (
        counted.find("largest_batch", model=model, n=512, k=k).value
        for model, k in (("transformer", None), ("linformer", 128))
    )
    assert counted.find("batch_ratio", n=512, k=128).value == pytest.approx(ours / theirs, rel=1e-3)


def test_record_and_sizes(counted):
    assert (counted.identifier, counted.made_by, set(counted.tolerance.values())) == ("memory-smoke", "reproduce", {0})
    for said in ("2 layers of 64", "fp16", "16 GiB", "materialized", "chunks"):
        assert said in counted.configuration["conditions"]
    lengths, dims, shape = memory.SIZES["cpu"]
    assert list(lengths) == list(paper.TABLE_3_MEMORY) and dims == paper.TABLE_3_DIMENSIONS
    assert shape == {"layers": 12, "embed_dim": 768, "heads": 12} and memory.DTYPE == "fp16"
    assert "fp16" in claims()["table-3-memory"].rule


@pytest.mark.slow
def test_the_committed_record_is_counted_again(monkeypatch):
    """At the shortest and the longest n, and one k; all cells take a minute."""
    lengths, dims, shape = memory.SIZES["cpu"]
    monkeypatch.setitem(memory.SIZES, "cpu", ((lengths[0], lengths[-1]), dims[:1], shape))
    committed = {m.key: m.value for m in read(RESULTS / "memory-cpu.json").measurements}
    counted = {m.key: m.value for m in memory.count_batches("cpu")}
    assert len(counted) > 6 and counted == {place: committed[place] for place in counted}
