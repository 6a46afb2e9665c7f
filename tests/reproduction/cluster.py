"""The paper's scale without a cluster. Fixtures are imported from here."""

import copy
from functools import cache

import pytest
import yaml
from omegaconf import OmegaConf

from fairseq_linformer.cli import main
from fairseq_linformer.planning.configs import compose_config
from fairseq_linformer.reproduction import paper_scale, scoring

from ..launching.jobs import ROOT


@cache
def composed(config: str, overrides: tuple[str, ...]):
    """``compose_config``, which takes a second, once for runs that differ in single values."""
    files = tuple(word for word in overrides if "." not in word.partition("=")[0])
    cfg = copy.deepcopy(_composed(config, files))
    for word in overrides:
        if word not in files:
            key, value = word.lstrip("+").split("=")
            OmegaConf.update(cfg, key, yaml.safe_load(value), force_add=True)
    return cfg


@cache
def _composed(config: str, overrides: tuple[str, ...]):
    return compose_config(config, overrides)


@pytest.fixture(autouse=True)
def cluster(monkeypatch, tmp_path):
    """The root of the repository, and an sbatch that takes every job."""
    monkeypatch.chdir(ROOT)
    for name in ("NODES", "NTASKS_PER_NODE", "RUNS", "NAME", "CONFIG", "PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setattr(scoring, "check_last_checkpoint", lambda run: None)  # a tiny model stands for all of them
    monkeypatch.setattr("fairseq_linformer.launching.slurm.check_run", lambda training: [])
    monkeypatch.setattr(paper_scale, "compose_config", lambda config, words: composed(config, tuple(words)))
    sbatch = tmp_path / "bin/sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/submitted\necho Submitted batch job 7\n')
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:/usr/bin:/bin")
    (tmp_path / "ledger").mkdir()


@pytest.fixture
def paper(capsys, tmp_path):
    """``reproduce NAME --scale paper``; its error or its output."""

    def paper(name, *words):
        try:
            main(
                [
                    "reproduce",
                    name,
                    "--scale",
                    "paper",
                    "--runs",
                    str(tmp_path / "runs"),
                    "--results",
                    str(tmp_path / "ledger"),
                    *map(str, words),
                ]
            )
        except SystemExit as end:
            return str(end.code)
        return capsys.readouterr().out

    return paper
