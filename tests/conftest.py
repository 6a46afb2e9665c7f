"""Shared data, and settings of all tests."""

import gc
import os
import sys

import pytest
import torch
from hydra.core.config_store import ConfigStore

from fairseq_linformer import machine

from . import fairseq_commands
from .checkpoint_fixtures import (  # noqa: F401  fixtures
    classifier,
    classifier_folder,
    glue,
    masked_lm,
    masked_lm_folder,
    pieces,
    train_checkpoint,
    train_roberta,
)
from .wheel import extra_environment, wheel, wheel_environment  # noqa: F401  fixtures

# The models have 16 dimensions: more threads would only slow them down.
torch.set_num_threads(1)

# To compose a configuration, hydra copies the store with all of fairseq's dataclasses, which takes a third of the time.
# ``ConfigStore.load`` copies what it returns.
ConfigStore.__deepcopy__ = lambda self, memo: self

# Modules and tests live until the end: with the default thresholds the garbage collector needs a tenth of the time to
# go through them again and again.
gc.set_threshold(100_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Nightly tests are slow, too."""
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker("slow")


@pytest.fixture(scope="session", autouse=True)
def datasets_cache(tmp_path_factory):
    """``datasets`` keeps what it reads with the files of the tests, also in other processes."""
    folder = tmp_path_factory.mktemp("datasets")
    os.environ["HF_DATASETS_CACHE"] = str(folder)
    if "datasets" in sys.modules:
        sys.modules["datasets"].config.HF_DATASETS_CACHE = folder


@pytest.fixture(autouse=True)
def clean_checkout(monkeypatch):
    """Tests measure as at a clean commit, whatever is being edited."""
    found = machine.current_commit
    monkeypatch.setattr(machine, "current_commit", lambda: found().removesuffix(machine.DIRTY))


@pytest.fixture
def command(capsys):
    """A function that runs ``fairseq-linformer`` with these words, and returns what it prints, or its error."""
    from fairseq_linformer.cli import main

    def command(*words):
        try:
            main([*map(str, words)])
        except SystemExit as end:
            return str(end.code)
        output = capsys.readouterr()
        return output.out or output.err

    return command


@pytest.fixture(scope="session")
def mlm_data(tmp_path_factory):
    return fairseq_commands.masked_lm_data(tmp_path_factory.mktemp("mlm"))


@pytest.fixture(scope="session")
def class_data(tmp_path_factory):
    return fairseq_commands.classification_data(tmp_path_factory.mktemp("classification"))
