"""The options of trained runs in a record: complete, packed, and compared when it is verified."""
# ruff: noqa: F811 (fixtures are imported)

import pytest

from fairseq_linformer.launching.training_job import TrainingJob
from fairseq_linformer.reproduction import run_folders
from fairseq_linformer.reproduction import runs as runs_module
from fairseq_linformer.reproduction import verify as verification
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import put
from fairseq_linformer.reproduction.records import TRAINING
from fairseq_linformer.reproduction.training_options import (
    check_same_training,
    describe_missing_options,
    pack,
    training_options,
    unpack,
)

from .sample_records import record
from .trainer import finished_runs, measure, runs, scores, text, trainer, warm_start  # noqa: F401

SHARED = {"model.dropout": 0.0, "optimizer.adam_betas": "(0.9, 0.98)", "model.start": None}
RUNS = {"roberta": {**SHARED, "model._name": "roberta"}, "k=4": {**SHARED, "model.projected_dim": 4}}


def with_options(options):
    return record(configuration={"n": 4, TRAINING: pack(options)})


def test_packing():
    packed = pack(RUNS)
    assert packed == {
        "shared": SHARED,
        "runs": {"roberta": {"model._name": "roberta"}, "k=4": {"model.projected_dim": 4}},
    }
    assert unpack(packed) == RUNS
    assert unpack(pack({"one": {"a": 1}})) == {"one": {"a": 1}}
    assert pack({"one": {"a": 1}, "two": {"a": None}})["shared"] == {}


def test_the_same_options():
    check_same_training(with_options(RUNS), pack(RUNS))
    more = {run: {**options, "model.new": 1} for run, options in RUNS.items()}
    check_same_training(with_options(RUNS), pack({**more, "k=8": SHARED}))  # the record is older than they are
    check_same_training(record(), pack(RUNS))
    check_same_training(record(), None)


@pytest.mark.parametrize("name", [*SHARED, "model.projected_dim"])
def test_a_changed_option_is_named(name):
    now = {run: {**options, **({name: 0.25} if name in options else {})} for run, options in RUNS.items()}
    with pytest.raises(ValueError, match=f"thing.*{name} of .* and is 0.25.*abc"):
        check_same_training(with_options(RUNS), pack(now))


@pytest.mark.parametrize(
    "now, named",
    [
        (None, "model.dropout of roberta was 0.0 and is None"),
        (pack({"roberta": RUNS["roberta"]}), "of k=4 was"),
        (pack({**RUNS, "k=4": SHARED}), "model.projected_dim of k=4 was 4 and is None"),
    ],
)
def test_a_run_or_an_option_that_is_gone_is_named(now, named):
    with pytest.raises(ValueError, match=named):
        check_same_training(with_options(RUNS), now)


def test_all_that_a_training_depends_on_is_recorded():
    job = TrainingJob(str(runs_module.CONFIG), ("task.data=there", "common.seed=3"), 1, "cpu", "runs", "one")
    options = training_options(job.requested_cfg)
    expected = {
        "model.dropout": 0.1,
        "model.attention_dropout": 0.1,
        "model.encoder_normalize_before": False,
        "optimization.clip_norm": 0.0,
        "optimizer.adam_betas": "(0.9, 0.98)",
        "optimizer.weight_decay": 0.01,
        "task.mask_prob": 0.15,
    }
    assert {name: options[name] for name in expected} == expected
    named = {"optimization.lr", "optimization.max_update", "optimization.update_freq", "lr_scheduler.warmup_updates"}
    named |= {"dataset.batch_size", "task.tokens_per_sample", "model.projection_init", "common.fp16", "criterion._name"}
    assert named <= set(options)
    assert not {"task.data", "common.seed", "common.log_interval", "dataset.num_workers"} & set(options)


def test_a_record_has_the_options_of_each_run(measure):
    found = unpack(measure().configuration[TRAINING])
    assert {name.rpartition("-")[2] for name in found} == {"scratch", "continued", "converted"}
    for options in found.values():
        assert (options["model.encoder_normalize_before"], options["optimization.clip_norm"]) == (True, 1.0)
        assert options["model.dropout"] == options["model.attention_dropout"] == 0.0


@pytest.fixture
def changed_dropout(monkeypatch):
    """Today's runs have another dropout."""
    monkeypatch.setattr(run_folders, "training_options", lambda cfg: {**training_options(cfg), "model.dropout": 0.25})
    run_folders._options.cache_clear()
    yield
    run_folders._options.cache_clear()


@pytest.fixture
def same_numbers(monkeypatch):
    """Only options differ: the trainer's checkpoints do not have the perplexities of its logs."""
    monkeypatch.setattr(verification, "differences", lambda before, again: [])


@pytest.mark.slow
def test_verifying_notices_a_changed_option(measure, runs, text, same_numbers, tmp_path, request):
    name = put(measure(), tmp_path).stem
    assert "not compared" not in verification.verify(name, tmp_path, Inputs(runs, text))
    request.getfixturevalue("changed_dropout")
    with pytest.raises(ValueError, match="model.dropout of .* was 0.0 and is 0.25"):
        verification.verify(name, tmp_path, Inputs(runs, text))


@pytest.mark.slow
def test_a_record_without_options_can_be_verified_and_says_so(measure, runs, text, same_numbers, tmp_path):
    new = measure()
    old = new.copy_with(configuration={name: v for name, v in new.configuration.items() if name != TRAINING})
    put(old, tmp_path)
    assert "dropout and clip_norm, which were not compared" in verification.verify(
        old.identifier, tmp_path, Inputs(runs, text)
    )
    assert put(new, tmp_path).exists()  # the same measurement
    assert (
        describe_missing_options(old, new)
        and not describe_missing_options(new, new)
        and not describe_missing_options(old, old)
    )
