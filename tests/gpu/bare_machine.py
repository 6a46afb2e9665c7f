"""A machine with Python, PyTorch and the packages that images for GPUs have; without this project and fairseq."""

import os
import subprocess
import sys
import venv
from pathlib import Path

from ..linked_packages import link_packages

MISSING = {"antlr4-python3-runtime", "bitarray", "fairseq-fixed", "fairseq-linformer", "hydra-core", "omegaconf"}
"""Packages that the checks import and that one such machine lacked."""
IMAGE = (
    "cython numpy packaging pip pyyaml regex requests sacrebleu scikit-learn scipy setuptools torch tqdm wheel".split()
)


def make_environment(folder: Path) -> Path:
    """A virtual environment whose packages are links to those of this one: IMAGE and what these require. Returns its
    Python."""
    venv.create(folder, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    assert not link_packages(site, IMAGE) & MISSING
    return folder / "bin" / "python"


def run(python: Path, *words) -> "subprocess.CompletedProcess[str]":
    """A command that sees the environment of ``make_environment`` only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = os.pathsep.join(p for p in kept["PATH"].split(os.pathsep) if Path(p) != Path(sys.executable).parent)
    environment = {**kept, "PATH": f"{python.parent}{os.pathsep}{path}", "PYTHON": str(python)}
    environment.pop("VIRTUAL_ENV", None)
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment, check=False)
