"""fairseq's dictionaries, ``dict.txt``."""

from functools import wraps
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary

from .recorded_files import check_recorded


def read_dictionary(path: Path) -> Dictionary:
    """Read a dictionary.

    Raises:
        ValueError: fairseq cannot read it, it is empty, or differs from its checksum in ``manifest.json``.
        OSError: it does not exist, or may not be read.
    """
    return Dictionary.load(str(path))


def describe_difference(expected: Dictionary, dictionary: Dictionary) -> str | None:
    """The first difference between two dictionaries; None if they are equal."""
    for i, (expected_symbol, symbol) in enumerate(zip(expected.symbols, dictionary.symbols)):
        if symbol != expected_symbol:
            return f"entry {i} must be {expected_symbol!r}, got {symbol!r}"
    if len(dictionary) != len(expected):
        return f"it must have {len(expected):,} entries, got {len(dictionary):,}"
    return None


def patch_dictionaries() -> None:
    """Let all of fairseq read dictionaries with the errors of ``read_dictionary``."""
    add_from_file = Dictionary.add_from_file

    @wraps(add_from_file)
    def add_or_explain(self: Any, file: Any) -> None:
        if not isinstance(file, str):
            add_from_file(self, file)
            return
        before = len(self)
        try:
            add_from_file(self, file)
        except OSError:
            raise
        except Exception:  # the type that fairseq raises for another encoding
            raise ValueError(f"{file} is truncated or not a fairseq dictionary") from None
        if len(self) == before:
            raise ValueError(f"{file} is empty, and not a fairseq dictionary")
        check_recorded(Path(file))

    Dictionary.add_from_file = add_or_explain
