"""``fairseq-linformer finetune`` from a checkpoint to scores, and through interruptions."""

import json
import re
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from fairseq_linformer.checkpoints.huggingface import to_huggingface
from fairseq_linformer.finetuning import data, run
from fairseq_linformer.finetuning.finetune import Job
from fairseq_linformer.finetuning.recipe import Recipe
from fairseq_linformer.finetuning.start import open_start
from fairseq_linformer.launching import local, run_folder
from fairseq_linformer.reproduction.records import read
from fairseq_linformer.task_data.table import TASKS

from .. import stock
from ..trained import ROWS
from .conftest import SHORT


@pytest.mark.slow
def test_from_a_checkpoint_to_scores(finetune, command, masked_lm, glue, tmp_path):
    words = (masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 5e-3, "--name", "cats")
    (tmp_path / "ledger").mkdir()
    said = finetune(*words, "--ledger", tmp_path / "ledger")
    best = tmp_path / "runs/cats/checkpoints/checkpoint_best.pt"
    result = json.loads((tmp_path / "runs/cats/result.json").read_text())
    accuracy = result["splits"]["valid"]["scores"]["accuracy"]["value"]
    assert f"accuracy {100 * accuracy:.2f} %" in said and f"{len(ROWS[::2]):,} rows" in said and str(best) in said
    log = (tmp_path / "runs/cats/logs/finetune.txt").read_text()
    assert max(map(float, re.findall(r'"valid_accuracy": "([^"]+)"', log))) == pytest.approx(100 * accuracy, abs=0.06)  # fairseq counts the same
    updates = re.findall(r'"train_num_updates": "(\d+)"', log)
    assert updates == [str(len(ROWS) // 4), str(len(ROWS) // 2)]

    # What lies beside the checkpoint is all that a user needs.
    assert command("evaluate", best, glue / "dev.tsv", "--json", tmp_path / "s.json") != ""
    assert json.loads((tmp_path / "s.json").read_text())["scores"]["accuracy"]["value"] == accuracy
    to_huggingface(best, tmp_path / "hf")
    assert command("evaluate", tmp_path / "hf", glue / "dev.tsv", "--json", tmp_path / "t.json") != ""
    assert json.loads((tmp_path / "t.json").read_text())["confusion"] == result["splits"]["valid"]["confusion"]

    entry = read(next((tmp_path / "ledger").glob("*.json")))
    m = entry.find("accuracy", split="valid")
    assert m.value == pytest.approx(100 * accuracy) and m.interval_kind == "confidence" and m.low < m.value < m.high
    assert entry.configuration["recipes"][0]["lr"] == 5e-3 and entry.made_by == "finetune"
    assert "train.tsv" in entry.data and entry.paper.value is None and entry.commit and entry.hardware["cores"]
    command_ = "finetune sst-2 checkpoint_last.pt dataset.num_workers=0 dataset.data_buffer_size=0 --data data --source SST-2 --epochs 2 --lr 0.005"
    assert f"{command_} --batch-size 4 --device cpu" in entry.command and str(tmp_path) not in entry.command

    before = (tmp_path / "runs/cats/result.json").stat().st_mtime_ns
    assert finetune(*words).splitlines()[0] == said.splitlines()[0]
    assert (tmp_path / "runs/cats/result.json").stat().st_mtime_ns == before  # nothing is done twice
    assert "--cut head+tail" in finetune(*words, "--cut", "head+tail")
    assert "nothing of sst-2" in finetune(*words, "--source", tmp_path)
    assert finetune(*words, "--sentencepiece", masked_lm / "sentencepiece.bpe.model").splitlines()[0] == said.splitlines()[0]
    assert "model.dropout" in finetune(*words, "model.dropout=0.3")
    assert "model.sharing=none" in finetune(*words, "model.sharing=none")
    manifest = tmp_path / "data/manifest.json"
    manifest.write_text(manifest.read_text().replace('"written": 24', '"written": 23'))
    assert "cats is of another data" in finetune(*words)
    other = finetune(masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 1e-3, "--name", "cats")
    assert re.search(r"optimization.lr is \[0.005\] there and \[0.001\] here", other)


@pytest.mark.slow
def test_training_that_diverges_stops_at_a_named_update(finetune, masked_lm, tmp_path):
    said = finetune(masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 1e30, "--name", "wild")
    assert re.search(r"training failed: FloatingPointError: update [1-9]\d*: gradients are Nan/Inf; .* checkpoint", said), said
    assert not (tmp_path / "runs/wild/done").exists() and not (tmp_path / "runs/wild/result.json").exists()


def test_the_last_good_checkpoint_is_named(tmp_path, monkeypatch):
    training = SimpleNamespace(folder=tmp_path)
    for name in ("checkpoints", "logs"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoints/checkpoint_last.pt").touch()
    line = "2026 | ERROR | rank | rank 0 of 1 on here failed: FloatingPointError: update 9: gradients are Nan/Inf"
    monkeypatch.setattr(local.run_folder, "create_or_resume", lambda training: [])
    monkeypatch.setattr(local, "start_worker", lambda training: subprocess.Popen([sys.executable, "-c", f"print({line!r}); exit(1)"], stdout=subprocess.PIPE, text=True))
    with pytest.raises(ValueError, match="failed: FloatingPointError: update 9: .*; the last good checkpoint is .*/checkpoint_last.pt;"):
        local.train(training, "finetune.txt", 9, "training")
    assert not (tmp_path / "done").exists()


def test_a_run_goes_on_from_what_it_began_from_alone(masked_lm, glue, tmp_path):
    """The checkpoint of a pretraining that still runs, or data prepared again, is another under the same name."""
    (tmp_path / "base").mkdir()
    for path in masked_lm.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path / "base")
    checkpoint = tmp_path / "base" / "checkpoint_last.pt"
    job = Job(TASKS["sst-2"], str(checkpoint), [Recipe(batch_size=4, epochs=1)], "r", str(tmp_path / "data"), str(tmp_path / "runs"), prepare={"source": str(glue)})
    start = job.start()
    (training,) = job.trainings(start)
    for _ in range(2):
        run.remember_origin(training, job.facts(job.recipes[0], start))
    assert run_folder.is_new(training)
    with open(checkpoint, "ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match="r is of another model"):
        run.remember_origin(training, job.facts(job.recipes[0], open_start(checkpoint, tmp_path / "runs")))
    facts = job.facts(job.recipes[0], start)
    with pytest.raises(ValueError, match="r is of another data"):
        run.finetune(job.task, training, {**facts, "data": "other"})
    assert not (training.folder / "config.yaml").exists()


@pytest.mark.slow
def test_told_to_stop_it_saves_and_goes_on(masked_lm, glue, tmp_path):
    words = ["finetune", "sst-2", masked_lm / "checkpoint_last.pt", "--runs", tmp_path / "runs", "--data", tmp_path / "data", "--source", glue, "--device", "cpu",
             "--name", "stop", *SHORT, "--epochs", "400", "common.log_interval=1"]  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "fairseq_linformer.cli", *map(str, words)], stderr=subprocess.PIPE, text=True, start_new_session=True,
                               cwd=stock.CONFIGS.parent)  # fmt: skip
    log = tmp_path / "runs/stop/logs/finetune.txt"
    while not log.exists() or '"num_updates": "20"' not in log.read_text():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.2)
    process.terminate()  # and not the group: it hands it on
    assert process.wait(60) == 130 and (tmp_path / "runs/stop/stopped").exists()
    updates = stock.load(tmp_path / "runs/stop/checkpoints")["optimizer_history"][-1]["num_updates"]
    assert updates >= 20
    process = subprocess.Popen([sys.executable, "-m", "fairseq_linformer.cli", *map(str, words)], stderr=subprocess.PIPE, text=True, start_new_session=True,
                               cwd=stock.CONFIGS.parent)  # fmt: skip
    while f'"num_updates": "{updates + 5}"' not in log.read_text():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.2)
    process.terminate()
    assert process.wait(60) == 130 and f'"num_updates": "{updates + 1}"' in log.read_text()
    assert len((tmp_path / "runs/stop/attempts.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_a_grid(finetune, masked_lm, tmp_path):
    words = (*SHORT[2:], "--epochs", 1, "--grid", "--lr", "1e-3,5e-3", "--seed", "1", "--name", "grid")
    said = finetune(masked_lm / "checkpoint_last.pt", *words)
    assert re.search(r"seed 1:\nsst-2 valid: accuracy .* to .*; 12 rows\n.* best epoch: .*checkpoint_best.pt", said), said
    assert {path.parent.name for path in (tmp_path / "runs/grid").glob("*/result.json")} == {"lr0.001-batch4-seed1", "lr0.005-batch4-seed1"}
    assert re.search(r"sst-2: accuracy \d+\.\d\d %, the median over one seed at lr 0.00[15], batches of 4", said)
    dry = finetune(masked_lm / "checkpoint_last.pt", *words, "--slurm", "--dry-run", "--partition=gpu")
    assert "all runs of grid are trained" in dry


def test_a_grid_through_slurm(finetune, masked_lm, glue, tmp_path, monkeypatch):
    monkeypatch.chdir(stock.CONFIGS.parent)
    words = (masked_lm / "checkpoint_last.pt", "--grid", "--lr", "1e-5,2e-5", "--seed", "1,2", "--slurm", "--dry-run", "--partition=gpu", "--name", "g")
    assert "data is not prepared yet" in finetune(*words) and not (tmp_path / "data").exists()
    data.ready(TASKS["sst-2"], tmp_path / "data", open_start(masked_lm / "checkpoint_last.pt", tmp_path / "runs"), str(glue))
    said = finetune(*words)
    assert said.count("starts at update 0") == 4 and "--array=0-3" in said and "--partition=gpu" in said and "nothing was submitted" in said
    assert not (tmp_path / "runs/g").exists()
