"""``fairseq-linformer finetune``: from a checkpoint to scores, with interruptions."""

import json
import math
import os
import re
import shutil
import signal
import threading
import time
from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.identify import identify
from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.models.datasets import open_dataset
from fairseq_linformer.training import finetune as finetune_module
from fairseq_linformer.training import local
from fairseq_linformer.training.finetune import FinetuningJob, build_trainings, open_job, prepare_data
from fairseq_linformer.training.initial_checkpoint import open_initial_checkpoint
from fairseq_linformer.training.recipe import build_grid

from .. import fairseq_commands
from ..checkpoint_fixtures import ROWS
from ..checkpoints.encoders import save_encoder
from .conftest import SHORT


def read_result(tmp_path, name):
    return json.loads((tmp_path / "runs" / name / "result.json").read_text())


def test_what_is_trained_is_evaluated_first(masked_lm, pieces, tmp_path, monkeypatch):
    """Jobs of Slurm may still train the others. An update of several batches shortens the schedule. A test set is only
    for the last epoch."""
    data, checkpoint = str(pieces), identify(masked_lm / "checkpoint_last.pt")
    recipes = build_grid([1e-3, 2e-3], [4], [1], epochs=2)
    overrides = ("optimization.update_freq=[3]",)
    job = FinetuningJob(TASKS["sst-2"], checkpoint, recipes, "grid", data, str(tmp_path), overrides=overrides)
    opened, (first, second) = open_job(job)
    rows = len(open_dataset(pieces / "input0/train"))
    assert first.cfg.lr_scheduler.total_num_update == 2 * math.ceil(math.ceil(rows / 4) / 3)
    of_imdb, _ = build_trainings(replace(job, task=TASKS["imdb"]), opened, rows)
    assert of_imdb.cfg.dataset.disable_validation and not first.cfg.dataset.disable_validation
    second.folder.mkdir(parents=True)
    for name in ("config.yaml", "done"):
        (second.folder / name).write_text(OmegaConf.to_yaml(second.cfg) if name != "done" else "")
    started = []
    monkeypatch.setattr(local, "train", lambda training: started.append(training.name))
    monkeypatch.setattr(finetune_module, "build_result", lambda job, recipe, *others: {"lr": recipe.lr})
    assert [result["lr"] for result in finetune_module.finetune(job)] == [1e-3, 2e-3]
    assert started == [second.name, first.name]


@pytest.mark.slow
def test_from_a_checkpoint_to_scores(finetune, command, masked_lm, glue, tmp_path):
    words = (masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 5e-3, "--name", "cats")
    output = finetune(*words)
    best = tmp_path / "runs/cats/checkpoints/checkpoint_best.pt"
    result = read_result(tmp_path, "cats")
    accuracy = result["splits"]["valid"]["scores"]["accuracy"]["value"]
    assert f"accuracy {100 * accuracy:.2f} %" in output and f"{len(ROWS[::2]):,} rows" in output and str(best) in output
    log = (tmp_path / "runs/cats/logs/train.txt").read_text()
    assert max(map(float, re.findall(r'"valid_accuracy": "([^"]+)"', log))) == pytest.approx(
        100 * accuracy, abs=0.06
    )  # fairseq counts the same
    assert re.findall(r'"train_num_updates": "(\d+)"', log) == [str(len(ROWS) // 4), str(len(ROWS) // 2)]

    predictions = [json.loads(line) for line in (tmp_path / "runs/cats/valid.jsonl").read_text().splitlines()]
    assert [row["label"] == row["prediction"] for row in predictions].count(True) == round(accuracy * len(ROWS[::2]))

    # The files next to the checkpoint are all that is needed to use it.
    assert command("evaluate", best, glue / "dev.tsv", "--json", tmp_path / "s.json") != ""
    assert json.loads((tmp_path / "s.json").read_text())["scores"]["accuracy"]["value"] == accuracy
    for path in best.parent.glob("*.pt"):  # a finished run is not resumed
        assert "last_optimizer_state" not in fairseq_commands.load(best.parent, path.name)
    assert "cats: no error found" in finetune(tmp_path / "runs/cats", *SHORT, "--name", "more-cats", "--dry-run")

    before = (tmp_path / "runs/cats/result.json").stat().st_mtime_ns
    assert finetune(*words) == output and (tmp_path / "runs/cats/result.json").stat().st_mtime_ns == before
    assert "truncation must be head, got head+tail" in finetune(*words, "--truncation", "head+tail")
    assert "model.dropout must be 0.1, got 0.3" in finetune(*words, "model.dropout=0.3")
    other = finetune(masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 1e-3, "--name", "cats")
    assert re.search(r"optimization.lr must be \[0.005\], got \[0.001\]", other)
    path = tmp_path / "runs/cats/result.json"
    path.write_text(json.dumps({**result, "data": "other rows"}))
    assert "runs/cats was made from other inputs: data must be other rows, got" in finetune(*words)
    result["model"]["pretraining"]["sha256"] = "0"
    path.write_text(json.dumps(result))
    assert "runs/cats was made from other inputs: checkpoint must be 0, got" in finetune(*words)


@pytest.mark.slow
def test_from_scratch_ignores_the_weights(finetune, masked_lm, tmp_path):
    words = (masked_lm / "checkpoint_last.pt", *SHORT, "--max-epoch", 1)
    assert "accuracy" in finetune(*words, "--from-scratch", "--name", "a")
    assert read_result(tmp_path, "a")["model"]["from_scratch"]
    key = "encoder.sentence_encoder.layers.0.fc1.weight"
    trained, pretrained = (
        fairseq_commands.load(each)["model"] for each in (tmp_path / "runs/a/checkpoints", masked_lm)
    )
    assert not trained[key].allclose(pretrained[key], atol=0.1)


@pytest.mark.slow
def test_models_of_transformers_are_converted_first(finetune, tmp_path):
    encoder, runs = save_encoder(tmp_path / "bert", "bert", True), tmp_path / "runs"
    assert "is not converted, and --dry-run" in finetune(encoder, *SHORT, "--name", "direct", "--dry-run")
    assert "accuracy" in finetune(encoder, *SHORT, "--lr", 1e-3, "--name", "direct")
    (start,) = (runs / "starts").glob("*/model.pt")
    before, converted = start.stat().st_mtime_ns, fairseq_commands.load(start.parent, "model.pt")
    assert (
        "no error found" in finetune(encoder, *SHORT, "--name", "again", "--dry-run")
        and start.stat().st_mtime_ns == before
    )
    shutil.rmtree(runs / "starts")
    assert "is not converted, and --dry-run" in finetune(encoder, *SHORT, "--name", "again", "--dry-run")

    convert(str(encoder), tmp_path / "converted", arch="roberta")
    other = fairseq_commands.load(tmp_path / "converted", "model.pt")["model"]
    assert all(converted["model"][key].equal(other[key]) for key in other)
    model, saved = read_result(tmp_path, "direct")["model"], runs / "direct" / "checkpoints"
    assert model["checkpoint"] == str(encoder) and model["pretraining"]["imported"]["name"] == "bert"
    assert model["sharing"] == model["projection"] == ""
    assert fairseq_commands.load(saved, "checkpoint_last.pt")["provenance"] == {
        "imported": model["pretraining"]["imported"]
    }


@pytest.mark.slow
def test_diverging_training_error_names_the_update(finetune, masked_lm, tmp_path):
    output = finetune(masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 1e30, "--name", "wild")
    assert re.search(r"wild failed: .*FloatingPointError: gradients are Nan/Inf; .* checkpoint", output), output
    assert not (tmp_path / "runs/wild/done").exists() and not (tmp_path / "runs/wild/result.json").exists()


@pytest.mark.slow
def test_signal_saves_and_rerunning_resumes(finetune, masked_lm, tmp_path):
    """The command receives the signal and forwards it to its worker."""
    run = tmp_path / "runs/stop"
    words = (masked_lm / "checkpoint_last.pt", "--name", "stop", *SHORT, "--max-epoch", 4, "common.log_interval=1")

    def stop_at(update):
        """Terminate this process, which runs the command, after that update."""
        while not (log := run / "logs/train.txt").exists() or f'"num_updates": "{update}"' not in log.read_text():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_at, args=(5,), daemon=True).start()
    assert finetune(*words) == "130" and not (run / "result.json").exists()
    assert fairseq_commands.load(run / "checkpoints")["optimizer_history"][-1]["num_updates"] >= 5
    assert "accuracy" in finetune(*words) and (run / "result.json").exists()
    updates = map(int, re.findall(r'"num_updates": "(\d+)"', (run / "logs/train.txt").read_text()))
    assert {*range(1, 4 * len(ROWS) // 4 + 1)} <= {*updates}  # none is missing
    assert len((run / "attempts.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_grid(finetune, command, masked_lm, tmp_path):
    words = (*SHORT[2:], "--max-epoch", 1, "--lr", "1e-3,5e-3", "--name", "grid")
    checkpoint = masked_lm / "checkpoint_last.pt"
    assert "grid: no error found; runs to train: 2 of 2" in finetune(checkpoint, *words, "--dry-run")
    assert not (tmp_path / "data").exists()
    output = finetune(checkpoint, *words)
    assert re.search(
        r"seed 1:\nsst-2 valid: accuracy .* to .*; 12 rows\n(warning: .*\n)?.* best epoch: .*checkpoint_best.pt", output
    ), output
    assert {path.parent.name for path in (tmp_path / "runs/grid").glob("*/result.json")} == {
        "lr0.001-batch4-seed1",
        "lr0.005-batch4-seed1",
    }
    assert re.search(r"sst-2: accuracy \d+\.\d\d %, median over one seed, lr 0.00[15], batch size 4", output)
    dry = finetune(checkpoint, *words, "--slurm", "--dry-run", "--partition=gpu", "--device", "cpu")
    assert dry.startswith("fairseq-linformer: nothing to submit: ") and dry.endswith("seed1 is trained")
    files = sorted(tmp_path.rglob("*"))
    assert "grid: no error found; runs to train: 2 of 4" in finetune(checkpoint, *words, "--seed", "1,2", "--dry-run")
    assert sorted(tmp_path.rglob("*")) == files

    # A model of another n needs other data, or is converted with the command that the error has.
    convert(str(checkpoint), tmp_path / "long", max_positions=32)
    error = finetune(tmp_path / "long", *words, "--dry-run")
    assert "8 truncated rows, but the model has n = 32" in error
    said = re.search(r"fairseq-linformer (convert .*)$", error)[1].replace("CHECKPOINT", str(tmp_path / "long"))
    command(*said.replace("OUT", str(tmp_path / "short")).split())
    assert "no error found" in finetune(tmp_path / "short", *words[:-1], "other", "--dry-run")


@pytest.mark.slow
def test_slurm(finetune, masked_lm, glue, tmp_path, monkeypatch):
    monkeypatch.chdir(fairseq_commands.CONFIGS.parent)
    words = (masked_lm / "checkpoint_last.pt", "--slurm", "--dry-run", "--partition=gpu", "--name", "g")
    start = open_initial_checkpoint(identify(words[0]), tmp_path / "runs")
    data = str(tmp_path / "data")
    prepare_data(FinetuningJob(TASKS["sst-2"], identify(words[0]), [], "g", data, source=str(glue)), start)
    *jobs, end = finetune(*words, "--grid", "--lr", "1e-5,2e-5", "--seed", "1,2").splitlines()
    assert len(jobs) == 4 and all("--partition=gpu" in job for job in jobs) and "nothing was submitted" in end
    assert "lr2e-05-batch32-seed2/logs/%j.txt" in jobs[3]
    assert len(finetune(*words).splitlines()) == 2 and not (tmp_path / "runs").exists()
