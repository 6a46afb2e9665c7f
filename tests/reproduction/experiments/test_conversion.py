"""Conversion without training: the rule, and a real run at the smoke scale."""
# ruff: noqa: F811 (fixtures are imported)

import json
import math

import pytest

from fairseq_linformer.reproduction.experiments.conversion import CONVERTED
from fairseq_linformer.reproduction.experiments.local_window import label
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import read
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ...forked_worker import quick_workers  # noqa: F401
from ..evidence import outcome, three, trained
from ..trainer import text  # noqa: F401

QUARTER = label(16, 16)


@pytest.mark.parametrize("name, limit", [("conversion", 1.05), ("conversion-long", 1.15)])
def test_a_quarter_is_near_roberta(name, limit):
    for ratio, expected in ((limit * 0.9999, HOLDS), (limit * 1.0001, FAILS)):
        bits = {"roberta": three(4.8), QUARTER: three(4.8 + math.log2(ratio))}
        assert outcome(name, trained(name, bits)) == expected
    assert outcome(name, trained(name, {"roberta": three(4.8)})) == UNDECIDED


@pytest.mark.parametrize("roberta, quarter, expected", [(5.8, 5.81, HOLDS), (5.81, 5.82, UNDECIDED)])
def test_roberta_has_learned(roberta, quarter, expected):
    assert (
        outcome("conversion", trained("conversion", {"roberta": three(roberta), QUARTER: three(quarter)})) == expected
    )


@pytest.mark.slow
@pytest.mark.long
def test_converted_models_are_scored_and_not_trained(text, tmp_path):
    """Stopped and resumed. k = n is RoBERTa itself; a result that was edited is rejected."""
    (tmp_path / "ledger").mkdir()
    for minutes in (1e-4, 1e-4, None):
        inputs = Inputs(tmp_path / "runs", text, minutes=minutes)
        report = find("conversion").reproduce("smoke", inputs, tmp_path / "ledger", "the command")
        assert ("rerun the command to resume" in report) == (minutes is not None)
    record = read(tmp_path / "ledger" / "conversion-smoke.json")
    bits = {m.model: m.value for m in record.select("bits", seed=1)}
    assert set(bits) == {"roberta", *(label(k, local_window) for k in (1, 2, 4, 8, 16) for local_window in (0, 4))}
    for local_window in (0, 4):
        assert bits[label(16, local_window)] == pytest.approx(bits["roberta"], abs=1e-5)
    assert bits[label(1, 0)] != bits["roberta"]
    path = next((tmp_path / "runs").rglob(CONVERTED))
    stored = json.loads(path.read_text())
    stored["scores"][label(1, 0)]["bits"] = 1.0
    path.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=CONVERTED):
        find("conversion").reproduce("smoke", Inputs(tmp_path / "runs", text), tmp_path / "ledger", "the command")
