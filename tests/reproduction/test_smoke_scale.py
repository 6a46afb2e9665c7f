"""Experiments that are really trained, at the smoke scale: they stop, resume, and are verified."""
# ruff: noqa: F811 (fixtures are imported)

import shutil
from dataclasses import replace

import pytest
import torch

from fairseq_linformer.cli import main
from fairseq_linformer.finetuning.finetune import finetune
from fairseq_linformer.reproduction.finetuning_plan import SIZES
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import read
from fairseq_linformer.reproduction.paper_table_2 import PaperTable2
from fairseq_linformer.reproduction.registry import find

from ..forked_worker import quick_workers  # noqa: F401
from .trainer import finished_runs, text  # noqa: F401
from .tuner import tasks  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.long]
RUN = "linformer-n16-k4-headwise-default-scratch/seed1"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory, text):
    """``reproduce scratch`` that is stopped and resumed: what it said, its runs and its ledger."""
    folder, said = tmp_path_factory.mktemp("scratch"), []
    (folder / "ledger").mkdir()
    for minutes in (1e-4, None):
        inputs = Inputs(folder / "runs", text, minutes=minutes)
        said.append(find("scratch").reproduce("smoke", inputs, folder / "ledger", "the command"))
        if minutes:
            assert (folder / "runs/smoke/roberta-n16-scratch/seed1/stopped").exists() and not [
                *(folder / "ledger").iterdir()
            ]
    return folder, said


@pytest.fixture
def copied(scratch, tmp_path):
    shutil.copytree(scratch[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_stopped_and_resumed(scratch):
    """One seed, and nothing learned."""
    folder, (first, second) = scratch
    assert "3 runs" in first and "roberta-n16-scratch/seed1" in first
    assert (
        "scratch: not enough evidence at scale smoke" in second
        and str(folder / "ledger/scratch-smoke-plan2.json") in second
    )


def test_record(scratch):
    record = read(scratch[0] / "ledger/scratch-smoke-plan2.json")
    bits = record.find("bits", model="k=4", seed=None).value
    assert record.find("perplexity", model="k=4").value == pytest.approx(2**bits, rel=1e-4)
    assert [update for update, _ in record.curves[1].points] == [2, 4, 6] and record.curves[1].model == "k=4"
    assert record.commit and record.seconds > 0 and "train.bin" in record.data and len(record.measurements) == 10


def test_the_stand_in_leaves_what_a_training_leaves(scratch, finished_runs):
    """Files, and whatever of a checkpoint is read."""
    real, stand_in = (
        scratch[0] / "runs/smoke/roberta-n16-scratch/seed1",
        finished_runs[0] / "smoke/roberta-n16-scratch/seed1",
    )
    files = [
        {path.relative_to(each).as_posix() for path in each.rglob("*") if path.is_file()} for each in (real, stand_in)
    ]
    assert files[1] <= files[0]
    last = [torch.load(each / "checkpoints/checkpoint_last.pt", weights_only=True) for each in (real, stand_in)]
    assert last[0]["model"].keys() == last[1]["model"].keys() and last[0]["optimizer_history"][-1]["num_updates"] == 6
    assert {section: set(cfg) for section, cfg in last[1]["cfg"].items() if section == "model"}["model"] <= {
        *last[0]["cfg"]["model"]
    }
    assert "previous_training_time" in last[0]["extra_state"]


def test_finished_runs_are_not_run_again(copied, text, monkeypatch):
    monkeypatch.setattr(
        "fairseq_linformer.launching.local.train", lambda *_: pytest.fail("a finished run was run again")
    )
    before = (copied / "ledger/scratch-smoke-plan2.json").read_bytes()
    inputs = Inputs(copied / "runs", text)
    find("scratch").reproduce("smoke", inputs, copied / "ledger", "the command")
    assert (copied / "ledger/scratch-smoke-plan2.json").read_bytes() == before


@pytest.fixture(scope="module")
def table_2(tmp_path_factory, pieces, tasks):
    """``reproduce table-2`` on one task."""
    folder = tmp_path_factory.mktemp("table-2")
    (folder / "ledger").mkdir()
    with pytest.MonkeyPatch.context() as patches:
        patches.setitem(SIZES, "smoke", replace(SIZES["smoke"], epochs={"sst-2": 1}))
        inputs = Inputs(folder / "runs", pieces, tasks)
        said = find("table-2").reproduce("smoke", inputs, folder / "ledger", "the command")
        yield folder, inputs, said


def test_table_2(table_2):
    folder, _, said = table_2
    assert "table-2: not enough evidence at scale smoke" in said
    names = {
        f"finetuning-sst-2-{model}{end}-smoke" for model in ("linformer", "roberta") for end in ("", "-from-scratch")
    }
    assert {path.stem for path in (folder / "ledger").iterdir()} == names
    record = read(folder / "ledger/finetuning-sst-2-linformer-smoke.json")
    assert (record.configuration["model"]["projected_dim"], record.configuration["model"]["max_positions"]) == ("8", 16)
    assert record.find("rows", split="valid").value > 0 and record.commit


def test_table_2_of_the_paper_is_read_back(table_2, tasks, tmp_path, monkeypatch, capsys):
    """Two seeds of a finetuning that Slurm would run."""
    monkeypatch.setenv("DEVICE", "cpu")
    run, runs = "n512-k256-headwise", tmp_path / "runs"
    small = {
        "rows": {run: PaperTable2.rows[run]},
        "tasks": ("sst-2",),
        "rates": (1e-3,),
        "batches": (16,),
        "seeds": (1, 2),
    }
    for name, value in small.items():
        monkeypatch.setattr(PaperTable2, name, value)
    shutil.copytree(table_2[0] / "runs/smoke/table-2/linformer-n16-k8-headwise-default-converted/seed1", runs / run)
    (job,) = find("table-2").paper_scale.jobs(runs, tasks, "cpu")
    finetune(job)
    (tmp_path / "ledger").mkdir()
    main(
        [
            "reproduce",
            "table-2",
            "--scale",
            "paper",
            "--runs",
            str(runs),
            "--tasks",
            str(tasks),
            "--results",
            str(tmp_path / "ledger"),
        ]
    )
    assert "table-2: not enough evidence at scale paper" in capsys.readouterr().out
    record = read(tmp_path / f"ledger/finetuning-sst-2-{run}-paper.json")
    assert record.scale == "paper" and record.find("accuracy", split="valid").repetitions == 2
