"""The configuration of a job, and configurations that are rejected before it is queued."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from fairseq_linformer.resources import CONFIGS
from fairseq_linformer.training.job import TrainingJob, quote, run_name

BASE = "configs/pretrain/base.yaml"


@pytest.mark.parametrize(
    "config, overrides, name",
    [
        (BASE, ["+run=n512-k128-headwise", "+gpus=x64", "task.data=a:b"], "n512-k128-headwise"),
        (BASE, ["model.dropout=0", "common.seed=3", "common.log_interval=5"], "base,dropout=0,seed=3"),
        ("configs/pretrain/run/n1024-roberta.yaml", ["optimization.lr=[0.001]"], "n1024-roberta,lr=_0.001_"),
    ],
)
def test_run_name(config, overrides, name):
    assert run_name(config, overrides) == name


@pytest.mark.parametrize("processes, gpus", [(1, []), (16, ["+gpus=x8"]), (8, ["+gpus=x128"])])
def test_tokens_per_update_are_preserved(processes, gpus, mlm_data):
    cfg = TrainingJob(BASE, ("+run=n1024-k256-layerwise", f"task.data={mlm_data}", *gpus), processes).cfg
    assert cfg.distributed_training.distributed_world_size == processes
    assert cfg.optimization.update_freq == [128 // processes]
    assert cfg.dataset.batch_size * cfg.task.tokens_per_sample * cfg.optimization.update_freq[0] * processes == 1 << 20


def test_paths_are_made_absolute(mlm_data, tmp_path, monkeypatch):
    """Workers change to the run folder."""
    for name in ("start.pt", "teacher.pt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    config, data = str(CONFIGS / "distill" / "base.yaml"), os.path.relpath(mlm_data)
    words = (f"task.data={data}:{data}", "checkpoint.finetune_from_model=start.pt", "criterion.teacher=teacher.pt")
    cfg = TrainingJob(config, words).cfg
    assert [Path(part).resolve() for part in cfg.task.data.split(":")] == 2 * [Path(mlm_data).resolve()]
    assert os.path.isabs(cfg.task.data) and cfg.criterion.teacher == str(tmp_path / "teacher.pt")
    assert cfg.checkpoint.finetune_from_model == str(tmp_path / "start.pt")
    assert cfg.checkpoint.restore_file == "checkpoint_last.pt"
    job = TrainingJob(BASE, (f"task.data={mlm_data}", "checkpoint.restore_file=start.pt"))
    assert job.cfg.checkpoint.restore_file == str(tmp_path / "start.pt")
    with pytest.raises(ValueError, match="criterion.teacher is not set; add criterion.teacher=PATH"):
        TrainingJob(config, words[:2]).cfg


@pytest.mark.parametrize("value", ["a 'b' c", "a\\b", "end\\", "\\'", "%(x)s | [1, 2] = {3}", "", None, True, [1, 2]])
def test_hydra_reads_quoted_values_unchanged(value):
    assert OverridesParser.create().parse_override(f"x={quote(value)}").value() == value


@pytest.mark.parametrize(
    "override",
    [
        "+hydra.callbacks.x={{_target_: os.mkdir, path: {folder}}}",
        "+hydra.job.env_set={{LD_PRELOAD: {folder}}}",
        "hydra.job_logging.handlers.console.class=os.system",
        "+model.x={{_target_: os.mkdir, path: {folder}}}",
    ],
)
def test_a_hostile_configuration_runs_no_code(override, mlm_data, tmp_path):
    folder = tmp_path / "executed"
    with suppress(ValueError):
        TrainingJob(BASE, (f"task.data={mlm_data}", override.format(folder=folder)), 1, "cpu").cfg
    assert not folder.exists() and os.environ.get("LD_PRELOAD") != str(folder)
