"""Speed of a converted encoder: measured on a tiny one, and the rule from both sides."""

import pytest

pytest.importorskip("transformers")

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.experiments.encoder_speed import LINFORMER, MODELS, NAME, RATE, RATIO, WINDOWED
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNMEASURED

from ...checkpoints.encoders import save_encoder
from ..sample_records import record


def test_record(tmp_path):
    """All models run at n below and above the encoder's 32 positions, BERT's and RoBERTa's."""
    for family in ("bert", "roberta"):
        encoder = save_encoder(tmp_path / family, family, False)
        results = tmp_path / f"results-{family}"
        results.mkdir()
        main(["reproduce", NAME, "--scale", "smoke", "--encoder", str(encoder), "--results", str(results)])
        record = ledger.read(results / f"{NAME}-smoke.json")
        assert [m.n for m in record.select(RATE)] == [16] * len(MODELS) + [64] * len(MODELS)
        assert all(m.value > 0 for m in record.measurements) and record.configuration["clock"] == "processor"
        (table,) = find(NAME).tables([record])
        assert [row[0] for row in table.rows] == ["16", "64"] and "x, " in table.rows[1][-1]
        assert len(find(NAME).charts([record])[0].series) == len(MODELS)


def synthetic(low):
    """A record with ``low(model, n)`` as the lowest ratio of the rounds."""
    measurements = [
        Measurement(
            metric=RATIO,
            value=low(model, n) + 0.5,
            unit="ratio of times",
            interval=(low(model, n), low(model, n) + 1),
            repetitions=7,
            model=model,
            n=n,
        )
        for model in (LINFORMER, WINDOWED)
        for n in (32, 512, 1024, 4096)
    ]
    return record(
        identifier=f"{NAME}-encoder",
        experiment=NAME,
        measurements=measurements,
        commit="0" * 40,
        configuration={"n": 1},
        scale="encoder",
    )


def good(model, n):
    """Slower on short inputs, which does not matter."""
    return 1.1 if n >= (512 if model == LINFORMER else 1024) else 0.5


@pytest.mark.parametrize("model, n", [(LINFORMER, 512), (WINDOWED, 1024), (WINDOWED, 4096)])
def test_rule(model, n):
    (claim,) = find(NAME).claims
    assert claim.evaluate([synthetic(good)], "encoder").outcome == HOLDS
    slow = synthetic(lambda *at: 1.0 if at == (model, n) else good(*at))
    assert claim.evaluate([slow], "encoder").outcome == FAILS
    assert claim.evaluate([], "encoder").outcome == UNMEASURED
