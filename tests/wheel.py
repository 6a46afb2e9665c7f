"""The package as a user installs it: a wheel in an environment of its own, with no source tree in sight."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path

import pytest

from .linked_packages import link_packages

ROOT = Path(__file__).parent.parent
FAIRSEQ_COMMANDS = {
    "train": "fairseq-train",
    "hydra_train": "fairseq-hydra-train",
    "preprocess": "fairseq-preprocess",
    "validate": "fairseq-validate",
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this package."""
    folder = tmp_path_factory.mktemp("wheel")
    source, ignored = folder / "source", shutil.ignore_patterns("__pycache__")
    for name in ("fairseq_linformer", "configs", "scripts"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    _python("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def wheel_environment(wheel, tmp_path_factory) -> Path:
    """The bin folder of a new virtual environment in which the wheel is installed.

    What the wheel requires (PyTorch, fairseq, ...) it finds in the environment of the tests, whose own, editable
    installation of this package it does not see: only a .pth file of a site folder itself is followed.
    """
    bin_, site = _install(wheel, tmp_path_factory.mktemp("environment"))
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for module, command in FAIRSEQ_COMMANDS.items():
        script = f"#!{bin_}/python\nfrom fairseq_cli.{module} import cli_main\ncli_main()\n"
        (bin_ / command).write_text(script)
        (bin_ / command).chmod(0o755)
    return bin_


@pytest.fixture(scope="session")
def extra_environment(wheel, tmp_path_factory) -> Callable[[str], Path]:
    """Makes a virtual environment in which the wheel is installed with an extra, or with none (""), and nothing else
    but what these require: links to those packages in the environment of the tests. Returns its bin folder."""

    def make(extra: str) -> Path:
        bin_, site = _install(wheel, tmp_path_factory.mktemp(extra or "torch"))
        (package,) = distributions(path=[str(site)])
        link_packages(site, package.requires, extra)
        return bin_

    return make


def _install(wheel: Path, environment: Path) -> tuple[Path, Path]:
    """Install the wheel alone into a new environment. Returns its bin and its site folder."""
    _python("-m", "venv", "--without-pip", str(environment))
    bin_, (site,) = environment / "bin", environment.glob("lib/python*/site-packages")
    _python("-m", "pip", "--python", str(bin_ / "python"), "install", "-q", "--no-deps", "--no-index", str(wheel))
    return bin_, site


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
