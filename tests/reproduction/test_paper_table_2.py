"""Table 2 at the paper's scale: its grid of finetunings, submitted and read back."""
# ruff: noqa: F811 (fixtures are imported)

import shutil
from dataclasses import replace

import pytest

from fairseq_linformer.reproduction.ledger import read
from fairseq_linformer.reproduction.paper_scale import array_members
from fairseq_linformer.reproduction.paper_table_2 import PaperTable2
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.run_folders import RunFolder
from fairseq_linformer.reproduction.runs import Model, run_from_scratch
from fairseq_linformer.reproduction.scales import SCALES

from .cluster import cluster, paper  # noqa: F401
from .trainer import compose_quickly, finish, trainer  # noqa: F401
from .tuner import tasks, tuner  # noqa: F401


@pytest.fixture
def two_rows(monkeypatch):
    """One task, two models, one rate and batch, two seeds."""
    small = {
        "rows": {"n512-roberta": "512, RoBERTa-base", "n1024-k256-headwise": "1024, Linformer, 256"},
        "tasks": ("sst-2",),
        "rates": (1e-3,),
        "batches": (16,),
        "seeds": (1, 2),
    }
    for name, value in small.items():
        monkeypatch.setattr(PaperTable2, name, value)


@pytest.fixture
def pretrained(tmp_path, pieces):
    """Tiny models under the names of the paper's."""
    for name in PaperTable2.rows:
        run = run_from_scratch(Model(16) if name.endswith("roberta") else Model(16, 8))(SCALES["smoke"], 1)
        training = RunFolder(run, SCALES["smoke"], tmp_path, pieces).training()
        finish(tmp_path / "runs" / name, compose_quickly(training.config, training.overrides), 6)


@pytest.fixture
def both_tasks(tasks, tmp_path):
    folder = tmp_path / "tasks"
    for name in ("sst-2", "sst-2-n1024"):
        shutil.copytree(tasks / "sst-2", folder / name)
    return folder


def test_the_grid(pretrained, both_tasks, tmp_path, monkeypatch):
    """Ten rows, three rates, two batches and three seeds; a model of n = 1,024 reads the task for it."""
    monkeypatch.setattr(PaperTable2, "tasks", ("sst-2",))
    members = array_members("table-2", tmp_path / "runs", both_tasks, "cpu")
    assert len(members) == len({tuple(member) for member in members}) == 10 * 3 * 2 * 3
    assert sum(any("sst-2-n1024" in word for word in member) for member in members) == 3 * 3 * 2 * 3
    (first,) = [
        member for member in members if member[1] == "--name=table-2/n512-k128-headwise/sst-2/lr2e-05-batch16-seed3"
    ]
    cfg = compose_quickly(first[0].removeprefix("--config="), first[2:])
    assert cfg.checkpoint.finetune_from_model == f"{tmp_path}/runs/n512-k128-headwise/checkpoints/checkpoint_last.pt"
    assert (cfg.common.seed, cfg.dataset.batch_size, list(cfg.optimization.lr)) == (3, 16, [2e-5])
    assert first[0].endswith("configs/finetune/base.yaml")


def test_table_2_needs_its_pretrainings_and_tasks(paper, pretrained, both_tasks, tmp_path, two_rows):
    assert "--tasks" in paper("table-2")
    shutil.rmtree(both_tasks / "sst-2")
    assert f"--tasks {both_tasks}" in (said := paper("table-2", "--tasks", both_tasks)) and "sst-2" in said
    (tmp_path / "runs/n512-roberta/done").unlink()
    assert str(tmp_path / "runs/n512-roberta") in paper("table-2", "--tasks", both_tasks)


def test_table_2_is_submitted_one_process_a_run(paper, pretrained, both_tasks, tmp_path, two_rows):
    assert "Submitted batch job 7" in paper("table-2", "--tasks", both_tasks)
    words = (tmp_path / "submitted").read_text().split()
    assert "--nodes=1" in words and "--ntasks-per-node=1" in words and "--array=0-3" in words
    assert not [*(tmp_path / "ledger").iterdir()]


@pytest.fixture
def tuned(pretrained, both_tasks, tmp_path, two_rows, monkeypatch):
    """All finetunings are done."""
    table = find("table-2").paper_scale
    assert not table.is_trained(tmp_path / "runs", both_tasks, "cpu")
    for job in table.jobs(tmp_path / "runs", both_tasks, "cpu"):
        for training in job.build_trainings(job.prepare()):
            training.folder.mkdir(parents=True)
            (training.folder / "done").touch()
    assert table.is_trained(tmp_path / "runs", both_tasks, "cpu")


def test_table_2_is_read_back(paper, tuned, both_tasks, tuner, tmp_path, monkeypatch):
    def finetune(job, until=None):
        return [
            tuner(replace(job, recipes=[recipe], name=f"results/{job.name}-{recipe.seed}"))[0] for recipe in job.recipes
        ]

    monkeypatch.setattr("fairseq_linformer.finetuning.finetune.finetune", finetune)
    assert "table-2" in paper("table-2", "--tasks", both_tasks)
    names = [f"finetuning-sst-2-{run}-paper" for run in PaperTable2.rows]
    assert sorted(path.stem for path in (tmp_path / "ledger").iterdir()) == sorted(names)
    record = read(tmp_path / f"ledger/{names[1]}.json")
    assert (record.experiment, record.made_by, record.scale, record.commit) == (
        "table-2",
        "reproduce",
        "paper",
        "of seed 1; of seed 2",
    )
    assert (
        record.command == "fairseq-linformer reproduce table-2 --scale paper --tasks tasks" and record.seconds == 14.0
    )
    assert record.find("accuracy").repetitions == 2
