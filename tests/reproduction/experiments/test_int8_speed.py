"""Speed of int8 graphs: measured on tiny models, and the rule from both sides."""

import pytest

pytest.importorskip("transformers")

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import document_models as models
from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.experiments.int8_speed import LIMIT_N, MIN_RATIO, NAME, PAIRS, RATE, RATIO, SIZES
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..sample_records import record


@pytest.mark.slow
@pytest.mark.long
def test_record(tmp_path):
    for package in ("onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    main(["reproduce", NAME, "--scale", "smoke", "--results", str(tmp_path)])
    measured = ledger.read(tmp_path / f"{NAME}-smoke.json")
    names = {name for model, others in PAIRS for name in (model, *others)}
    assert {m.model for m in measured.select(RATE)} == names and len(names) == 6
    for m in measured.select(RATIO):
        (rate,), (baseline,) = (measured.select(RATE, model=name) for name in (m.model, m.baseline))
        assert m.low <= m.value <= m.high and m.repetitions == SIZES["smoke"]["rounds"]
        assert rate.low / baseline.high <= m.high * 1.001 and m.low <= 1.001 * rate.high / baseline.low
    (table,) = find(NAME).tables([measured])
    assert [row[0] for row in table.rows] == [name for model, others in PAIRS for name in (*others, model)]


def synthetic(lows=None):
    """A record at the limit of the rule, but with other lowest ratios by (model, baseline); None for not measured."""
    limits = {(model, other): MIN_RATIO for model, others in PAIRS for other in others} | (lows or {})
    measurements = [
        Measurement(
            metric=RATIO,
            model=model,
            baseline=other,
            n=LIMIT_N,
            value=low + 1,
            unit="ratio of times",
            interval=(low, low + 2),
            repetitions=9,
        )
        for (model, other), low in limits.items()
        if low is not None
    ]
    return record(
        identifier=f"{NAME}-cpu",
        experiment=NAME,
        measurements=measurements,
        commit="0" * 40,
        configuration={"sizes": SIZES["cpu"]},
    )


@pytest.mark.parametrize("pair", [(model, other) for model, others in PAIRS for other in others])
def test_rule(pair):
    (claim,) = find(NAME).claims
    assert claim.evaluate([synthetic()], "cpu").outcome == HOLDS
    assert claim.evaluate([synthetic({pair: MIN_RATIO - 0.01})], "cpu").outcome == FAILS
    assert claim.evaluate([synthetic({pair: None})], "cpu").outcome == UNDECIDED
    assert claim.evaluate([], "cpu").outcome == UNMEASURED


def test_pairs():
    """Each int8 model is compared with the same one in single precision."""
    assert PAIRS == (
        ("Linformer, int8", (models.LINFORMER, "Linformer, ONNX")),
        ("Linformer, local window, int8", ("Linformer, local window", "Linformer, local window, ONNX")),
    )
