"""Fixes of fairseq for everybody."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import fairseq_cli.train
import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from omegaconf import OmegaConf

from fairseq_linformer.models.fairseq_fixes import check_half_precision

from ..fairseq_commands import load, train


def configure(**common):
    cfg = OmegaConf.structured(FairseqConfig)
    OmegaConf.update(cfg, "common", common)
    cfg.distributed_training.distributed_world_size = 1
    return cfg


@pytest.mark.parametrize("is_validation", [False, True])
@pytest.mark.parametrize("words, tpu", [([], False), (["--tpu"], True)])
def test_bf16_is_for_a_gpu(monkeypatch, is_validation, words, tpu):
    """As fairseq's parser leaves it: ``--bf16`` has set ``tpu``. Only fairseq-validate runs in autocast, because
    fairseq-train converts the model."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "data", "--bf16", *words])
    seen = {}

    def main(cfg, **kwargs):
        seen.update(tpu=cfg.common.tpu, bf16=cfg.common.bf16, autocast=torch.is_autocast_enabled("cuda"))

    options = dict(override_args=None) if is_validation else {}
    distributed_utils.call_main(configure(bf16=True, tpu=True), main, **options)
    assert seen == dict(tpu=tpu, bf16=True, autocast=is_validation)


@pytest.mark.parametrize("has_gpu, cpu, reason", [(False, False, "PyTorch finds none"), (True, True, "--cpu is set")])
@pytest.mark.parametrize("flag", ["bf16", "fp16", "memory_efficient_bf16", "memory_efficient_fp16"])
def test_half_precision_needs_a_gpu(monkeypatch, has_gpu, cpu, reason, flag):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    with pytest.raises(ValueError, match=f"--{flag.replace('_', '-')} needs a GPU, but {reason}; .*--amp"):
        check_half_precision(configure(**{flag: True}, cpu=cpu).common)
    check_half_precision(configure(cpu=cpu, amp=True).common)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    check_half_precision(configure(**{flag: True}).common)


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
