"""Configurations and scripts shipped with the package.

In a wheel ``configs/`` and ``scripts/`` are inside the package, in a source tree next to it.
"""

from importlib.resources import files
from pathlib import Path

PLUGIN = Path(str(files("fairseq_linformer")))
"""Value for ``--user-dir`` and ``common.user_dir``."""


def _folder(name: str) -> Path:
    packaged = PLUGIN / name
    return packaged if packaged.is_dir() else PLUGIN.parent / name


CONFIGS = _folder("configs")
SCRIPTS = _folder("scripts")
FOLDERS = {"plugin": PLUGIN, "configs": CONFIGS, "scripts": SCRIPTS}
"""Folders that ``fairseq-linformer path`` prints."""


def find_config(path: str | Path) -> Path:
    """``path`` if it exists, else the file of that name in the package's ``configs``.

    >>> find_config("configs/pretrain/base.yaml").is_file()  # in any folder
    True
    """
    path = Path(path)
    return CONFIGS.parent / path if path.parts[:1] == ("configs",) and not path.exists() else path
