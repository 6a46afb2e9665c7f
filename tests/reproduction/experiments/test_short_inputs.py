"""What a converted encoder keeps by the length of the input: measured on a tiny one, and the rules from both sides."""

import pytest

pytest.importorskip("transformers")

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.converted_encoders import METRIC, UNIT
from fairseq_linformer.reproduction.experiments.short_inputs import CLAIMS, GRADED, NAME, SIZES, STARTS, label
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNMEASURED

from .tiny_encoder import write_encoder


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    folder = tmp_path_factory.mktemp("short")
    main(["reproduce", NAME, *write_encoder(folder), "--results", str(folder)])
    return ledger.read(folder / f"{NAME}-smoke.json")


@pytest.mark.slow
def test_record(record):
    sizes = SIZES["smoke"]
    shares = {(m.model, m.n, m.layer): m.value for m in record.select(METRIC)}
    assert len(shares) == 2 * len(sizes.local_windows) * len(sizes.lengths) * 2
    for window in sizes.local_windows:
        assert shares[label(GRADED, window), 4, 2] == 1
    (table,) = find(NAME).tables([record])
    assert [row[0] for row in table.rows] == ["4", "8", "16", "32"] and len(table.head) == 5
    (chart,) = find(NAME).charts([record])
    assert len(chart.series) == 4


def good(start, window, n):
    if start == GRADED:
        return 1.0 if n <= 64 else 0.9 if n < 512 else 0.65
    return 0.7


def synthetic(record, changed=None, share=None):
    """A record at scale ``encoder``, with ``share`` in the last layer at the place ``changed``."""
    sizes = SIZES["encoder"]
    measurements = [
        Measurement(metric=METRIC, value=value, unit=UNIT, model=label(start, window), n=n, k=sizes.k, layer=layer)
        for start in STARTS
        for window in sizes.local_windows
        for n in sizes.lengths
        for layer, value in ((1, 0.0), (2, share if (start, window, n) == changed else good(start, window, n)))
    ]
    return record.copy_with(measurements=measurements, scale="encoder", identifier=f"{NAME}-encoder")


@pytest.mark.parametrize(
    "name, changed, holds, fails",
    [
        ("exact", (GRADED, 16, 64), 0.9991, 0.998),
        ("graded", (GRADED, 0, 128), 0.71, 0.7),
        ("graded", (GRADED, 16, 512), 0.641, 0.639),
    ],
)
def test_rules(record, name, changed, holds, fails):
    claim = next(claim for claim in CLAIMS if claim.identifier == f"{NAME}-{name}")
    assert claim.evaluate([synthetic(record, changed, holds)], "encoder").outcome == HOLDS
    assert claim.evaluate([synthetic(record, changed, fails)], "encoder").outcome == FAILS
    assert claim.evaluate([synthetic(record)], "cpu").outcome == UNMEASURED
