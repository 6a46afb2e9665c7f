"""Tokens in the environment reach no file and no output of a training job; ``cli/test_signals.py`` has the commands."""

import pytest

from .training.two_ranks import TwoRanks

SECRET = "hf_R7xQ2mZ9"
VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "SLURM_JWT")


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    for name in VARIABLES:
        monkeypatch.setenv(name, SECRET)


def files_with_secret(folder):
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.slow
def test_training(mlm_data, tmp_path):
    """Run folder: configuration, attempts, checkpoints, TensorBoard's events; and the output of all ranks."""
    job = TwoRanks(mlm_data, tmp_path, "run", 2, **{"common.tensorboard_logdir": tmp_path / "events"})
    output = job.finish(job.start_ranks())
    assert [*tmp_path.rglob("events.out*")] and SECRET not in "".join(output)
    assert not files_with_secret(tmp_path)
