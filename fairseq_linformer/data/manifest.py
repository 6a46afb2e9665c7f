"""``manifest.json``: what a folder was made of. The same input gives the same bytes."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..files import read_json, sha256, write_json
from .sources import Source

MANIFEST = "manifest.json"


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` as the manifest of a folder, with size and SHA-256 of its files, and versions of libraries."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): _describe(path) for path in paths}
    write_json(folder / MANIFEST, {**content, "files": files, "versions": library_versions()})


def read_manifest(folder) -> dict[str, Any]:
    """The manifest in a folder; empty if there is none. Raises ValueError if it is damaged."""
    path = Path(folder) / MANIFEST
    manifest = read_json(path) if path.is_file() else {}
    if not isinstance(manifest, dict):
        raise ValueError(f"{path} must be a dictionary")
    return manifest


def describe_source(source: Source) -> dict[str, Any]:
    """The keys of a located source, and the path, size and SHA-256 of each of its files."""
    return {**asdict(source), "files": [{"path": file, **_describe(file)} for file in source.files]}


def _describe(path) -> dict[str, Any]:
    return {"bytes": os.path.getsize(path), "sha256": sha256(path)}


def library_versions() -> dict[str, str]:
    """Versions of the libraries that prepared data depend on."""
    names = ("fairseq-linformer", "numpy", "sentencepiece", "tokenizers", "datasets", "pyarrow")
    return {name: version(name) for name in names}
