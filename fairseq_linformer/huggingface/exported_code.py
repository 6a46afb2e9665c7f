"""Source files of the model in a folder that ``transformers`` can load.

Such a folder has no packages: ``transformers`` looks for imported modules next to the importing file. The files are
those of this package, with flattened imports.
"""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^(\s*)from \.+(?:\w+\.)*(\w+) import", flags=re.MULTILINE)


def read_source_files() -> dict[str, str]:
    """Source of each file to export, by file name; ``from ..package.module import`` becomes ``from .module import``."""
    files = [PACKAGE / "config.py", *PACKAGE.glob("huggingface/*_linformer.py"), *PACKAGE.glob("modules/[!_]*.py")]
    sources = {path.name: path.read_text(encoding="utf-8") for path in files if path.name != "reference.py"}
    return {name: _IMPORT.sub(r"\1from .\2 import", source) for name, source in sources.items()}


def write_code(folder: str | Path) -> None:
    """Write the source files to ``folder``, overwriting existing ones."""
    for name, source in read_source_files().items():
        Path(folder, name).write_text(source, encoding="utf-8")
