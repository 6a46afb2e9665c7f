"""Source files of the model in a folder that ``transformers`` can load.

Such a folder has no packages: ``transformers`` looks for imported modules next to the importing file. The files are
those of this package, with flattened imports.
"""

import re
from pathlib import Path

HERE = Path(__file__).parent
_OWN_FILES = ("configuration_linformer.py", "modeling_linformer.py", "tokenization_linformer.py")
_IMPORT = re.compile(r"^(\s*)from \.+(?:\w+\.)*(\w+) import", flags=re.MULTILINE)


def flatten_imports(source: str) -> str:
    """``source`` with ``from ..package.module import`` as ``from .module import``."""
    return _IMPORT.sub(r"\1from .\2 import", source)


def read_source_files() -> dict[str, str]:
    """Source of every file to export, by file name."""
    files = [HERE / name for name in _OWN_FILES]
    files += [HERE.parent / "config.py"]
    modules = (HERE.parent / "modules").glob("*.py")
    files += sorted(path for path in modules if path.name not in ("__init__.py", "reference.py"))
    return {path.name: flatten_imports(path.read_text(encoding="utf-8")) for path in files}


def write_code(folder: str | Path) -> None:
    """Write the source files to ``folder``, overwriting existing ones."""
    for name, source in read_source_files().items():
        Path(folder, name).write_text(source, encoding="utf-8")
