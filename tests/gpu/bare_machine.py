"""A machine with Python, PyTorch and the packages that images for GPUs have; without this project and fairseq."""

import os
import subprocess
import sys
import venv
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

MISSING = {"antlr4-python3-runtime", "bitarray", "fairseq-fixed", "fairseq-linformer", "hydra-core", "omegaconf"}
"""Packages that the checks import and that one such machine lacked."""
IMAGE = (
    "cython numpy packaging pip pyyaml regex requests sacrebleu scikit-learn scipy setuptools torch tqdm wheel".split()
)


def make_environment(folder: Path) -> Path:
    """A virtual environment whose packages are links to those of this one: IMAGE and what these require. Returns its
    Python, a script: to replace a program, edit ``case`` in it."""
    venv.create(folder, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    installed: dict[str, Distribution] = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
    chosen, waiting = set(), {name for name in IMAGE if name in installed}
    while waiting:
        name = waiting.pop()
        chosen.add(name)
        needed = {
            canonicalize_name(Requirement(each).name)
            for each in installed[name].requires or ()
            if "extra ==" not in each
        }
        waiting |= {each for each in needed if each in installed and each not in chosen | MISSING}
    for name in chosen:
        files = installed[name].files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            target = Path(installed[name].locate_file(top))
            if target.exists() and not (site / top).exists():
                (site / top).symlink_to(target)
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


def run(python: Path, *words) -> "subprocess.CompletedProcess[str]":
    """A command that sees the environment of ``make_environment`` only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = os.pathsep.join(p for p in kept["PATH"].split(os.pathsep) if Path(p) != Path(sys.executable).parent)
    environment = {**kept, "PATH": f"{python.parent}{os.pathsep}{path}", "PYTHON": str(python)}
    environment.pop("VIRTUAL_ENV", None)
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment, check=False)
