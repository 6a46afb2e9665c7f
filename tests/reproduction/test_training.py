"""Experiments that train: order, time budget, resuming, refusals and the record. Nothing is really trained here."""

import json
import shutil
from argparse import Namespace
from dataclasses import replace

import pytest

from fairseq_linformer.reproduction import context_free
from fairseq_linformer.reproduction.registry import Inputs, Unfinished, find
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.statistics import UNDECIDED, UNMEASURED, Check
from fairseq_linformer.reproduction.text import described
from fairseq_linformer.reproduction.training import TrainingExperiment, comparison, how_measured

from .trainer import DATE, HARDWARE, VERSIONS, copied_text, finished_runs, runs, scores, text, trainer  # noqa: F401

ROBERTA, CONTINUED = "roberta-n16-scratch/seed1", "roberta-n16-continued/seed1"
LINFORMER = "linformer-n16-k8-headwise-average"
ORDER = [
    ROBERTA,
    CONTINUED,
    f"{LINFORMER}-converted/seed1",
    f"{LINFORMER}-scratch/seed1",
    f"{LINFORMER}-continued/seed1",
]


@pytest.fixture
def warm_start():
    return find("warm-start")


@pytest.fixture
def measure(trainer, scores, text, tmp_path, warm_start):  # noqa: F811
    """The record of warm-start in ``tmp_path / "runs"``."""

    def measure(minutes=None, text=text):
        (record,) = warm_start.measure("smoke", Inputs(tmp_path / "runs", text, minutes=minutes), "the command")
        return record

    return measure


# The record


def test_the_record_says_all(measure, trainer, scores, text, warm_start):  # noqa: F811
    """Provenance is that of the runs and of what they started from."""
    trainer.commits = {"roberta-n16-continued": "one", "converted": "two", "linformer": "three"}
    record = measure()
    assert trainer.trained == ORDER
    assert (record.identifier, record.experiment, record.made_by, record.scale) == (
        "warm-start-smoke",
        "warm-start",
        "reproduce",
        "smoke",
    )
    assert record.commit == "abc; one; two; three"
    assert (record.hardware, record.versions, record.date) == (HARDWARE, VERSIONS, DATE)
    assert record.data == described(text) and record.command == "the command"
    assert record.seconds == 50.0  # five runs of ten
    assert record.tolerance == {"perplexity": 0.01, "bits": 0.01}
    assert record.rules == {claim.identifier: claim.rule for claim in warm_start.claims}
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


def test_measurements(measure, scores, monkeypatch, text):  # noqa: F811
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


def test_three_seeds(measure, scores, trainer, monkeypatch):  # noqa: F811
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


def test_every_length_has_its_level(trainer, scores, text, tmp_path):  # noqa: F811
    (record,) = find("figure-3d").measure("smoke", Inputs(tmp_path / "runs", text), "c")
    levels = record.select("context_free_bits")
    assert [m.n for m in levels] == [16, 32] and levels[0].value < levels[1].value
    assert {m.model: (m.n, m.k) for m in record.select("perplexity")} == {
        "roberta": (16, None),
        "n=16": (16, 8),
        "roberta n=32": (32, None),
        "n=32": (32, 8),
    }


def test_measured_twice_is_the_same(measure, trainer, scores):  # noqa: F811
    first = measure()
    assert measure() == first and len(trainer.trained) == 5 and len(scores.scored) == 3


def test_a_curve_that_is_cut_short(measure, tmp_path):
    measure()
    (tmp_path / f"runs/smoke/{CONTINUED}/logs/reproduce.txt").write_text("")
    with pytest.raises(ValueError, match=f"{CONTINUED} .*curve"):
        measure()


# The time budget


@pytest.mark.parametrize("minutes, done", [(0.5, 3), (1 / 3, 2), (0.34, 3), (1e-6, 1)])
def test_no_run_begins_after_the_time_budget(measure, trainer, minutes, done):  # noqa: F811
    """Runs take 10 seconds; one always begins, and a rerun resumes."""
    trainer.notices = False
    with pytest.raises(Unfinished) as left:
        measure(minutes)
    assert trainer.trained == ORDER[:done]
    assert f"{5 - done} runs" in str(left.value) and ORDER[done] in str(left.value)
    assert f"{sum((6, 4, 4, 6, 4)[done:])} updates" in str(left.value)
    measure()
    assert trainer.trained == ORDER


def test_a_run_is_stopped_in_time(measure, trainer, tmp_path):  # noqa: F811
    with pytest.raises(Unfinished, match=f"5 runs.*{ROBERTA}"):
        measure(0.0)
    assert trainer.trained == [ROBERTA] and (tmp_path / f"runs/smoke/{ROBERTA}/stopped").exists()
    with pytest.raises(Unfinished, match=f"4 runs.*{CONTINUED}"):
        measure(0.01)
    assert trainer.trained == [ROBERTA, ROBERTA]


def test_a_large_budget_changes_nothing(measure, trainer):  # noqa: F811
    measure(1.0)  # 60 seconds; 50 are needed
    assert trainer.trained == ORDER


def test_scoring_stops_in_time(measure, trainer, scores, monkeypatch):  # noqa: F811
    """One model is always scored."""

    def slowly(*arguments, **options):
        trainer.now += 10
        return scores(*arguments, **options)

    monkeypatch.setattr("fairseq_linformer.reproduction.scoring.measure", slowly)
    with pytest.raises(Unfinished, match="2 "):
        measure(55 / 60)
    assert len(scores.scored) == 1
    with pytest.raises(Unfinished, match="1 "):
        measure(0.0)
    measure()
    assert len(scores.scored) == 3


# Before anything is trained


def test_rules_are_written_before_the_first_run(measure, trainer, warm_start, tmp_path, monkeypatch):  # noqa: F811
    """A rule that changes afterwards is not that of the record."""
    path, rules = (
        tmp_path / "runs/smoke/rules/warm-start.json",
        {claim.identifier: claim.rule for claim in warm_start.claims},
    )
    seen = []
    trainer.before = lambda job: seen.append(json.loads(path.read_text()))
    with pytest.raises(Unfinished):
        measure(1e-6)
    assert seen == [rules]
    monkeypatch.setattr(warm_start, "claims", tuple(replace(claim, rule="a later one") for claim in warm_start.claims))
    assert measure().rules == rules


DAMAGES = {
    f"{CONTINUED}/checkpoints/checkpoint_last.pt": (None, "junk"),
    f"{LINFORMER}-converted/seed1/stints.jsonl": (None, "", "[" * 100_000),
    f"{LINFORMER}-converted/seed1/.origin.json": (None, "{", "[" * 100_000),
    f"{LINFORMER}-converted/seed1/perplexity.json": ("{",),
    f"{LINFORMER}-converted/seed1/config.yaml": ("\n: [",),
    f"starts/{LINFORMER}-converted/seed1.pt": ("junk",),
    "rules/warm-start.json": ("{", "[]", '{"warm-start": 3}'),
}


@pytest.mark.parametrize(
    "path, content", [(path, content) for path, contents in DAMAGES.items() for content in contents]
)
def test_damage_is_found_before_other_runs_are_trained(measure, runs, trainer, path, content):  # noqa: F811
    shutil.rmtree(runs / f"smoke/{LINFORMER}-continued")
    damaged = runs / "smoke" / path
    damaged.unlink() if content is None else damaged.write_text(content)
    with pytest.raises(ValueError, match=damaged.name):
        measure()
    assert not trainer.trained
    assert damaged.exists() == (content is not None)


def test_runs_and_text_can_be_moved(measure, finished_runs, runs, trainer, copied_text, text, tmp_path):  # noqa: F811
    """The runs were trained in another folder; the text is a copy behind a link, or its only shard."""
    (tmp_path / "link").symlink_to(copied_text)
    expected = finished_runs[1]
    for here in (tmp_path / "link", copied_text / "shard0", text):
        assert measure(text=here) == expected
    assert not trainer.trained


def test_a_removed_start_is_made_again(measure, runs, trainer, finished_runs):  # noqa: F811
    """The record counts the training time after it."""
    starts = runs / "smoke/starts"
    before = {path: path.read_bytes() for path in starts.rglob("*.pt")}
    shutil.rmtree(starts)
    assert measure() == finished_runs[1]
    assert {path: path.read_bytes() for path in starts.rglob("*.pt")} == before and len(before) == 1


def test_what_has_begun_elsewhere_is_not_resumed(measure, runs, trainer):  # noqa: F811
    (runs / "smoke" / CONTINUED / "done").unlink()
    with pytest.raises(ValueError, match=f"{CONTINUED} .*checkpoint.finetune_from_model"):
        measure()
    assert not trainer.trained


def test_another_text_is_rejected(measure, runs, copied_text, trainer):  # noqa: F811
    path = copied_text / "shard0/train.bin"
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ValueError, match="text"):
        measure(text=copied_text)


def test_a_damaged_manifest_is_rejected(measure, copied_text, trainer):  # noqa: F811
    (copied_text / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match="manifest.json"):
        measure(text=copied_text)
    assert not trainer.trained


def test_a_gpu_is_needed_for_the_gpu_scale(trainer, text, tmp_path, monkeypatch, warm_start):  # noqa: F811
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="--scale gpu"):
        warm_start.measure("gpu", Inputs(tmp_path / "runs", text), "c")
    assert not trainer.trained and not (tmp_path / "runs").exists()


# A record that is in the ledger


@pytest.fixture
def there(finished_runs):  # noqa: F811
    return finished_runs[1]


@pytest.mark.parametrize("key", ["sizes", "seeds", "runs"])
def test_a_record_of_another_plan_is_rejected(warm_start, there, runs, text, key):  # noqa: F811
    inputs = Inputs(runs, text)
    warm_start.check_ledger("smoke", inputs, [there])
    other = {
        "sizes": {**there.configuration["sizes"], "lr": 0.5},
        "seeds": [1, 2],
        "runs": {**there.configuration["runs"], "roberta": {}},
    }[key]
    record = there.changed(configuration={**there.configuration, key: other})
    for check in (
        lambda: warm_start.check_ledger("smoke", inputs, [record]),
        lambda: warm_start.measure_again(record, inputs),
    ):
        with pytest.raises(ValueError, match=f"warm-start-smoke .*{key}"):
            check()


def test_a_record_of_other_data_is_rejected(warm_start, there, runs, text):  # noqa: F811
    record = there.changed(data="sha256: dict.txt 0")
    for check in (warm_start.check_ledger, lambda scale, inputs, records: warm_start.measure_again(records[0], inputs)):
        with pytest.raises(ValueError, match="warm-start-smoke .*data.*dict.txt 0"):
            check("smoke", Inputs(runs, text), [record])


@pytest.mark.parametrize("missing", ORDER)
def test_a_record_whose_runs_are_elsewhere_is_rejected(warm_start, there, runs, text, missing):  # noqa: F811
    (runs / "smoke" / missing / "done").unlink()
    with pytest.raises(ValueError, match="warm-start-smoke .*--verify warm-start-smoke"):
        warm_start.check_ledger("smoke", Inputs(runs, text), [there])


def test_other_records_are_not_checked(warm_start, there, tmp_path, text):  # noqa: F811
    others = [there.changed(experiment="scratch"), there.changed(scale="cpu"), there.changed(made_by="script")]
    warm_start.check_ledger("smoke", Inputs(tmp_path, text), others)


def test_measured_again_from_the_checkpoints(warm_start, there, runs, text, scores, trainer):  # noqa: F811
    """What was written down is not believed."""
    scores.bits = {"converted": 2.25}
    how, (record,) = warm_start.measure_again(there, Inputs(runs, text))
    assert len(scores.scored) == 3 and not trainer.trained and "5" in how
    assert record.find("bits", model="converted").value == 2.25 and record.command == there.command
    (runs / "smoke" / ORDER[-1] / "done").unlink()
    shutil.rmtree(runs / "smoke" / ORDER[-1])
    how, _ = warm_start.measure_again(there, Inputs(runs, text))
    assert trainer.trained == ORDER[-1:] and "4" in how and "1" in how


def test_verification_needs_a_text(warm_start, there, runs):  # noqa: F811
    with pytest.raises(ValueError, match="--text"):
        warm_start.measure_again(there, Inputs(runs))


def test_how_measured():
    assert how_measured([False, False]) != how_measured([True, True]) != how_measured([True, False])
    assert "2" in how_measured([True, True]) and "1" not in how_measured([True, True])


# Costs and rules


@pytest.mark.parametrize(
    "name, scale, numbers",
    [
        ("warm-start", "smoke", ("5 runs", "24 updates", "0.0 M tokens")),
        # by seed: 2,000 + 2 x 400 for the RoBERTa, 6 models of 500 updates of 2,048 tokens
        ("figure-3a", "cpu", ("27 runs", "17,400 updates", "35.6 M tokens")),
    ],
)
def test_cost(name, scale, numbers):
    assert tuple(find(name).cost(scale).split(", ")) == numbers


def test_paper_scale_is_slurms(warm_start):
    assert "Slurm" in find("figure-3a").cost("paper") and "paper" in find("figure-3a").scales
    assert warm_start.scales == ("smoke", "cpu", "gpu") and warm_start.paper_scale is None
    assert isinstance(warm_start, TrainingExperiment)


def test_a_comparison_is_of_its_own_record(there):
    evaluate = comparison("warm-start", lambda record: (["converted"], [Check(UNDECIDED, "a number")]))
    verdict = evaluate([there], "smoke")
    assert verdict.outcome == UNDECIDED and verdict.records == ["warm-start-smoke"] and "a number" in verdict.numbers
    for others in (
        [],
        [there.changed(experiment="scratch")],
        [there.changed(scale="cpu")],
        [there.changed(made_by="script")],
    ):
        assert evaluate(others, "smoke").outcome == UNMEASURED
