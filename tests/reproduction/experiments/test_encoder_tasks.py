"""Tasks on an encoder and on distilled Linformers: measured on a tiny one, and the rules from both sides."""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import ledger, shared_work
from fairseq_linformer.reproduction.encoder_runs import Member, members
from fairseq_linformer.reproduction.experiments import int8
from fairseq_linformer.reproduction.experiments.encoder_tasks import CLAIMS, NAME, SIZES
from fairseq_linformer.reproduction.records import Measurement, Paper, Record
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.shared_work import LOCKS, lock
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ...forked_worker import quick_workers  # noqa: F401
from .tiny_encoder import write_inputs


@pytest.mark.slow
@pytest.mark.long
def test_distilled_and_finetuned(tmp_path, capsys, monkeypatch):
    """Next to another process that distills one model, then without it; exported for the experiment ``int8``."""
    inputs, results = write_inputs(tmp_path), tmp_path / "results"
    results.mkdir()
    command, runs = ["reproduce", NAME, *inputs, "--results", str(results)], Path(inputs[-1]) / "smoke"
    with lock(runs / LOCKS / "distill-k1-headwise-w4-graded"), monkeypatch.context() as patch:
        # The budget is spent while this process waits for the other one.
        patch.setattr(shared_work.time, "sleep", lambda _: patch.setattr(shared_work, "is_past", lambda _: True))
        main(command)
    assert "2 of 6 runs are left" in capsys.readouterr().out
    finished = ["imdb-k8-headwise-w4-graded", "imdb-k8-headwise-w4-graded-n64", "imdb-transformer"]
    assert {path.stem for path in results.glob("*.json")} == {f"{NAME}-{name}-smoke" for name in finished}
    main(command)
    records = ledger.read_folder(results)
    assert {r.identifier for r in records} == {f"{NAME}-{member.name}-smoke" for member in members(SIZES["smoke"])}
    resized = ledger.read(results / f"{NAME}-imdb-k8-headwise-w4-graded-n64-smoke.json")
    assert resized.configuration["model"]["max_positions"] == 64
    assert resized.configuration["survival"]["options"]["model"]["local_window"] == 4
    (table, longer) = find(NAME).tables(records)
    assert [row[0] for row in table.rows] == ["Transformer", "k = 8, W = 4, headwise", "k = 1, W = 4, headwise"]
    assert len(longer.rows) == 1
    if all(map(find_spec, ("onnxruntime", "onnxscript"))):
        check_int8(inputs, results)


def check_int8(inputs, results):
    """The record of the finished runs' exports."""
    main(["reproduce", "int8", *inputs, "--results", str(results)])
    measured = ledger.read(results / "int8-imdb-k8-headwise-w4-graded-smoke.json")
    assert measured.experiment == "int8"
    accuracy = {m.model: m.value for m in measured.select(int8.ACCURACY)}
    assert accuracy.keys() == {int8.PYTORCH, int8.ONNX, int8.INT8} and accuracy[int8.PYTORCH] == accuracy[int8.ONNX]
    assert measured.find(int8.LOST).value == pytest.approx(accuracy[int8.PYTORCH] - accuracy[int8.INT8])
    onnx, rounded = (measured.find(int8.LOGITS, model=model).value for model in (int8.ONNX, int8.INT8))
    assert 0 < onnx < 1e-4 < rounded and 0.2 < measured.find(int8.SIZE).value < 1
    (table,) = find("int8").tables([measured])
    assert [len(row) for row in table.rows] == [len(table.head)]


def accuracies(values, seeds=3):
    """Records of every member, with the accuracy ``values(member)`` (90 if None) and a range of 0.2 points."""
    records = []
    for member in members(SIZES["encoder"]):
        value = values(member) or 90.0
        interval = (value - 0.1, value + 0.1) if seeds > 1 else None
        accuracy = Measurement(
            metric="accuracy", value=value, unit="%", interval=interval, repetitions=seeds, split="valid"
        )
        records.append(
            Record(
                identifier=f"{NAME}-{member.name}-encoder",
                experiment=NAME,
                made_by="reproduce",
                claim="accuracy",
                paper=Paper(where="Table 2"),
                measurements=[accuracy],
                commit="0" * 40,
                configuration={
                    "n": 512,
                    "encoder": {"sha256": "1" * 64},
                    "model": {"max_positions": member.n, "pretraining": {"sha256": member.model.name}},
                    "distilled": member.model.describe(),
                },
                seconds=1.0,
                hardware={"cpu": "x"},
                versions={"torch": "2"},
                date="2026-11-24",
                scale="encoder",
                data="rows",
                command="reproduce",
            )
        )
    return records


ENCODER = SIZES["encoder"]
# k = n / 2 with key-value sharing, n / 4 headwise, and both models with a local window.
HALF, QUARTER, WINDOWED, CONTROL, STAGGERED = (ENCODER.models[i] for i in (5, 4, 1, 2, 9))


@pytest.mark.parametrize(
    "claim, model, task, holds, fails",
    [
        ("half", HALF, None, 89.11, 89.09),
        ("quarter", QUARTER, None, 88.21, 88.19),
        ("window", WINDOWED, None, 89.11, 89.09),
        ("window", WINDOWED, "sst-2", 89.01, 88.99),
        ("projections", CONTROL, "imdb", 89.79, 90.3),
        ("graded", STAGGERED, "qnli", 89.79, 90.3),
    ],
)
def test_rules(claim, model, task, holds, fails):
    rule = next(each for each in CLAIMS if each.identifier == f"{NAME}-{claim}")

    def outcome(value, **options):
        def of_member(member: Member):
            return value if member.model == model and task in (None, member.task) else None

        return rule.evaluate(accuracies(of_member, **options), "encoder").outcome

    assert outcome(holds) == HOLDS and outcome(fails) == FAILS
    assert outcome(holds, seeds=2) == UNDECIDED
    records = [r for r in accuracies(lambda member: None) if f"-{model.name}-" not in r.identifier]
    assert rule.evaluate(records, "encoder").outcome == UNDECIDED
    assert rule.evaluate([], "encoder").outcome == UNMEASURED


def test_nothing_is_decided_while_a_model_is_missing():
    rule = next(each for each in CLAIMS if each.identifier == f"{NAME}-half")
    records = accuracies(lambda member: 80 if member.model == HALF else None)
    assert rule.evaluate(records, "encoder").outcome == FAILS
    other = next(model for model in ENCODER.models if model.k == HALF.k and model != HALF)
    assert rule.evaluate([r for r in records if f"-{other.name}-" not in r.identifier], "encoder").outcome == UNDECIDED


def test_rules_use_no_resized_models():
    records = accuracies(lambda member: None)
    resized = {f"{NAME}-{member.name}-encoder" for member in members(ENCODER) if member.is_resized}
    for claim in CLAIMS:
        used = set(claim.verdict(records, "encoder").records)
        assert resized and used == {record.identifier for record in records} - resized


@pytest.mark.parametrize("changed", ["encoder", "model"])
def test_means_need_one_encoder_and_one_distillation(changed):
    records = accuracies(lambda member: None)
    name = f"{NAME}-{Member('imdb', QUARTER, ENCODER.n).name}-encoder"
    configuration = next(record.configuration for record in records if record.identifier == name)
    (configuration["encoder"] if changed == "encoder" else configuration["model"]["pretraining"])["sha256"] = "2" * 64
    rule = next(each for each in CLAIMS if each.identifier == f"{NAME}-quarter")
    assert rule.evaluate(records, "encoder").outcome == UNDECIDED
