"""The options of trained runs in a record: complete and packed."""
# ruff: noqa: F811 (fixtures are imported)

from fairseq_linformer.launching.training_job import TrainingJob
from fairseq_linformer.reproduction import runs as runs_module
from fairseq_linformer.reproduction.records import TRAINING
from fairseq_linformer.reproduction.training_options import pack, training_options, unpack

from .trainer import finished_runs, measure, runs, scores, text, trainer, warm_start  # noqa: F401

SHARED = {"model.dropout": 0.0, "optimizer.adam_betas": "(0.9, 0.98)", "model.start": None}
RUNS = {"roberta": {**SHARED, "model._name": "roberta"}, "k=4": {**SHARED, "model.projected_dim": 4}}


def test_packing():
    packed = pack(RUNS)
    assert packed == {
        "shared": SHARED,
        "runs": {"roberta": {"model._name": "roberta"}, "k=4": {"model.projected_dim": 4}},
    }
    assert unpack(packed) == RUNS
    assert unpack(pack({"one": {"a": 1}})) == {"one": {"a": 1}}
    assert pack({"one": {"a": 1}, "two": {"a": None}})["shared"] == {}


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
