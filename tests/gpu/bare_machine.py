"""A machine with Python, PyTorch and the packages that images for GPUs have; without this project and fairseq."""

import os
import subprocess
import sys
import venv
from pathlib import Path

from ..linked_packages import link_packages

MISSING = {"antlr4-python3-runtime", "bitarray", "fairseq-fixed", "fairseq-linformer", "hydra-core", "omegaconf"}
"""What was missing on one, of the packages that the checks import."""
IMAGE = {
    *("cython", "numpy", "packaging", "pip", "pyyaml", "regex", "requests", "sacrebleu", "scikit-learn", "scipy"),
    *("setuptools", "torch", "tqdm", "wheel"),
}


def make_environment(folder: Path) -> Path:
    """A virtual environment whose packages are links to those of this one: IMAGE and what these require. Returns its
    Python, a script: to replace a program, edit ``case`` in it."""
    venv.create(folder, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    assert not link_packages(site, IMAGE) & MISSING
    python = folder / "bin" / "python"
    real = python.resolve()
    python.unlink()
    (folder / "bin" / "real-python").symlink_to(real)
    python.write_text(f"""#!/usr/bin/env bash
case "$*" in
esac
exec -a {python} {folder}/bin/real-python "$@"
""")
    python.chmod(0o755)
    return python


def run(python: Path, *words, **variables) -> "subprocess.CompletedProcess[str]":
    """A command that sees the environment of ``make_environment`` only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = os.pathsep.join(p for p in kept["PATH"].split(os.pathsep) if Path(p) != Path(sys.executable).parent)
    environment = {**kept, "PATH": f"{python.parent}{os.pathsep}{path}", "PYTHON": str(python), **variables}
    environment.pop("VIRTUAL_ENV", None)
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment, check=False)
