"""Finetuning starts from all kinds of checkpoints, with RoBERTa's recipe."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fairseq_linformer.checkpoints.identify import identify
from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.training import initial_checkpoint
from fairseq_linformer.training.finetune import FinetuningJob, build_overrides
from fairseq_linformer.training.initial_checkpoint import open_initial_checkpoint, read_width
from fairseq_linformer.training.recipe import Recipe, scale_lr

from .. import fairseq_commands
from ..checkpoints.encoders import save_encoder


@pytest.mark.parametrize("kind", ["linformer", "roberta"])
@pytest.mark.slow
def test_all_kinds_of_checkpoints(kind, train_checkpoint, train_roberta, tmp_path):
    """The overrides build the checkpoint's model, and its weights are loaded."""
    own = "--sharing none --projected-dim 8/4 --projection-init normal --freeze-projections"
    path = train_roberta() if kind == "roberta" else train_checkpoint(*own.split()) / "checkpoint_last.pt"
    checkpoint = identify(path)
    start = open_initial_checkpoint(checkpoint, tmp_path / "runs")
    assert start.max_positions == 16 and start.path == path
    classes = tmp_path / "classes"
    fairseq_commands.classification_data(classes)
    recipe = Recipe(batch_size=8, epochs=1)
    overrides = build_overrides(
        FinetuningJob(TASKS["sst-2"], checkpoint, [recipe], "", str(classes)), start, recipe, 120
    )
    overrides += "common.fp16=false common.cpu=true common.tensorboard_logdir=null dataset.num_workers=0".split()
    overrides += "optimization.max_update=1 optimization.lr=[0] optimization.stop_min_lr=-1".split()
    fairseq_commands.hydra_train(classes, tmp_path / "save", *overrides, group="finetune")
    before = torch.load(start.path, weights_only=True)["model"]
    after = fairseq_commands.load(tmp_path / "save")["model"]
    assert any(key.startswith("classification_heads") for key in after)
    for key, value in before.items():
        torch.testing.assert_close(after[key], value, rtol=0, atol=0, msg=key)


def test_two_processes_convert_an_encoder_once(tmp_path, monkeypatch):
    save_encoder(tmp_path / "bert", "bert", True)
    read_model, begins, conversions = initial_checkpoint.read_model, threading.Barrier(2), []

    def convert(model):
        conversions.append(model)
        return read_model(model)

    def open_once(_):
        begins.wait()
        return open_initial_checkpoint(identify(tmp_path / "bert"), tmp_path / "runs").path

    monkeypatch.setattr(initial_checkpoint, "read_model", convert)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(open_once, range(2))
    assert first == second and first.exists() and len(conversions) == 1


def test_recipe_is_robertas(masked_lm, tmp_path):
    checkpoint = identify(masked_lm / "checkpoint_last.pt")
    start = open_initial_checkpoint(checkpoint, tmp_path)

    def overrides(**options):
        job = FinetuningJob(TASKS["sst-2"], checkpoint, [Recipe()], "", str(tmp_path), **options)
        return dict(word.split("=", 1) for word in build_overrides(job, start, Recipe(), rows=120))

    # 120 rows, batches of 32, 10 epochs
    assert (
        overrides().items()
        >= {
            "lr_scheduler.total_num_update": "40",
            "lr_scheduler.warmup_updates": "2",
            "optimization.lr": "[1e-05]",
            "dataset.batch_size": "32",
            "optimization.max_epoch": "10",
        }.items()
    )
    assert overrides(from_scratch=True)["checkpoint.finetune_from_model"] == "null"
    assert [scale_lr(1e-5, width) for width in (768, 384, 128)] == [1e-5, 1e-4, 5e-4]


def test_width_of_all_kinds_of_checkpoints(masked_lm, masked_lm_folder, tmp_path):
    bert = save_encoder(tmp_path / "bert", "bert", True)
    assert read_width(identify(bert)) == json.loads((bert / "config.json").read_text())["hidden_size"]
    assert read_width(identify(masked_lm / "checkpoint_last.pt")) == read_width(identify(masked_lm_folder)) == 16
    exported = open_initial_checkpoint(identify(masked_lm_folder), tmp_path / "runs").description
    assert exported["max_positions"] == 16 and exported["projected_dim"]  # converted back
