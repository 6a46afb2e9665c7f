"""Table 2's pretrainings and finetunings: order, time budget, record, refusals. Nothing is really trained here."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from fairseq_linformer.finetuning import data
from fairseq_linformer.reproduction.finetuned import SIZES, check_task, members, pretrainings
from fairseq_linformer.reproduction.registry import Inputs, Unfinished, find
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.text import described

from .trainer import DATE, HARDWARE, VERSIONS, trainer  # noqa: F401
from .tuner import tasks, tuner  # noqa: F401

NAMES = ["sst-2-linformer", "sst-2-linformer-from-scratch", "sst-2-roberta", "sst-2-roberta-from-scratch"]


@pytest.fixture
def small(monkeypatch):
    """One task."""
    sizes = replace(SIZES["smoke"], epochs={"sst-2": 1})
    monkeypatch.setitem(SIZES, "smoke", sizes)
    return sizes


@pytest.fixture
def table():
    return find("table-2")


@pytest.fixture
def inputs(tmp_path, pieces, tasks):  # noqa: F811
    return Inputs(tmp_path / "runs", pieces, tasks)


@pytest.fixture
def measure(table, small, tuner, inputs):  # noqa: F811
    """Records by name."""

    def measure(minutes=None, inputs=inputs):
        found = table.measure("smoke", replace(inputs, minutes=minutes), "the command")
        return {record.identifier.removeprefix("finetuning-").removesuffix("-smoke"): record for record in found}

    return measure


# Records


def test_record(measure, table, trainer, inputs):  # noqa: F811
    trainer.commits = {"converted": "of the Linformer"}
    records = measure()
    assert [*records] == NAMES
    record = records["sst-2-linformer"]
    assert (record.identifier, record.experiment, record.made_by, record.scale) == (
        "finetuning-sst-2-linformer-smoke",
        "table-2",
        "reproduce",
        "smoke",
    )
    assert (record.commit, record.hardware, record.versions, record.date) == ("of seed 1", HARDWARE, VERSIONS, DATE)
    assert (
        record.seconds == 7.0
        and record.command == "the command"
        and record.tolerance == {"%": 0.03, "1": 0.05, "rows": 0.0}
    )
    assert (
        record.data == f"sst-2: {data.described(Path(inputs.tasks) / 'sst-2')}; pretrained on: {described(inputs.text)}"
    )
    assert record.rules == {claim.identifier: claim.rule for claim in table.claims}
    c = record.configuration
    assert (c["task"], c["seeds"], c["chosen"]) == ("sst-2", [1], {"lr": 1e-3, "batch_size": 8})
    assert (
        c["sizes"]["stages"] == [[8, 3], [16, 3]]
        and c["sizes"]["epochs"] == {"sst-2": 1}
        and "linformers" not in c["sizes"]
    )
    assert c["sizes"]["lr"] == 1e-3 and c["sizes"]["width"] == 16 and c["sizes"]["rate"] == 1e-3
    assert [*c["runs"]] == ["linformer"] and c["runs"]["linformer"]["made"] == "converted"
    assert (
        c["pretrained"]["commit"] == "abc; of the Linformer"
        and records["sst-2-roberta"].configuration["pretrained"]["commit"] == "abc"
    )
    assert c["pretrained"]["hardware"] == HARDWARE
    accuracy = record.find("accuracy", split="valid")
    assert (accuracy.value, accuracy.interval_kind, accuracy.n, accuracy.k) == (75.0, "confidence", 16, 8)
    assert measure() == records


def test_the_row_of_the_paper(measure):
    """n and k are to RoBERTa's n what the paper's are to 512; finetuned from scratch is no row."""
    records = measure()
    rows = {name: (record.paper.value, record.paper.where.split(";")[0]) for name, record in records.items()}
    assert rows["sst-2-linformer"] == (93.2, "Table 2, 512, Linformer, 256")
    assert rows["sst-2-roberta"] == (93.1, "Table 2, 512, RoBERTa-base")
    assert rows["sst-2-roberta-from-scratch"][0] is None and rows["sst-2-linformer-from-scratch"][0] is None


def test_jobs(measure, tuner, trainer, inputs, small):  # noqa: F811
    measure()
    runs = Path(inputs.runs) / "smoke/table-2"
    assert trainer.trained == [
        "roberta-n8-scratch/seed1",
        "roberta-n16-grown/seed1",
        "roberta-n16-continued/seed1",
        "linformer-n16-k8-headwise-default-converted/seed1",
    ]
    assert [job.name for job in tuner.jobs] == [f"finetuned/{name}-seed1" for name in NAMES]
    for job in tuner.jobs:
        run = "linformer-n16-k8-headwise-default-converted" if "linformer" in job.name else "roberta-n16-continued"
        assert job.checkpoint == str(runs / run / "seed1/checkpoints/checkpoint_last.pt")
        assert (job.runs, job.data, job.device) == (str(runs), str(Path(inputs.tasks) / "sst-2"), "cpu")
        assert job.from_scratch == job.name.endswith("from-scratch-seed1") and job.task.name == "sst-2"
        (recipe,) = job.recipes
        assert (recipe.lr, recipe.batch_size, recipe.epochs, recipe.seed) == (1e-3, 8, 1, 1)
    cfg = OmegaConf.load(runs / "roberta-n16-grown/seed1/config.yaml")
    assert list(cfg.optimization.lr) == [1e-3] and cfg.optimization.max_update == 3


def test_pretraining_has_its_own_learning_rate(measure, monkeypatch, small, inputs):
    monkeypatch.setitem(SIZES, "smoke", replace(small, lr=0.005, rate=0.25, batch_size=4))
    measure()
    cfg = OmegaConf.load(Path(inputs.runs) / "smoke/table-2/roberta-n16-continued/seed1/config.yaml")
    assert list(cfg.optimization.lr) == [0.005] and cfg.dataset.batch_size * 16 == SCALES["smoke"].tokens


def test_three_seeds(measure, tuner, trainer, monkeypatch):  # noqa: F811
    """Of finetuning; all models of the first seed first."""
    monkeypatch.setitem(SCALES, "smoke", replace(SCALES["smoke"], seeds=(1, 2, 3)))
    tuner.accuracy = {"sst-2-roberta-seed1": 0.6, "sst-2-roberta-seed2": 0.9, "sst-2-roberta-seed3": 0.7}
    records = measure()
    assert [job.name for job in tuner.jobs] == [f"finetuned/{name}-seed{seed}" for seed in (1, 2, 3) for name in NAMES]
    assert [job.recipes[0].seed for job in tuner.jobs] == [1] * 4 + [2] * 4 + [3] * 4 and len(trainer.trained) == 4
    record = records["sst-2-roberta"]
    accuracy = record.find("accuracy")
    assert (accuracy.value, accuracy.interval, accuracy.repetitions) == (70.0, (60.0, 90.0), 3)
    assert (
        record.commit == "of seed 1; of seed 2; of seed 3"
        and record.seconds == 21.0
        and record.configuration["seeds"] == [1, 2, 3]
    )


def test_another_model_leaves_the_others(measure, monkeypatch, small, inputs, trainer, table):  # noqa: F811
    """Rules are kept for each model from before its first run."""
    before = measure()
    both = (*small.linformers, (32, 8, "layerwise"))
    monkeypatch.setitem(SIZES, "smoke", replace(small, linformers=both))
    monkeypatch.setattr(table, "claims", tuple(replace(claim, rule="later") for claim in table.claims))
    after = measure()
    assert {name: after[name] for name in before} == before
    record = after["sst-2-linformer-n32-k8-layerwise"]
    assert set(record.rules.values()) == {"later"} and set(after) - set(before) == {"sst-2-linformer-n32-k8-layerwise"}
    assert record.paper.value == 93.2 and record.paper.where.startswith(
        "Table 2, 1024, Linformer, 256, shared kv, layer;"
    )
    assert (record.configuration["model"]["max_positions"], record.configuration["model"]["sharing"]) == (
        32,
        "layerwise",
    )
    assert [*record.configuration["runs"]] == ["linformer-n32-k8-layerwise"]
    assert data.described(Path(inputs.tasks) / "sst-2-n32") in record.data
    kept = {path.name for path in (Path(inputs.runs) / "smoke/rules").iterdir()}
    assert kept == {f"table-2-{name}.json" for name in ("linformer", "linformer-n32-k8-layerwise", "roberta")}


# The time budget


def test_pretraining_stops_in_time(measure, trainer, tuner):  # noqa: F811
    trainer.notices = False
    with pytest.raises(Unfinished, match="2 runs"):
        measure(0.25)
    assert len(trainer.trained) == 2 and not tuner.jobs


@pytest.mark.parametrize("minutes, done", [(45 / 60, 1), (51 / 60, 2), (1e-6, 0)])
def test_no_finetuning_begins_after_the_time_budget(measure, trainer, tuner, minutes, done):  # noqa: F811
    """Pretraining takes 40 seconds, a finetuning 10; one always begins."""
    trainer.notices = False
    if not done:
        with pytest.raises(Unfinished, match="runs"):
            measure(minutes)
        assert not tuner.jobs
        return
    with pytest.raises(Unfinished) as left:
        measure(minutes)
    assert (
        f"{4 - done} of 4" in str(left.value) and f"{NAMES[done]}-seed1" in str(left.value) and len(tuner.tuned) == done
    )
    assert len(measure()) == 4 and tuner.tuned == [f"finetuned/{name}-seed1" for name in NAMES]


def test_a_finetuning_is_stopped_in_time(measure, tuner):  # noqa: F811
    tuner.stops = True
    with pytest.raises(Unfinished, match=f"4 of 4.*{NAMES[0]}-seed1"):
        measure(60.0)
    assert len(tuner.tuned) == 1


def test_finished_finetunings_are_read_before_others_begin(measure, tuner, inputs, monkeypatch):  # noqa: F811
    measure()
    shutil.rmtree(Path(inputs.runs) / f"smoke/table-2/finetuned/{NAMES[0]}-seed1")
    tuner.jobs.clear()
    measure()
    assert [job.name for job in tuner.jobs] == [f"finetuned/{name}-seed1" for name in (*NAMES[1:], NAMES[0])]


# Refusals


@pytest.fixture
def copied_tasks(tasks, tmp_path):  # noqa: F811
    return Path(shutil.copytree(tasks, tmp_path / "tasks"))


def test_a_task_must_be_there(copied_tasks, pieces):
    check_task("sst-2", 16, copied_tasks, pieces)
    check_task("sst-2", 32, copied_tasks, pieces)
    shutil.rmtree(copied_tasks / "sst-2")
    with pytest.raises(ValueError, match=f"--tasks is {copied_tasks}.* sst-2"):
        check_task("sst-2", 16, copied_tasks, pieces)


def test_a_task_must_fit_the_model(copied_tasks, pieces):
    """Rows for n = 16 are too long for n = 8."""
    with pytest.raises(ValueError, match=f"16 .* 8.*{copied_tasks}/sst-2-n8"):
        check_task("sst-2", 8, copied_tasks, pieces)


def test_a_task_must_have_the_tokens_of_the_text(copied_tasks, pieces):
    path = copied_tasks / "sst-2/input0/dict.txt"
    path.write_text(path.read_text().replace("a", "b", 1))
    with pytest.raises(ValueError, match=f"{path} .*--text"):
        check_task("sst-2", 16, copied_tasks, pieces)


def test_tasks_are_checked_before_anything_is_trained(measure, inputs, copied_tasks, trainer):  # noqa: F811
    shutil.rmtree(copied_tasks / "sst-2")
    with pytest.raises(ValueError, match="--tasks"):
        measure(inputs=replace(inputs, tasks=copied_tasks))
    assert not trainer.trained


def test_damaged_runs_are_found_before_others_are_trained(measure, inputs, trainer):  # noqa: F811
    measure()
    runs = Path(inputs.runs) / "smoke/table-2"
    (runs / "roberta-n8-scratch/seed1/stints.jsonl").unlink()
    shutil.rmtree(runs / "roberta-n16-continued")
    trainer.trained.clear()
    with pytest.raises(ValueError, match="stints.jsonl"):
        measure()
    assert not trainer.trained


@pytest.fixture
def there(measure):
    return measure()["sst-2-linformer"]


def test_a_record_of_a_model_that_is_gone(there, table, inputs, monkeypatch, small):
    """Or of a task that is gone."""
    table.check_ledger("smoke", inputs, [there])
    other = there.changed(identifier="finetuning-sst-2-linformer-n64-k8-headwise-smoke")
    with pytest.raises(ValueError, match=f"{other.identifier} .*{other.commit}"):
        table.check_ledger("smoke", inputs, [other])
    monkeypatch.setitem(SIZES, "smoke", replace(small, epochs={"qnli": 1}))
    with pytest.raises(ValueError, match=there.identifier):
        table.check_ledger("smoke", inputs, [there])


@pytest.mark.parametrize("key", ["sizes", "seeds", "runs"])
def test_a_record_of_another_plan(there, table, inputs, key):
    other = there.changed(configuration={**there.configuration, key: {"linformer": {}}})
    for check in (lambda: table.check_ledger("smoke", inputs, [other]), lambda: table.measure_again(other, inputs)):
        with pytest.raises(ValueError, match=f"{there.identifier} .*{key}"):
            check()


def test_a_record_of_other_data(there, table, inputs):
    other = there.changed(data=there.data.replace("rows", "lines", 1))
    with pytest.raises(ValueError, match=f"{there.identifier} .*data"):
        table.check_ledger("smoke", inputs, [other])


@pytest.mark.parametrize(
    "missing",
    [
        "roberta-n8-scratch/seed1/done",
        "linformer-n16-k8-headwise-default-converted/seed1/done",
        "finetuned/sst-2-linformer-seed1/result.json",
    ],
)
def test_a_record_whose_runs_are_elsewhere(there, table, inputs, missing):
    (Path(inputs.runs) / "smoke/table-2" / missing).unlink()
    with pytest.raises(ValueError, match=f"--verify {there.identifier}"):
        table.check_ledger("smoke", inputs, [there])


def test_other_runs_may_be_missing(there, table, inputs):
    for missing in ("roberta-n16-continued/seed1/done", "finetuned/sst-2-roberta-seed1/result.json"):
        (Path(inputs.runs) / "smoke/table-2" / missing).unlink()
    table.check_ledger("smoke", inputs, [there])


# Verification


def test_measured_again_from_the_checkpoint(there, table, inputs, tuner, trainer):  # noqa: F811
    """Of its model and task alone; what was written down is not believed."""
    tuner.again = 0.5
    tuner.jobs.clear(), trainer.trained.clear()
    how, (record,) = table.measure_again(there, inputs)
    assert record.identifier == there.identifier and record.find("accuracy").value == 50.0 and "1" in how
    assert tuner.judged == ["sst-2-linformer-seed1"] and [job.name for job in tuner.jobs] == [
        "finetuned/sst-2-linformer-seed1"
    ]
    assert record.command == there.command and not trainer.trained
    result = json.loads((Path(inputs.runs) / "smoke/table-2/finetuned/sst-2-linformer-seed1/result.json").read_text())
    assert result["splits"]["valid"]["scores"]["accuracy"]["value"] == 0.75


def test_measured_again_elsewhere(there, table, inputs, tuner, trainer, tmp_path):  # noqa: F811
    """Trained again, with what it starts from; no other model."""
    trainer.trained.clear()
    how, (record,) = table.measure_again(there, replace(inputs, runs=tmp_path / "again"))
    assert record.measurements == there.measurements and len(trainer.trained) == 3
    assert not any("continued" in name for name in trainer.trained)
    with pytest.raises(ValueError, match="--tasks"):
        table.measure_again(there, Inputs(inputs.runs, inputs.text))
    with pytest.raises(Unfinished):
        table.measure_again(there, replace(inputs, runs=tmp_path / "third", minutes=0.0))


# The plan


def test_members(small):
    """The first Linformer and RoBERTa are finetuned from scratch too."""
    assert [member.name for member in members(SCALES["smoke"], small)] == NAMES
    every = members(SCALES["cpu"], SIZES["cpu"])
    assert len(every) == len({m.name for m in every}) == 4 * (2 * 2 + 6)
    assert {m.model for m in every if m.from_scratch} == {"roberta", "linformer"}


def test_pretrainings():
    """All of one n have as many updates; twice the n has grown once more."""
    runs = pretrainings(SCALES["cpu"], SIZES["cpu"])
    updates = {name: sum(run.updates for run in runs[name].history) for name in runs}
    assert updates.pop("linformer-n256-k64-headwise") == 13300 and set(updates.values()) == {12900}
    assert [(run.model.n, run.model.k, run.model.sharing) for run in runs.values()][:3] == [
        (128, None, "headwise"),
        (128, 64, "headwise"),
        (128, 64, "key-value"),
    ]
    assert all(run.decays and run.model.start in (None, "average") for run in runs.values()) and len(runs) == 8
    assert runs["linformer"].model.start is None


def test_cost(table):
    # 2,000 + 400 + 4,000 + 5,000, 400 to grow once more, and 1,500 of each of 8 models; 3 seeds of 40 models on tasks
    assert table.cost("cpu") == "23,800 updates, 120 finetunings" and "Slurm" in table.cost("paper")
