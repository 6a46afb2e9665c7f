"""The code of the model as loose files, for a folder that ``transformers`` loads from.

``transformers`` looks for what a file imports beside it, ``from .encoder import ...``; there are no packages in such a
folder. The files are this package's own, with their imports of one another made flat.
"""

import re
from pathlib import Path
from typing import Dict

HERE = Path(__file__).parent
_OWN_FILES = ("configuration_linformer.py", "modeling_linformer.py", "tokenization_linformer.py")
_IMPORT = re.compile(r"^(\s*)from \.+(?:\w+\.)*(\w+) import", flags=re.MULTILINE)


def flat(source: str) -> str:
    """``source`` with ``from ..package.module import`` as ``from .module import``."""
    return _IMPORT.sub(r"\1from .\2 import", source)


def source_files() -> Dict[str, str]:
    """Every file of an exported folder's code by its name."""
    files = [HERE / name for name in _OWN_FILES]
    files += [HERE.parent / "config.py", HERE.parent / "projected_dim.py"]
    files += sorted(path for path in (HERE.parent / "modules").glob("*.py") if path.name != "__init__.py")
    return {path.name: flat(path.read_text(encoding="utf-8")) for path in files}


def write_code(folder) -> None:
    """Write the code into ``folder``, over code that is there."""
    for name, source in source_files().items():
        Path(folder, name).write_text(source, encoding="utf-8")
