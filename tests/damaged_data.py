"""Prepared data, with a manifest as ``prepare`` writes it, and damage to its files."""

import json
from pathlib import Path

from fairseq_linformer.files import sha256


def write_manifest(folder: Path, **fields) -> None:
    """Record the checksums of a task's folder."""
    files = {path.relative_to(folder).as_posix(): sha256(path) for path in folder.rglob("*") if path.is_file()}
    (folder / "manifest.json").write_text(json.dumps({**fields, "files": files}))


def _change(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3]),
    "empty": lambda path: path.write_bytes(b""),
    "foreign": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(range(256)) * 20),
    "changed": _change,
}
