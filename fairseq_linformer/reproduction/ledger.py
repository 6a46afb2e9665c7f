"""The ledger: a folder with a sealed JSON file per record. Nothing in it is overwritten unless it is superseded."""

import json
import os
from pathlib import Path
from subprocess import CalledProcessError

from pydantic import ValidationError

from ..files import fingerprint, read_json, write_sealed
from ..machine import DIRTY, clean_commit, current_commit
from .records import TRAINING, Record, first_problem


def write(record: Record, folder) -> Path:
    """Write ``FOLDER/IDENTIFIER.json`` with its seal, replacing an existing file. ``put`` never overwrites."""
    path = Path(folder) / f"{record.identifier}.json"
    write_sealed(path, record.content())
    return path


def put(record: Record, folder) -> Path:
    """Write a record unless it already exists.

    Raises:
        ValueError: the file exists and has a different measurement, or the record's commit is not clean.
    """
    path = Path(folder) / f"{record.identifier}.json"
    check_clean(record)
    if not path.exists():
        return write(record, folder)
    stored, new = read(path).content(), record.content()
    if TRAINING not in stored["configuration"]:
        new["configuration"].pop(TRAINING, None)
    same = ("experiment", "made_by", "scale", "measurements", "data", "configuration")
    if any(stored[name] != new[name] for name in same):
        raise ValueError(
            f"{path} has a different measurement and is not overwritten; use another --results, or --replace REASON"
        )
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
        ValueError: the file is no record, lacks a field, or was edited.
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
    if record.seal != fingerprint({name: value for name, value in content.items() if name != "seal"}):
        raise ValueError(
            f"{path} was edited after it was written: its seal does not match; restore the file or measure again"
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
