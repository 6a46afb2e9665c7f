"""Experiments that train: order, time budget, resuming, rejections and the record. Nothing is really trained here."""
# ruff: noqa: F811 (fixtures are imported)

from argparse import Namespace
from dataclasses import asdict, replace

import pytest

from fairseq_linformer.reproduction import context_free
from fairseq_linformer.reproduction.comparisons import record_name
from fairseq_linformer.reproduction.experiment import Unfinished
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.runs import Model, Run, fill_defaults
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.shared_work import LOCKS, lock
from fairseq_linformer.reproduction.text import describe_text
from fairseq_linformer.reproduction.training import TrainingExperiment

from .trainer import (  # noqa: F401
    CONTINUED,
    DATE,
    HARDWARE,
    ORDER,
    ROBERTA,
    VERSIONS,
    copied_text,
    finished_runs,
    measure,
    scores,
    text,
    trainer,
    two_shards,
    warm_start,
)

# The record


def test_the_record_says_all(measure, trainer, scores, text, warm_start):
    """Provenance is that of the runs and of what they started from."""
    trainer.commits = {"roberta-n16-continued": "one", "converted": "two", "linformer": "three"}
    record = measure()
    assert trainer.trained == ORDER
    assert (record.identifier, record.experiment, record.made_by, record.scale) == (
        "warm-start-smoke-plan2",
        "warm-start",
        "reproduce",
        "smoke",
    )
    assert record.commit == "abc; one; two; three"
    assert (record.hardware, record.versions, record.date) == (HARDWARE, VERSIONS, DATE)
    assert record.data == describe_text(text) and record.command == "the command"
    assert record.seconds == 50.0  # five runs of ten
    assert record.tolerance == {"perplexity": 0.01, "bits": 0.01}
    assert record.claim == warm_start.claims[0].statement and record.paper.where == warm_start.claims[0].where
    c = record.configuration
    assert c["sizes"] == {
        "layers": 1,
        "width": 16,
        "heads": 2,
        "tokens": 128,
        "lr": 1e-3,
        "warmup": 2,
        "validate": 2,
        "precision": "fp32",
    }
    assert (c["seeds"], c["n"]) == ([1], 16) and "seed 1" in c["masks"]
    assert c["commits"] == {"roberta": "one", "converted": "two", "from scratch": "three"}
    assert {model: run["made"] for model, run in c["runs"].items()} == {
        "roberta": "continued",
        "converted": "converted",
        "from scratch": "continued",
    }
    assert c["runs"]["from scratch"]["from"]["made"] == "scratch" and c["runs"]["converted"]["from"]["model"] == {
        "n": 16
    }


def test_measurements(measure, scores, monkeypatch, text):
    scores.bits = {CONTINUED: 2.0, "converted": 2.5}
    levels = []
    monkeypatch.setattr(
        context_free, "measure", lambda folder, n: levels.append((folder, n)) or Namespace(masked_bits=7.5)
    )
    record = measure()
    assert [path.parts[-4:-2] for path in scores.scored] == [
        tuple(name.split("/")) for name in (ORDER[1], ORDER[2], ORDER[4])
    ]
    at = {"n": 16, "k": 8, "sharing": "headwise"}
    for model, bits, where in (
        ("roberta", 2.0, {"n": 16, "k": None, "sharing": None}),
        ("converted", 2.5, at),
        ("from scratch", 3.0, at),
    ):
        (perplexity,) = record.select("perplexity", model=model)
        assert (perplexity.value, perplexity.unit, perplexity.repetitions) == (
            pytest.approx(2**bits, rel=1e-5),
            "perplexity",
            1,
        )
        assert [(m.value, m.seed, m.unit) for m in record.select("bits", model=model)] == [
            (bits, None, "bits"),
            (bits, 1, "bits"),
        ]
        assert all(getattr(perplexity, name) == value for name, value in where.items())
    (level,) = record.select("context_free_bits")
    assert (level.value, level.n, level.unit, levels) == (7.5, 16, "bits", [(text / "shard0", 16)])
    assert [(c.model, c.seed, c.metric, c.points) for c in record.curves] == [
        (model, 1, "bits", [(2.0, 8.8), (4.0, 8.6)]) for model in ("roberta", "converted", "from scratch")
    ]


def test_three_seeds(measure, scores, trainer, monkeypatch):
    """Nine compared runs; the median and the extremes of three."""
    monkeypatch.setitem(SCALES, "smoke", replace(SCALES["smoke"], seeds=(1, 2, 3)))
    scores.bits = {f"converted/seed{seed}": bits for seed, bits in ((1, 4.0), (2, 1.0), (3, 2.0))}
    record = measure()
    assert len(trainer.trained) == len({*trainer.trained}) == 15 and trainer.trained[:5] == ORDER
    bits = record.find("bits", model="converted", seed=None)
    assert (bits.value, bits.interval, bits.repetitions) == (2.0, (1.0, 4.0), 3)
    perplexity = record.find("perplexity", model="converted")
    assert (perplexity.value, perplexity.interval, perplexity.repetitions) == (4.0, (2.0, 16.0), 3)
    assert [(m.seed, m.value) for m in record.select("bits", model="converted")[1:]] == [(1, 4.0), (2, 1.0), (3, 2.0)]
    assert [c.seed for c in record.curves if c.model == "converted"] == [1, 2, 3]
    assert record.configuration["seeds"] == [1, 2, 3] and record.seconds == 150.0


def test_commits_are_those_of_every_seed(measure, scores, trainer, monkeypatch):
    """The second seed of one model was trained with other code."""
    monkeypatch.setitem(SCALES, "smoke", replace(SCALES["smoke"], seeds=(1, 2, 3)))
    trainer.commits = {"converted/seed2": "def"}
    commits = measure().configuration["commits"]
    assert commits == {"roberta": "abc", "converted": "abc; def", "from scratch": "abc"}


def test_the_level_is_of_the_split_that_models_are_scored_on(measure, scores, monkeypatch, two_shards):
    folders = []
    monkeypatch.setattr(context_free, "measure", lambda folder, n: folders.append(folder) or Namespace(masked_bits=7.5))
    measure(text=two_shards)
    assert folders == [two_shards / "shard0"]


def test_every_length_has_its_level(trainer, scores, text, tmp_path):
    (record,) = find("figure-3d").measure("smoke", Inputs(tmp_path / "runs", text), "c")
    levels = record.select("context_free_bits")
    assert [m.n for m in levels] == [16, 32] and levels[0].value < levels[1].value
    assert {m.model: (m.n, m.k) for m in record.select("perplexity")} == {
        "roberta": (16, None),
        "n=16": (16, 8),
        "roberta n=32": (32, None),
        "n=32": (32, 8),
        "n=16, authors' start": (16, 8),
        "n=32, authors' start": (32, 8),
    }


def test_measured_twice_is_the_same(measure, trainer, scores):
    first = measure()
    assert measure() == first and len(trainer.trained) == 5 and len(scores.scored) == 3


def test_a_curve_that_is_cut_short(measure, tmp_path):
    measure()
    (tmp_path / f"runs/smoke/{CONTINUED}/logs/reproduce.txt").write_text("")
    with pytest.raises(ValueError, match=f"{CONTINUED} .*curve"):
        measure()


# The time budget


@pytest.mark.parametrize("minutes, done", [(0.5, 3), (1 / 3, 2), (0.34, 3), (1e-6, 1)])
def test_no_run_begins_after_the_time_budget(measure, trainer, minutes, done):
    """Runs take 10 seconds; one always begins, and a rerun resumes."""
    trainer.notices = False
    with pytest.raises(Unfinished) as left:
        measure(minutes)
    assert trainer.trained == ORDER[:done]
    assert f"{5 - done} of 5 runs" in str(left.value) and ORDER[done] in str(left.value)
    measure()
    assert trainer.trained == ORDER


def test_a_run_is_stopped_in_time(measure, trainer, tmp_path):
    with pytest.raises(Unfinished, match=f"5 of 5 runs.*{ROBERTA}"):
        measure(0.0)
    assert trainer.trained == [ROBERTA] and (tmp_path / f"runs/smoke/{ROBERTA}/stopped").exists()
    with pytest.raises(Unfinished, match=f"4 of 5 runs.*{CONTINUED}"):
        measure(0.01)
    assert trainer.trained == [ROBERTA, ROBERTA]


def test_processes_share_the_runs(measure, trainer, tmp_path):
    """Another process is training the converted model; this one trains the rest and leaves that one to it."""
    with lock(tmp_path / "runs/smoke" / LOCKS / ORDER[2]), pytest.raises(Unfinished, match=f"1 of 5 runs.*{ORDER[2]}"):
        measure()
    assert trainer.trained == [*ORDER[:2], *ORDER[3:]]
    measure()
    assert sorted(trainer.trained) == sorted(ORDER)


def test_a_large_budget_changes_nothing(measure, trainer):
    measure(1.0)  # 60 seconds; 50 are needed
    assert trainer.trained == ORDER


def test_scoring_stops_in_time(measure, trainer, scores, monkeypatch):
    """One model is always scored."""

    def slowly(*arguments, **options):
        trainer.now += 10
        return scores(*arguments, **options)

    monkeypatch.setattr("fairseq_linformer.reproduction.scoring.compute_perplexity", slowly)
    with pytest.raises(Unfinished, match="2 "):
        measure(55 / 60)
    assert len(scores.scored) == 1
    with pytest.raises(Unfinished, match="1 "):
        measure(0.0)
    measure()
    assert len(scores.scored) == 3


# Costs and rules


@pytest.fixture
def there(finished_runs):
    return finished_runs[1]


@pytest.mark.parametrize(
    "name, scale, numbers",
    [
        ("warm-start", "smoke", ("5 runs", "24 updates", "0.0 M tokens")),
        # by seed: 2,000 + 2 x 400 for the RoBERTa, 10 models of 500 updates of 2,048 tokens
        ("figure-3a", "cpu", ("39 runs", "23,400 updates", "47.9 M tokens")),
    ],
)
def test_cost(name, scale, numbers):
    assert tuple(find(name).cost(scale).split(", ")) == numbers


def test_paper_scale_is_slurms(warm_start):
    assert "Slurm" in find("figure-3a").cost("paper") and "paper" in find("figure-3a").scales
    assert warm_start.scales == ("smoke", "cpu", "gpu") and warm_start.paper_scale is None
    assert isinstance(warm_start, TrainingExperiment)


def test_a_record_of_an_earlier_plan_is_kept_and_shown(warm_start, there):
    """In its section while it is the newest of its scale; later as context. It is not compared with today's plan."""
    name = record_name("warm-start", "cpu", warm_start.plan_number)
    new = there.copy_with(identifier=name, scale="cpu")
    old = new.copy_with(identifier="warm-start-cpu", configuration={**new.configuration, "seeds": [1, 2]})
    elsewhere = old.copy_with(identifier="warm-start-gpu", scale="gpu")
    assert name == "warm-start-cpu-plan2"
    assert warm_start.shown([old], ["warm-start-cpu"]) == [old] and warm_start.select_earlier([old]) == []
    assert warm_start.shown([old, new, elsewhere], [name]) == [elsewhere, new]
    assert warm_start.select_earlier([old, new, elsewhere]) == [old]
    script = old.copy_with(identifier="a-script", made_by="script")
    assert warm_start.select_earlier([script, old, new]) == [script, old]


def test_the_plan_of_a_record_without_defaults():
    """Until 2026-11-23 a default start or rate was stored as None."""
    runs = {
        "staggered": Model(64, 16),
        "layerwise": Model(64, 16, "layerwise"),
        "conv": Model(64, 16, projection="conv"),
        "pool": Model(64, 16, projection="mean-pool"),
        "named": Model(64, 16, start="jl", rate=0.5),
        "roberta": Model(64),
    }
    for name, model in runs.items():
        run = Run(model, 1, "continued", 5, Run(model, 1, "scratch", 5)).plan()
        stored = {**run, "model": {**asdict(model)} if model.k else {"n": 64}}
        stored["from"] = {**run["from"], "model": stored["model"]}
        filled = fill_defaults(stored)
        described = {"staggered": "staggered", "layerwise": "average", "conv": "average", "named": "jl"}.get(name)
        assert filled["model"].get("start") == filled["from"]["model"].get("start") == described
        rate = {"staggered": 0.25, "layerwise": 0.25, "conv": 1.0, "named": 0.5}.get(name)
        assert filled["model"].get("rate") == rate
        assert fill_defaults(run) == run
