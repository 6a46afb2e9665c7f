"""The package as a user installs it: a wheel in an environment of its own, with no source tree in sight."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from .linked_environment import install_wheel

ROOT = Path(__file__).parent.parent
FAIRSEQ_COMMANDS = {
    "train": "fairseq-train",
    "hydra_train": "fairseq-hydra-train",
    "preprocess": "fairseq-preprocess",
    "validate": "fairseq-validate",
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("fairseq_linformer", "configs", "scripts"):
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / "source")
    words = ["--no-deps", "--no-build-isolation", "-w", str(folder), str(folder / "source")]
    _python("-m", "pip", "wheel", "-q", *words)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def wheel_environment(wheel, tmp_path_factory) -> Path:
    """The bin folder of a new virtual environment in which the wheel is installed.

    What the wheel requires (PyTorch, fairseq, ...) it finds in the environment of the tests, whose own, editable
    installation of this package it does not see: only a .pth file of a site folder itself is followed.
    """
    environment = tmp_path_factory.mktemp("environment")
    _python("-m", "venv", "--without-pip", str(environment))
    bin_, (site,) = environment / "bin", environment.glob("lib/python*/site-packages")
    install_wheel(bin_ / "python", wheel)
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for module, command in FAIRSEQ_COMMANDS.items():
        script = f"#!{bin_}/python\nfrom fairseq_cli.{module} import cli_main\ncli_main()\n"
        (bin_ / command).write_text(script)
        (bin_ / command).chmod(0o755)
    return bin_


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
