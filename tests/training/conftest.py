"""The command that finetunes."""

import pytest

from ..forked_worker import quick_workers  # noqa: F401


@pytest.fixture
def finetune(command, tmp_path, glue):
    def finetune(checkpoint, *words, task="sst-2", folder=tmp_path / "data"):
        paths = ["--runs", tmp_path / "runs", "--data", folder, "--source", glue]
        return command("finetune", task, checkpoint, *paths, "--device", "cpu", *words)

    return finetune


SHORT = ("--max-epoch", 2, "--batch-size", 4, "dataset.num_workers=0", "dataset.data_buffer_size=0")
