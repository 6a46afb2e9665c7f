"""The ledger: a folder with a JSON file per record. git keeps the earlier ones."""

import json
import os
from pathlib import Path
from subprocess import CalledProcessError

from pydantic import ValidationError

from ..files import open_atomic, read_json
from ..machine import DIRTY, clean_commit, current_commit
from .records import Record, first_problem


def put(record: Record, folder) -> Path:
    """Write ``FOLDER/IDENTIFIER.json``, over an earlier one, which git keeps.

    Raises:
        ValueError: the record's commit is not clean.
    """
    check_clean(record)
    path = Path(folder) / f"{record.identifier}.json"
    with open_atomic(path) as file:
        json.dump(record.content(), file, indent=1)
        file.write("\n")
    return path


def check_clean(record: Record) -> None:
    """Uncommitted changes are allowed at the scale ``smoke``, which no verdict uses.

    Raises:
        ValueError: the record's commit is not clean.
    """
    if record.scale != "smoke" and DIRTY in record.commit:
        raise ValueError(
            f"{record.identifier} needs a clean commit, got {record.commit}; "
            f"commit the changes and measure again in a new folder"
        )


def read(path, identifier: str | None = None) -> Record:
    """
    Args:
        identifier: of the record; None for the name of the file.

    Raises:
        ValueError: the file is no record, or lacks a field.
    """
    path = Path(path)
    try:
        content = read_json(path)
    except OSError as error:
        raise ValueError(f"{path} is not a record: {error}") from None
    try:
        record = Record.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise ValueError(f"{path} is not a record: {first_problem(error)}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a record: {error}") from None
    if record.identifier != (identifier or path.stem):
        raise ValueError(
            f"{path} is not a record: its identifier must be {identifier or path.stem}, got {record.identifier}"
        )
    return record


def read_all(folder) -> list[Record]:
    """Every record in a folder, by name.

    Raises:
        ValueError: there is no folder or no record, or one is rejected.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"{folder} does not exist; `fairseq-linformer reproduce` writes records")
    if not (found := read_folder(folder)):
        raise ValueError(f"{folder} has no records; `fairseq-linformer reproduce` writes them")
    return found


def read_folder(folder) -> list[Record]:
    """Every record in a folder, by name; empty if there is no folder or no record.

    Raises:
        ValueError: a file is rejected.
    """
    return [read(path) for path in sorted(Path(folder).glob("*.json"))]


def check_writable(folder, needs_clean: bool = False) -> None:
    """Check, before hours of work, that a record can be written to a folder.

    Args:
        needs_clean: a verdict uses the record, which therefore needs a commit without uncommitted changes.

    Raises:
        ValueError: the folder is missing or not writable, a file in it is rejected, the package is not in a git
            repository, or a tracked file was changed.
    """
    if not Path(folder).exists():
        raise ValueError(f"--results must be an existing folder, got {folder}")
    if not os.access(folder, os.W_OK) or not Path(folder).is_dir():
        raise ValueError(f"--results must be a writable folder, got {folder}")
    read_folder(folder)
    if needs_clean:
        clean_commit()
        return
    try:
        current_commit()
    except (OSError, CalledProcessError):
        raise ValueError(
            "--results needs the package to be in a git repository: a record names the commit it was measured with"
        ) from None
