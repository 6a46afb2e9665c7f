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
