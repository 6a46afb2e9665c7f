"""Files of prepared data, compared with the checksums that ``prepare`` recorded in ``manifest.json``."""

import re
from pathlib import Path
from typing import Any

from ..corpus.manifest import MANIFEST
from ..files import read_json, sha256

ADVICE = "prepare the data again"
_PARTS = re.compile(r"input[01]|label|shard\d+")
"""Folders next to a manifest, which ``prepare`` writes."""
MAX_HASHED_BYTES = 1 << 30
"""Larger files, such as shards of a corpus, are not hashed: it would delay the start of every process."""


def check_recorded(path: Path) -> None:
    """Raise ValueError if a file of ``input0``, ``label``, ``shard0``, ... differs from its checksum in the manifest.

    Data of ``fairseq-preprocess`` has no manifest, and is not compared.
    """
    if _PARTS.fullmatch(path.parent.name):
        compare_with_manifest(path, path.parent.parent / MANIFEST)


def compare_with_manifest(path: Path, manifest: Path) -> None:
    """Raise ValueError if a file differs from its checksum in a manifest, or the manifest cannot be read."""
    if not manifest.is_file():
        return
    recorded: Any
    try:
        recorded = read_json(manifest).get("files", {}).get(path.relative_to(manifest.parent).as_posix())
    except (ValueError, AttributeError):
        raise ValueError(f"{manifest} cannot be read; {ADVICE}") from None
    if isinstance(recorded, dict):  # of a corpus, with the number of bytes
        recorded = recorded.get("sha256")
    if recorded and path.stat().st_size <= MAX_HASHED_BYTES and sha256(path) != recorded:
        raise ValueError(f"{path} is damaged: it differs from its checksum in {manifest.name}; {ADVICE}")
