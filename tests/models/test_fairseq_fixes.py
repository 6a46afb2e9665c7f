"""Fixes of fairseq for everybody."""

import json
import math
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import fairseq_cli.train
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.criterions import sentence_prediction
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.data import Dictionary
from fairseq.data.iterators import BackgroundConsumer
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from fairseq_linformer.models import fairseq_fixes
from fairseq_linformer.models.fairseq_fixes import find_beginnings

from ..fairseq_commands import PLUGIN, TINY, TRAIN, finetune, free_port, load, train


def configure(**common):
    cfg = OmegaConf.structured(FairseqConfig)
    OmegaConf.update(cfg, "common", common)
    cfg.distributed_training.distributed_world_size = 1
    return cfg


@pytest.mark.parametrize("words, tpu", [([], False), (["--tpu"], True)])
def test_bf16_is_for_a_gpu(monkeypatch, words, tpu):
    """As fairseq's parser leaves it: ``--bf16`` has set ``tpu``."""
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "data", "--bf16", *words])
    seen = []
    distributed_utils.call_main(configure(bf16=True, tpu=True), lambda cfg: seen.append(cfg.common.tpu))
    assert seen == [tpu]


@pytest.mark.slow
def test_masks_differ_between_epochs(mlm_data):
    task = MaskedLMTask.setup_task(
        MaskedLMConfig(
            data=mlm_data, tokens_per_sample=16, sample_break_mode="complete", seed=1, shorten_data_split_list=""
        )
    )
    task.load_dataset("train")
    batches = task.get_batch_iterator(task.datasets["train"], max_sentences=8, num_workers=2, data_buffer_size=0)
    masked = [
        {
            int(i): tuple(row.tolist())
            for batch in batches.next_epoch_itr(shuffle=False)
            for i, row in zip(batch["id"], batch["net_input"]["src_tokens"])
        }
        for _ in range(2)
    ]
    assert masked[0].keys() == masked[1].keys() and len(masked[0]) > 50
    assert sum(masked[0][i] != masked[1][i] for i in masked[0]) > 0.9 * len(masked[0])


def test_whole_words_are_masked(pieces):
    """All tokens of a word, or none."""
    options = {"tokens_per_sample": 16, "sample_break_mode": "complete", "shorten_data_split_list": ""}
    task = MaskedLMTask.setup_task(MaskedLMConfig(data=str(pieces), mask_whole_words=True, seed=1, **options))
    task.load_dataset("train")
    dataset, words = task.datasets["train"], []
    for i in range(len(dataset)):
        for token, target in zip(task.datasets["train"][i]["net_input.src_tokens"], dataset[i]["target"]):
            original, is_masked = int(target if target != 1 else token), bool(target != 1)
            if original < 4 or task.source_dictionary[original].startswith("\u2581"):
                words.append([])
            words[-1].append(is_masked)
    assert any(len(word) > 1 and all(word) for word in words) and all(len(set(word)) == 1 for word in words)


def test_beginnings_of_words(tmp_path):
    def beginnings(*symbols):
        dictionary = Dictionary()
        for symbol in symbols:
            dictionary.add_symbol(symbol)
        return find_beginnings(tmp_path, dictionary).tolist()[4:]

    assert beginnings("low", "##er", "<mask>") == [1, 0, 1]
    assert beginnings("\u2581low", "er", "<mask>") == [1, 0, 1]
    with pytest.raises(ValueError, match="--mask-whole-words needs the tokenizer's encoder.json in"):
        beginnings("0", "1")
    # GPT-2's tokens of number signs are no WordPiece.
    (tmp_path / "encoder.json").write_text(json.dumps({"\u0120low": 0, "er": 1, "##": 2, "\u0120new": 3}))
    assert beginnings("1", "0", "2", "3", "madeupword0000") == [0, 1, 0, 1, 0]


CUDA_ERROR = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 15.77 GiB of which ..."


@pytest.mark.slow
def test_training_ends_at_the_first_batch_that_does_not_fit(mlm_data, tmp_path, monkeypatch):
    """Without the fix fairseq skips every batch, in one epoch after another."""
    batches = []

    def fail(self, model, sample, reduce=True):
        batches.append(sample)
        if len(batches) > 20:  # fairseq goes on
            raise KeyboardInterrupt
        raise torch.OutOfMemoryError(CUDA_ERROR)

    monkeypatch.setattr(MaskedLmLoss, "forward", fail)
    with pytest.raises(RuntimeError, match="update 1: the GPU is full: allocating 2.50 GiB failed; lower --batch-size"):
        train(mlm_data, tmp_path)
    assert len(batches) == 1


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--restore-file", "--continue-once"])
def test_a_missing_checkpoint_to_start_from_is_rejected(option, mlm_data, tmp_path):
    with pytest.raises(ValueError, match="start from a checkpoint, got .*lost.pt, which does not exist"):
        train(mlm_data, tmp_path, option, tmp_path / "lost.pt")


@pytest.mark.slow
def test_a_checkpoint_without_the_head_of_its_task_is_not_evaluated(mlm_data, class_data, tmp_path):
    """As a pretrained one, which fairseq would evaluate with a random head."""
    finetune(class_data, tmp_path, *TINY, updates=1)
    checkpoint = load(tmp_path)
    checkpoint["model"] = {
        key: value for key, value in checkpoint["model"].items() if "classification_heads" not in key
    }
    torch.save(checkpoint, tmp_path / "headless.pt")
    checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "checkpoint_last.pt")])
    with pytest.raises(ValueError, match="headless.pt must have its task's classification head"):
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "headless.pt")])


@pytest.mark.slow
def test_numpys_removed_names(mlm_data, tmp_path):
    assert train(mlm_data, tmp_path, "--sample-break-mode", "eos", updates=1)


@pytest.mark.nightly
def test_torchrun_on_cpus_trains_one_model(mlm_data, tmp_path):
    """With torchrun and fairseq as they are, and fairseq's default backend of data parallelism."""
    program = Path(sys.executable).with_name("fairseq-train")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    options = [*TRAIN, *TINY, "--save-dir", tmp_path, "--max-update", 2, "--batch-size", 4]
    command = [*launcher, program, mlm_data, "--user-dir", PLUGIN, *options]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "training on 2 devices" in done.stdout + done.stderr
    assert load(tmp_path)["optimizer_history"][-1]["num_updates"] == 2


def test_processes_of_torchrun_do_not_train_a_model_each(monkeypatch):
    """``fairseq-hydra-train`` imports the plugin too late to start them as one job."""
    for name, value in zip(fairseq_fixes.TORCHRUN, ("127.0.0.1", "29500", "2", "0"), strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="fairseq-hydra-train under torchrun needs .*distributed_init_method=env://"):
        Trainer(configure(), None, None, None)


@pytest.mark.parametrize("moment", ["copyfile", "replace"])
def test_a_killed_copy_leaves_the_old_checkpoint(moment, tmp_path, monkeypatch):
    """Copies of checkpoints, as to ``checkpoint_best.pt``."""
    new, best = tmp_path / "checkpoint_1_3.pt", tmp_path / "checkpoint_best.pt"
    new.write_bytes(b"new"), best.write_bytes(b"old")

    class Killed(BaseException):
        """In place of SIGKILL."""

    def die(source, target):
        Path(target).write_bytes(b"n") if moment == "copyfile" else None
        raise Killed

    with monkeypatch.context() as patches:
        patches.setattr(shutil if moment == "copyfile" else os, moment, die)
        with pytest.raises(Killed):
            PathManager.copy(str(new), str(best), overwrite=True)
    assert best.read_bytes() == b"old"
    assert PathManager.copy(str(new), str(best), overwrite=True) and best.read_bytes() == b"new"
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.slow
def test_nan_is_never_the_best_metric(mlm_data, tmp_path, monkeypatch):
    """Each validation is better than the one before, except the last two. --patience counts NaN as worse."""
    losses = [float("nan"), float("inf"), 5, 4, 3, float("nan"), 4, 1]
    monkeypatch.setattr(fairseq_cli.train, "validate", lambda *arguments: [losses.pop(0)])
    monkeypatch.setattr(fairseq_cli.train, "should_stop_early", partial(fairseq_cli.train.should_stop_early))
    options = ["--validate-interval-updates", 1, "--save-interval-updates", 1, "--patience", 2]
    train(mlm_data, tmp_path, *options, updates=8, validation=True)
    best, last = (
        load(tmp_path, f"checkpoint_{name}.pt")["optimizer_history"][-1]["num_updates"] for name in ("best", "last")
    )
    assert (best, last) == (5, 7)


LOADING = """
import torch
import fairseq_linformer.models
from fairseq.data.iterators import BufferedIterator

class Batches(list):
    def __iter__(self):
        for batch in super().__iter__():
            yield sum(torch.ones(500, 500) @ torch.ones(500, 500) for _ in range(20))

print(len(next(BufferedIterator(10, Batches(range(1000))))))
"""


def test_a_program_ends_while_batches_are_loaded():
    """Without the fix it is aborted."""
    ended = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "500\n"), ended.stderr


@pytest.mark.slow
def test_a_validation_that_is_cut_short_leaves_no_thread(mlm_data, tmp_path):
    """It has more batches than the queue, which its thread would wait for."""
    before = {thread for thread in threading.enumerate() if isinstance(thread, BackgroundConsumer)}
    options = ("--max-valid-steps", "1", "--batch-size-valid", "1", "--validate-interval-updates", "1")
    train(mlm_data, tmp_path, *options, updates=6, validation=True)
    after = {thread for thread in threading.enumerate() if isinstance(thread, BackgroundConsumer)}
    assert len(after - before) <= 1  # of training


def test_correlation_of_a_batch_with_one_row_is_nan():
    assert all(map(math.isnan, sentence_prediction.pearson_and_spearman([0.3], [0.7]).values()))
