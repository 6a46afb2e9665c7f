"""``fairseq-linformer finetune`` from a checkpoint to scores, and what it refuses."""

import json
import re
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.huggingface import to_huggingface
from fairseq_linformer.cli import main
from fairseq_linformer.finetuning import data, recipe, run
from fairseq_linformer.finetuning.finetune import Job
from fairseq_linformer.finetuning.recipe import Recipe, grid
from fairseq_linformer.finetuning.start import open_start
from fairseq_linformer.launching import local, run_folder
from fairseq_linformer.reproduce import ledger
from fairseq_linformer.task_data.table import TASKS

from .. import stock
from ..trained import ROWS

@pytest.fixture
def command(capsys, tmp_path):
    def command(*words):
        try:
            main([*map(str, words)])
        except SystemExit as end:
            return str(end.code)
        return capsys.readouterr().out

    return command


@pytest.fixture
def finetune(command, tmp_path, glue):
    def finetune(checkpoint, *words, task="sst-2", folder=tmp_path / "data"):
        return command("finetune", task, checkpoint, "--runs", tmp_path / "runs", "--data", folder, "--source", glue, "--device", "cpu", *words)

    return finetune


SHORT = ("--epochs", 2, "--batch-size", 4, "dataset.num_workers=0", "dataset.data_buffer_size=0")


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

    entry = ledger.read(next((tmp_path / "ledger").glob("*.json")))
    assert entry.measured["valid accuracy"].value == pytest.approx(100 * accuracy) and entry.configuration["recipes"][0]["lr"] == 5e-3
    assert "train.tsv" in entry.data and entry.paper["value"] is None and entry.commit and entry.hardware["cores"]
    command_ = "finetune sst-2 checkpoint_last.pt dataset.num_workers=0 dataset.data_buffer_size=0 --data data --source SST-2 --epochs 2 --lr 0.005"
    assert f"{command_} --batch-size 4 --device cpu" in entry.command and str(tmp_path) not in entry.command

    before = (tmp_path / "runs/cats/result.json").stat().st_mtime_ns
    assert finetune(*words).splitlines()[0] == said.splitlines()[0]
    assert (tmp_path / "runs/cats/result.json").stat().st_mtime_ns == before  # nothing is done twice
    assert "data was not made with --cut head+tail" in finetune(*words, "--cut", "head+tail")
    assert "has nothing of sst-2" in finetune(*words, "--source", tmp_path)
    assert finetune(*words, "--sentencepiece", masked_lm / "sentencepiece.bpe.model").splitlines()[0] == said.splitlines()[0]
    assert "holds another configuration: model.dropout" in finetune(*words, "model.dropout=0.3")
    assert "model.sharing=none is given; the checkpoint says what the model is" in finetune(*words, "model.sharing=none")
    manifest = tmp_path / "data/manifest.json"
    manifest.write_text(manifest.read_text().replace('"written": 24', '"written": 23'))
    assert "cats is of another data, which has changed under its name" in finetune(*words)
    other = finetune(masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 1e-3, "--name", "cats")
    assert re.search(r"holds another configuration: optimization.lr is \[0.005\] there and \[0.001\] here", other)


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


@pytest.mark.slow
def test_a_grid(finetune, masked_lm, tmp_path):
    words = (*SHORT[2:], "--epochs", 1, "--grid", "--lr", "1e-3,5e-3", "--seed", "1", "--name", "grid")
    said = finetune(masked_lm / "checkpoint_last.pt", *words)
    assert re.search(r"of it the run of seed 1:\nsst-2 valid: accuracy .* to .*; 12 rows\nthe checkpoint of the best epoch: .*checkpoint_best.pt", said), said
    assert {path.parent.name for path in (tmp_path / "runs/grid").glob("*/result.json")} == {"lr0.001-batch4-seed1", "lr0.005-batch4-seed1"}
    assert re.search(r"sst-2: accuracy \d+\.\d\d %, the median over one seed at lr 0.00[15], batches of 4", said)
    dry = finetune(masked_lm / "checkpoint_last.pt", *words, "--slurm", "--dry-run", "--partition=gpu")
    assert "all runs of grid are trained; the same command without --slurm reports them" in dry


def test_a_grid_through_slurm(finetune, masked_lm, glue, tmp_path, monkeypatch):
    monkeypatch.chdir(stock.CONFIGS.parent)
    words = (masked_lm / "checkpoint_last.pt", "--grid", "--lr", "1e-5,2e-5", "--seed", "1,2", "--slurm", "--dry-run", "--partition=gpu", "--name", "g")
    assert "data is not prepared yet, and --dry-run writes nothing" in finetune(*words) and not (tmp_path / "data").exists()
    data.ready(TASKS["sst-2"], tmp_path / "data", open_start(masked_lm / "checkpoint_last.pt", tmp_path / "runs"), str(glue))
    said = finetune(*words)
    assert said.count("starts at update 0") == 4 and "--array=0-3" in said and "--partition=gpu" in said and "nothing was submitted" in said
    assert not (tmp_path / "runs/g").exists()


@pytest.mark.parametrize("n", [None, 8])
@pytest.mark.parametrize("kind", ["ours", "none", "roberta", "authors"])
def test_any_checkpoint_at_any_length(kind, n, trained, pieces, glue, mlm_data, tmp_path):
    """The overrides build its model, and its weights are in it."""
    options = {"ours": (), "none": ("--sharing", "none", "--projected-dim", "8/4"), "authors": ("--projection-init", "normal", "--freeze-projections")}
    if kind == "roberta":
        folder = tmp_path / "roberta"
        sizes = ["--encoder-layers", "2", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "32", "--encoder-attention-heads", "2"]
        stock.train(mlm_data, folder, model=["--arch", "roberta", *sizes], updates=1)
    else:
        folder = trained(*options[kind])
    start = open_start(folder / "checkpoint_last.pt", tmp_path / "runs", n)
    assert start.max_positions == (n or 16) and (start.path == start.given) == (n is None)
    classes = tmp_path / "classes"
    stock.classification_data(classes)
    overrides = Recipe(batch_size=8, epochs=1).overrides(TASKS["sst-2"], start, classes)
    stock.hydra_train(classes, tmp_path / "save", *overrides, "common.fp16=false", "common.cpu=true", "optimization.max_update=1", "optimization.lr=[0]",
                      "optimization.stop_min_lr=-1", "dataset.num_workers=0", "common.tensorboard_logdir=null", group="finetune")  # fmt: skip
    before, after = torch.load(start.path, weights_only=True)["model"], stock.load(tmp_path / "save")["model"]
    assert any(key.startswith("classification_heads") for key in after)
    for key, value in before.items():
        torch.testing.assert_close(after[key], value, rtol=0, atol=0, msg=key)


def test_the_recipe_is_robertas(masked_lm, tmp_path):
    start = open_start(masked_lm / "checkpoint_last.pt", tmp_path)
    classes = tmp_path / "classes"
    stock.classification_data(classes)
    said = dict(word.split("=", 1) for word in Recipe().overrides(TASKS["sst-2"], start, classes))
    assert said["lr_scheduler.total_num_update"] == "40" and said["lr_scheduler.warmup_updates"] == "2"  # 120 rows, batches of 32, 10 epochs
    assert said["optimization.lr"] == "[1e-05]" and said["dataset.batch_size"] == "32" and said["optimization.max_epoch"] == "10"
    assert dict(word.split("=", 1) for word in Recipe().overrides(TASKS["sst-2"], start, classes, True))["checkpoint.finetune_from_model"] == "null"
    for task in TASKS:
        assert (recipe.CONFIGS / "task" / f"{task}.yaml").is_file()


@pytest.mark.parametrize("words, said", [
    (["{lost}"], "lost.pt is not a file; a checkpoint of fairseq is wanted"),
    (["{ckpt}", "--lr", "0"], "--lr is 0.0; it must be above 0"),
    (["{ckpt}", "--epochs", "0"], "--epochs is 0; it must be at least 1"),
    (["{ckpt}", "--batch-size", "0"], "--batch-size is 0; it must be at least 1"),
    (["{ckpt}", "--lr", "1e-5,2e-5"], "--lr has several values; --grid runs them all"),
    (["{ckpt}", "--grid", "--seed", "1,1"], "--seed has a value twice: 1, 1"),
    (["{ckpt}", "--slurm"], "--slurm is given without --grid"),
    (["{ckpt}", "--dry-run"], "--dry-run is given without --slurm"),
    (["{ckpt}", "--partition=gpu"], "--partition=gpu is no option; with --slurm it would go to sbatch"),
    (["{ckpt}", "nonsense"], "nonsense is no override; KEY=VALUE is wanted"),
    (["{ckpt}", "--name", "../up"], "--name is ../up; it must be a folder below"),
    (["{ckpt}", "--max-positions", "0"], "--max-positions is 0; it must be between 1 and"),
    (["{ckpt}", "--max-positions", "100000000"], "--max-positions is 100000000; it must be between 1 and"),
    (["{ckpt}", "--seed", "99999999999"], "--seed is 99999999999; it must be from 0 to"),
    (["{ckpt}", "common.seed=5"], "common.seed=5 is given; --seed says it"),
    (["{ckpt}", "model.max_positions=8"], "model.max_positions=8 is given; --max-positions says it"),
    (["{ckpt}", "optimization.max_epoch=1"], "optimization.max_epoch=1 is given; --epochs says it"),
    (["{ckpt}", "distributed_training.distributed_world_size=4"], "distributed_training.distributed_world_size=4 is given; it is part of the recipe"),
    (["{ckpt}", "+dataset.max_tokens=100"], "dataset.max_tokens=100 is given; it is part of the recipe"),
    (["{ckpt}", "dataset.disable_validation=true"], "dataset.disable_validation=true is given; it is part of the recipe"),
    (["{ckpt}", "--ledger", "{lost}"], "--ledger is .*lost.pt; a folder that can be written is wanted"),
    (["{ckpt}", "optimization.nope=3"], "^.{,220}$"),
    (["{ckpt}", "model.droput=1"], "droput"),
    (["{ckpt}", "optimizer.adam_betas=abc"], "fairseq cannot build the optimizer"),
    (["{bare}"], "there is no tokenizer beside .*; --sentencepiece or --gpt2 says which"),
    (["{ckpt}", "--sentencepiece", "{lost}"], "lost.pt is not a file; --sentencepiece needs a model file"),
    (["{hub}", "--gpt2", "x"], "--data is given; it is for a checkpoint of fairseq, and nobody/nothing is not a file"),
])  # fmt: skip
def test_what_is_refused(words, said, finetune, masked_lm, tmp_path):
    (tmp_path / "bare").mkdir()
    shutil.copy(masked_lm / "checkpoint_last.pt", tmp_path / "bare")
    places = dict(ckpt=masked_lm / "checkpoint_last.pt", lost=tmp_path / "lost.pt", bare=tmp_path / "bare/checkpoint_last.pt", hub="nobody/nothing")
    end = finetune(*(word.format(**places) for word in words))
    assert end.startswith("fairseq-linformer: ") and "\n" not in end and re.search(said, end), end
    assert not list(tmp_path.glob("runs/finetune*"))


def test_data_that_does_not_fit_is_refused(finetune, masked_lm, pieces, trained, tmp_path):
    ready = tmp_path / "ready"
    start = open_start(masked_lm / "checkpoint_last.pt", tmp_path / "runs")
    assert data.find_tokenizer(start).dictionary == (pieces / "dict.txt").read_text().splitlines()
    assert "--epochs is 0" in finetune(masked_lm / "checkpoint_last.pt", "--epochs", 0, folder=ready) and not ready.exists()
    shutil.copytree(pieces, ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "qnli", "max_positions": 16}))
    assert "ready holds qnli; sst-2 is wanted" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "sst-2", "max_positions": 32}))
    assert "has rows of up to 32 positions, the model has 16" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "sst-2", "max_positions": 8, "splits": {"train": {"cut": 3}, "valid": {"cut": 0}}}))
    assert "has 3 rows cut to 8 positions, the model has 16" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").unlink()
    assert "it is another dictionary" in finetune(trained() / "checkpoint_last.pt", folder=ready)
    lines = (ready / "input0/dict.txt").read_text().splitlines()
    (ready / "input0/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert re.search("is not the dictionary that .* was pretrained with: entry 4 is", finetune(masked_lm / "checkpoint_last.pt", folder=ready))


def test_a_number_of_numpy_in_a_checkpoint_is_data(masked_lm, tmp_path):
    """The correlation that is the best so far of STS-B."""
    checkpoint = torch.load(masked_lm / "checkpoint_last.pt", weights_only=True)
    checkpoint["extra_state"]["best"] = np.float64(0.5)
    torch.save(checkpoint, tmp_path / "checkpoint.pt")
    assert read_checkpoint(tmp_path / "checkpoint.pt")["extra_state"]["best"] == 0.5


def test_a_run_goes_on_from_what_it_began_from_alone(masked_lm, glue, tmp_path):
    """The checkpoint of a pretraining that still runs, or data that is prepared anew, is another under the same name."""
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
    with pytest.raises(ValueError, match="r is of another model, which has changed under its name since"):
        run.remember_origin(training, job.facts(job.recipes[0], open_start(checkpoint, tmp_path / "runs")))
    facts = job.facts(job.recipes[0], start)
    with pytest.raises(ValueError, match="r is of another data, which has changed"):
        run.finetune(job.task, training, {**facts, "data": "other"})
    assert not (training.folder / "config.yaml").exists()


def test_data_that_does_not_say_what_it_is_of_takes_no_options(finetune, masked_lm, pieces, tmp_path):
    assert "does not say what it was made of" in finetune(masked_lm / "checkpoint_last.pt", folder=pieces)


def test_every_combination_is_a_run():
    assert len({r.name for r in grid([1e-3, 1.0000001e-3], [16], [1])}) == 2
    assert [r.name for r in grid([1e-5, 2e-5], [16], [1, 2], 3)] == [f"lr{lr}-batch16-seed{seed}" for lr in ("1e-05", "2e-05") for seed in (1, 2)]


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
