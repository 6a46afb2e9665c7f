"""The wheel has everything that its commands need, in an empty folder."""

import os
import subprocess

import pytest


@pytest.fixture(scope="module")
def run(wheel_environment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PATH"] = f"{wheel_environment}:{environment['PATH']}"

    def run(*words, check=True):
        return subprocess.run(words, cwd=folder, env=environment, check=check, capture_output=True, text=True)

    return run


@pytest.mark.slow
def test_finds_configurations_and_scripts(run):
    script = """
from fairseq_linformer.cli import main
from fairseq_linformer.resources import SCRIPTS
assert (SCRIPTS / "slurm/train.sbatch").is_file()
main(["plan", "+run=n512-k128-headwise", "+model.encoder_layers=1"])
print("planned")
main(["submit", "task.data=nothing"])
"""
    ended = run("python", "-c", script, check=False)
    assert "n512-k128-headwise" in ended.stdout and ended.stdout.endswith("planned\n")
    assert ended.returncode == 1 and "nothing" in ended.stderr


# Overrides come after the options, next to each other.
PRETRAIN = """
fairseq-hydra-train --config-dir "$(fairseq-linformer path configs)/pretrain" --config-name base \
    common.user_dir="$(fairseq-linformer path plugin)" +run=tiny task.data=DATA checkpoint.save_dir=$PWD/checkpoints \
    task.tokens_per_sample=16 model.projected_dim=8 dataset.batch_size=8 optimization.max_update=2
"""


@pytest.mark.slow
def test_pretrains_in_an_empty_folder(run, mlm_data, wheel_environment):
    done = run("bash", "-ec", PRETRAIN.replace("DATA", mlm_data) + "ls checkpoints")
    assert "checkpoint_last.pt" in done.stdout.splitlines()
    assert f"'user_dir': '{wheel_environment.parent}" in done.stdout + done.stderr
