"""Virtual environments that have some packages of this one: their files are links."""

import subprocess
import sys
import venv
from collections.abc import Collection
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def requirements_of_extra(extra: str) -> set[str]:
    """The packages that this project requires with an extra, and without one."""
    requirements = map(Requirement, distribution("fairseq-linformer").requires or ())
    return {
        canonicalize_name(each.name)
        for each in requirements
        if each.marker is None or each.marker.evaluate({"extra": extra})
    }


def make_environment(folder: Path, packages: Collection[str], missing: Collection[str] = ()) -> Path:
    """A virtual environment of ``packages`` and what they require, except for those ``missing``, as far as they are
    installed here. Returns its Python."""
    venv.create(folder, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    installed: dict[str, Distribution] = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
    chosen, waiting = set(), {name for name in packages if name in installed}
    while waiting:
        name = waiting.pop()
        chosen.add(name)
        requirements = [Requirement(each) for each in installed[name].requires or ()]
        needed = {
            canonicalize_name(each.name)
            for each in requirements
            if each.marker is None or each.marker.evaluate({"extra": ""})
        }
        waiting |= {each for each in needed if each in installed and each not in chosen | {*missing}}
    for name in chosen:
        files = installed[name].files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            target = Path(installed[name].locate_file(top))
            if target.exists() and not (site / top).exists():
                (site / top).symlink_to(target)
    return folder / "bin" / "python"


def install_wheel(python: Path, wheel: Path) -> None:
    """Install a wheel without what it requires."""
    words = ["-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
