"""Table 2's pretrainings and finetunings: order, time budget, record, rejections. Nothing is really trained here."""
# ruff: noqa: F811 (fixtures are imported)

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from fairseq_linformer.finetuning import data
from fairseq_linformer.reproduction.experiment import Unfinished
from fairseq_linformer.reproduction.finetuning_plan import SIZES, members, pretrainings
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.text import describe_text

from .trainer import DATE, HARDWARE, VERSIONS, trainer  # noqa: F401
from .tuner import NAMES, inputs, measure, small, table, tasks, tuner  # noqa: F401

# Records


def test_record(measure, trainer, inputs):
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
        record.data
        == f"sst-2: {data.describe_data(Path(inputs.tasks) / 'sst-2')}; pretrained on: {describe_text(inputs.data)}"
    )
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


def test_jobs(measure, tuner, trainer, inputs, small):
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


def test_three_seeds(measure, tuner, trainer, monkeypatch):
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


def test_another_model_leaves_the_others(measure, monkeypatch, small, inputs):
    before = measure()
    both = (*small.linformers, (32, 8, "layerwise"))
    monkeypatch.setitem(SIZES, "smoke", replace(small, linformers=both))
    after = measure()
    assert {name: after[name] for name in before} == before
    record = after["sst-2-linformer-n32-k8-layerwise"]
    assert set(after) - set(before) == {"sst-2-linformer-n32-k8-layerwise"}
    assert record.paper.value == 93.2 and record.paper.where.startswith(
        "Table 2, 1024, Linformer, 256, shared kv, layer;"
    )
    assert (record.configuration["model"]["max_positions"], record.configuration["model"]["sharing"]) == (
        32,
        "layerwise",
    )
    assert [*record.configuration["runs"]] == ["linformer-n32-k8-layerwise"]
    assert data.describe_data(Path(inputs.tasks) / "sst-2-n32") in record.data


# The time budget


def test_pretraining_stops_in_time(measure, trainer, tuner):
    trainer.notices = False
    with pytest.raises(Unfinished, match="2 of 4 runs"):
        measure(0.25)
    assert len(trainer.trained) == 2 and not tuner.jobs


@pytest.mark.parametrize("minutes, done", [(45 / 60, 1), (51 / 60, 2), (1e-6, 0)])
def test_no_finetuning_begins_after_the_time_budget(measure, trainer, tuner, minutes, done):
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


def test_a_finetuning_is_stopped_in_time(measure, tuner):
    tuner.stops = True
    with pytest.raises(Unfinished, match=f"4 of 4.*{NAMES[0]}-seed1"):
        measure(60.0)
    assert len(tuner.tuned) == 1


def test_finished_finetunings_are_read_before_others_begin(measure, tuner, inputs, monkeypatch):
    measure()
    shutil.rmtree(Path(inputs.runs) / f"smoke/table-2/finetuned/{NAMES[0]}-seed1")
    tuner.jobs.clear()
    measure()
    assert [job.name for job in tuner.jobs] == [f"finetuned/{name}-seed1" for name in (*NAMES[1:], NAMES[0])]


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


@pytest.mark.parametrize("scale", ["cpu", "gpu"])
def test_linformers_are_rows_of_the_paper(scale):
    """All rows of n = 512, and one of 1,024; n and k are to RoBERTa's n what the rows' are to 512."""
    sizes = SIZES[scale]
    part = 512 // sizes.stages[-1][0]
    rows = [f"{part * n}, Linformer, {part * k}, {sharing}" for n, k, sharing in sizes.linformers]
    sharings = ("headwise", "key-value", "layerwise")
    assert sorted(rows) == sorted(
        [f"512, Linformer, {k}, {sharing}" for k in (128, 256) for sharing in sharings]
        + ["1024, Linformer, 256, headwise"]
    )


def test_cost(table):
    # 2,000 + 400 + 4,000 + 5,000, 400 to grow once more, and 1,500 of each of 8 models; 3 seeds of 40 models on tasks
    assert table.cost("cpu") == "23,800 updates, 120 finetunings" and "Slurm" in table.cost("paper")
