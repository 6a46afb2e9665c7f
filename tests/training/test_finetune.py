"""``fairseq-linformer finetune``: from a checkpoint to scores, with interruptions."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from fairseq_linformer.checkpoints.huggingface import to_huggingface
from fairseq_linformer.task_data.tasks import TASKS
from fairseq_linformer.training import local, run_folder, single_run
from fairseq_linformer.training.data import DataOptions, prepare_data
from fairseq_linformer.training.finetune import FinetuningJob
from fairseq_linformer.training.initial_checkpoint import open_initial_checkpoint
from fairseq_linformer.training.recipe import Recipe

from .. import fairseq_commands
from ..checkpoint_fixtures import ROWS, shake
from .conftest import SHORT


@pytest.mark.slow
def test_from_a_checkpoint_to_scores(finetune, command, masked_lm, glue, tmp_path):
    words = (masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 5e-3, "--name", "cats")
    output = finetune(*words)
    best = tmp_path / "runs/cats/checkpoints/checkpoint_best.pt"
    result = json.loads((tmp_path / "runs/cats/result.json").read_text())
    accuracy = result["splits"]["valid"]["scores"]["accuracy"]["value"]
    assert f"accuracy {100 * accuracy:.2f} %" in output and f"{len(ROWS[::2]):,} rows" in output and str(best) in output
    log = (tmp_path / "runs/cats/logs/finetune.txt").read_text()
    assert max(map(float, re.findall(r'"valid_accuracy": "([^"]+)"', log))) == pytest.approx(
        100 * accuracy, abs=0.06
    )  # fairseq counts the same
    updates = re.findall(r'"train_num_updates": "(\d+)"', log)
    assert updates == [str(len(ROWS) // 4), str(len(ROWS) // 2)]

    # The files next to the checkpoint are all that is needed to use it.
    assert command("evaluate", best, glue / "dev.tsv", "--json", tmp_path / "s.json") != ""
    assert json.loads((tmp_path / "s.json").read_text())["scores"]["accuracy"]["value"] == accuracy
    to_huggingface(best, tmp_path / "hf")
    assert command("evaluate", tmp_path / "hf", glue / "dev.tsv", "--json", tmp_path / "t.json") != ""
    assert json.loads((tmp_path / "t.json").read_text())["confusion"] == result["splits"]["valid"]["confusion"]

    before = (tmp_path / "runs/cats/result.json").stat().st_mtime_ns
    assert finetune(*words).splitlines()[0] == output.splitlines()[0]
    assert (tmp_path / "runs/cats/result.json").stat().st_mtime_ns == before  # nothing is repeated
    assert "--truncation head+tail" in finetune(*words, "--truncation", "head+tail")
    assert "no files of sst-2" in finetune(*words, "--source", tmp_path)
    assert (
        finetune(*words, "--sentencepiece-model", masked_lm / "sentencepiece.bpe.model").splitlines()[0]
        == output.splitlines()[0]
    )
    assert "model.dropout" in finetune(*words, "model.dropout=0.3")
    assert "model.sharing=none" in finetune(*words, "model.sharing=none")
    manifest = tmp_path / "data/manifest.json"
    manifest.write_text(manifest.read_text().replace('"written": 24', '"written": 23'))
    assert "cats started from a different data" in finetune(*words)
    assert "cats started from a different data" in finetune(*words, "--dry-run")
    other = finetune(masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 1e-3, "--name", "cats")
    assert re.search(r"optimization.lr must be \[0.005\], got \[0.001\]", other)


@pytest.mark.slow
def test_from_scratch_ignores_the_weights(finetune, masked_lm, tmp_path):
    """Two checkpoints that differ only in their weights start the same training."""
    other = shutil.copytree(masked_lm, tmp_path / "other", ignore=shutil.ignore_patterns("checkpoint_best.pt"))
    shake(other / "checkpoint_last.pt", seed=1)
    states = {}
    for name, folder, options in (
        ("a", masked_lm, ["--from-scratch"]),
        ("b", other, ["--from-scratch"]),
        ("pretrained", other, []),
    ):
        output = finetune(folder / "checkpoint_last.pt", *SHORT, "--max-epoch", 1, *options, "--name", name)
        result = json.loads((tmp_path / "runs" / name / "result.json").read_text())
        assert "accuracy" in output and result["model"]["from_scratch"] == bool(options)
        states[name] = fairseq_commands.load(tmp_path / "runs" / name / "checkpoints")["model"]
    a, b, pretrained = states.values()
    assert all(a[key].equal(b[key]) for key in b)
    key = "encoder.sentence_encoder.layers.0.fc1.weight"
    assert not b[key].allclose(pretrained[key], atol=0.1)


@pytest.mark.slow
def test_diverging_training_error_names_the_update(finetune, masked_lm, tmp_path):
    output = finetune(masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 1e30, "--name", "wild")
    assert re.search(r"wild failed: FloatingPointError: gradients are Nan/Inf; .* checkpoint", output), output
    assert not (tmp_path / "runs/wild/done").exists() and not (tmp_path / "runs/wild/result.json").exists()


def test_error_names_the_last_checkpoint(tmp_path, monkeypatch):
    training = SimpleNamespace(folder=tmp_path, name="cats")
    for name in ("checkpoints", "logs"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoints/checkpoint_last.pt").touch()
    line = "2026 | ERROR | rank | rank 0 of 1 on here failed: FloatingPointError: update 9: gradients are Nan/Inf"
    monkeypatch.setattr(local.run_folder, "create_or_resume", lambda training: [])
    monkeypatch.setattr(
        local,
        "start_worker",
        lambda training: subprocess.Popen(
            [sys.executable, "-c", f"print({line!r}); exit(1)"], stdout=subprocess.PIPE, text=True
        ),
    )
    with pytest.raises(
        ValueError, match="cats failed: FloatingPointError: update 9: .*; the last checkpoint is .*/checkpoint_last.pt;"
    ):
        local.train(training, "finetune.txt", 9)
    assert not (tmp_path / "done").exists()


def test_run_resumes_only_from_the_same_origin(masked_lm, glue, tmp_path):
    """A checkpoint of an ongoing pretraining, or data that was prepared again, changes under the same name."""
    (tmp_path / "base").mkdir()
    for path in masked_lm.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path / "base")
    checkpoint = tmp_path / "base" / "checkpoint_last.pt"
    job = FinetuningJob(
        TASKS["sst-2"],
        str(checkpoint),
        [Recipe(batch_size=4, epochs=1)],
        "r",
        str(tmp_path / "data"),
        str(tmp_path / "runs"),
        data_options=DataOptions(str(glue)),
    )
    start = job.prepare()
    (training,) = job.build_trainings(start)
    fields = job.result_fields(job.recipes[0], start)
    single_run.record_origin(training, {**fields, "data": "of a submission that was rejected"})
    for _ in range(2):
        single_run.record_origin(training, fields)
        assert run_folder.is_new(training)
    run_folder.create_or_resume(training)
    single_run.record_origin(training, fields)
    origin = training.folder / single_run.ORIGIN
    kept = origin.read_text()
    origin.write_text("[]")
    with pytest.raises(ValueError, match="origin.json is damaged; choose another --name"):
        single_run.check(training, fields)
    origin.write_text(kept)
    with open(checkpoint, "ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match="r started from a different model"):
        single_run.record_origin(
            training, job.result_fields(job.recipes[0], open_initial_checkpoint(checkpoint, tmp_path / "runs"))
        )
    facts = job.result_fields(job.recipes[0], start)
    with pytest.raises(ValueError, match="r started from a different data"):
        single_run.finetune(job.task, training, {**facts, "data": "other"})
    assert not list((training.folder / "checkpoints").glob("*.pt"))


@pytest.mark.slow
def test_signal_saves_and_rerunning_resumes(finetune, masked_lm, tmp_path):
    """The command receives the signal and forwards it to its worker."""
    log = tmp_path / "runs/stop/logs/finetune.txt"
    words = (masked_lm / "checkpoint_last.pt", "--name", "stop", *SHORT, "--max-epoch", 400, "common.log_interval=1")

    def stop_at(update):
        """Terminate this process, which runs the command, after that update."""
        while not log.exists() or f'"num_updates": "{update}"' not in log.read_text():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    updates = 0
    for _ in range(2):
        threading.Thread(target=stop_at, args=(updates + 5,), daemon=True).start()
        assert finetune(*words) == "130" and (tmp_path / "runs/stop/stopped").exists()
        assert f'"num_updates": "{updates + 1}"' in log.read_text()
        saved = fairseq_commands.load(tmp_path / "runs/stop/checkpoints")["optimizer_history"][-1]["num_updates"]
        assert saved >= updates + 5
        updates = saved
    assert len((tmp_path / "runs/stop/attempts.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_grid(finetune, masked_lm, tmp_path):
    words = (*SHORT[2:], "--max-epoch", 1, "--grid", "--lr", "1e-3,5e-3", "--seed", "1", "--name", "grid")
    checkpoint = masked_lm / "checkpoint_last.pt"
    assert "is not prepared" in finetune(checkpoint, *words, "--dry-run") and not (tmp_path / "data").exists()
    output = finetune(checkpoint, *words)
    assert re.search(
        r"seed 1:\nsst-2 valid: accuracy .* to .*; 12 rows\n.* best epoch: .*checkpoint_best.pt", output
    ), output
    assert {path.parent.name for path in (tmp_path / "runs/grid").glob("*/result.json")} == {
        "lr0.001-batch4-seed1",
        "lr0.005-batch4-seed1",
    }
    assert re.search(r"sst-2: accuracy \d+\.\d\d %, median over one seed, lr 0.00[15], batch size 4", output)
    dry = finetune(checkpoint, *words, "--slurm", "--dry-run", "--partition=gpu")
    assert "all runs of grid are trained" in dry
    files = sorted(tmp_path.rglob("*"))
    assert "grid: valid; unfinished runs: 2 of 4" in finetune(checkpoint, *words, "--seed", "1,2", "--dry-run")
    assert "has 8 rows truncated to n = 16" in finetune(checkpoint, *words, "--max-positions", 32, "--dry-run")
    assert "--lr must be above 0" in finetune(checkpoint, *words, "--lr", 0, "--dry-run")
    assert sorted(tmp_path.rglob("*")) == files


@pytest.mark.slow
def test_grid_through_slurm(finetune, masked_lm, glue, tmp_path, monkeypatch):
    monkeypatch.chdir(fairseq_commands.CONFIGS.parent)
    words = (
        masked_lm / "checkpoint_last.pt",
        "--grid",
        "--lr",
        "1e-5,2e-5",
        "--seed",
        "1,2",
        "--slurm",
        "--dry-run",
        "--partition=gpu",
        "--name",
        "g",
    )
    assert "data is not prepared" in finetune(*words) and not (tmp_path / "data").exists()
    checkpoint = open_initial_checkpoint(masked_lm / "checkpoint_last.pt", tmp_path / "runs")
    prepare_data(TASKS["sst-2"], tmp_path / "data", checkpoint, DataOptions(str(glue)))
    output = finetune(*words)
    assert (
        output.count("starts at update 0") == 4
        and "--array=0-3" in output
        and "--partition=gpu" in output
        and "nothing was submitted" in output
    )
    assert "--nodes=2 cannot be passed to sbatch" in finetune(*words, "--nodes=2")
    resized = open_initial_checkpoint(masked_lm / "checkpoint_last.pt", tmp_path / "runs", 8, dry_run=True)
    prepare_data(TASKS["sst-2"], tmp_path / "short", resized, DataOptions(str(glue)))
    short = {"folder": tmp_path / "short"}
    assert finetune(*words, "--max-positions", 8, **short).count("starts at update 0") == 4
    single = (masked_lm / "checkpoint_last.pt", "--max-positions", 8, "--name", "s", "--dry-run")
    assert "s: valid; unfinished runs: 1 of 1" in finetune(*single, **short)
    assert not (tmp_path / "runs").exists()
