"""What a Linformer keeps by tokens of distillation: measured on a tiny encoder, and the rules from both sides."""

import random

import pytest

pytest.importorskip("transformers")

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.experiments.distillation import METRIC, NAME, SIZES, UNIT, identifier, points
from fairseq_linformer.reproduction.records import Curve, Measurement, Paper, Record
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ...checkpoints.encoders import save_encoder
from ...forked_worker import quick_workers  # noqa: F401


@pytest.mark.slow
@pytest.mark.long
def test_record(tmp_path):
    encoder = save_encoder(tmp_path / "tiny-bert", "bert", False)
    words = "the lowest tide was new newer slowly and told".split()
    lines = (" ".join(random.Random(i).choices(words, k=22)) for i in range(200))
    (tmp_path / "train.txt").write_text("\n\n".join(lines))
    text = ["--source", str(tmp_path / "train.txt"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", str(tmp_path / "bin"), *text, "--wordpiece", str(encoder / "tokenizer.json")])
    inputs = ["--encoder", str(encoder), "--data", str(tmp_path / "bin"), "--runs", str(tmp_path / "runs")]
    results = tmp_path / "results"
    results.mkdir()
    main(["reproduce", NAME, "--scale", "smoke", *inputs, "--results", str(results)])
    models = SIZES["smoke"].models
    records = ledger.read_folder(results)
    assert {r.identifier for r in records} == {identifier("smoke", model) for model in models}
    for record in records:
        assert [curve.layer for curve in record.curves] == [1, 2] and record.commit and record.seconds > 0
        for curve, m in zip(record.curves, record.select(METRIC)):
            assert [tokens for tokens, _ in curve.points] == [0, 128, 256, 512] and curve.points[-1][1] == m.value
    (table,) = find(NAME).tables(records)
    assert [row[:3] for row in table.rows] == [["32", "1", "4"], ["32", "8", "4"]] and "not measured" not in str(table)
    assert len(find(NAME).charts(records)[0].series) == 2


def synthetic(shares):
    """A record per model with ``shares(model)`` in the last layer."""
    records = []
    for model in SIZES["encoder"].models:
        line = [(1e6 * i, share) for i, share in enumerate(shares(model))]
        records.append(
            Record(
                identifier=identifier("encoder", model),
                experiment=NAME,
                made_by="reproduce",
                claim="share",
                paper=Paper(where="not in the paper"),
                measurements=[Measurement(metric=METRIC, value=line[-1][1], unit=UNIT, layer=2)],
                curves=[Curve(metric=METRIC, points=[(0.0, 1.0)], layer=1), Curve(metric=METRIC, points=line, layer=2)],
                commit="0" * 40,
                configuration={"n": 1},
                seconds=1.0,
                hardware={"cpu": "x"},
                versions={"torch": "2"},
                date="2026-11-24",
                scale="encoder",
                data="text",
                command="reproduce",
            )
        )
    return records


def good(model):
    return [0.5, 0.7, 0.8, 0.85 if model.k == 1 else 0.9]


def change(n, k, window, shares):
    return lambda model: shares if (model.n, model.k, model.local_window) == (n, k, window) else good(model)


@pytest.mark.parametrize(
    "part, changed",
    [
        ("tokens", change(128, 64, 0, [0.5, 0.7, 0.7, 0.9])),
        ("quarter", change(512, 128, 4, [0.5, 0.7, 0.8, 0.899])),
        ("projections", change(128, 16, 4, [0.5, 0.7, 0.8, 0.85])),
    ],
)
def test_rules(part, changed):
    (claim,) = (each for each in find(NAME).claims if each.identifier == f"{NAME}-{part}")
    records = synthetic(good)
    assert claim.evaluate(records, "encoder").outcome == HOLDS
    assert claim.evaluate(synthetic(changed), "encoder").outcome == FAILS
    without = [
        r for r in records if r.identifier not in (identifier("encoder", m) for m in SIZES["encoder"].models[:1])
    ]
    assert claim.evaluate(without, "encoder").outcome == UNDECIDED
    assert claim.evaluate([], "encoder").outcome == UNMEASURED
    failing = synthetic(lambda model: [0.5, 0.4, 0.3, 0.2])
    assert claim.evaluate(failing, "encoder").outcome == FAILS
    some = [failed for failed in failing if failed.identifier in {record.identifier for record in without}]
    assert claim.evaluate(some, "encoder").outcome == UNDECIDED


def test_points_are_those_of_the_last_layer():
    model = SIZES["encoder"].models[0]
    assert points(synthetic(good), model, "encoder")[0] == (0.0, 0.5) and points([], model, "encoder") is None
