"""``manifest.json``: what a folder was made of."""

import os
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from ..files import sha256
from .sources import Source

MANIFEST = "manifest.json"


def describe_source(source: Source) -> dict[str, Any]:
    """The keys of a located source, and the path, size and SHA-256 of each of its files."""
    files = [{"path": file, "bytes": os.path.getsize(file), "sha256": sha256(file)} for file in source.files]
    return {**asdict(source), "files": files}


def library_versions() -> dict[str, str]:
    """Versions of the libraries that a corpus depends on."""
    names = ("fairseq-linformer", "numpy", "tiktoken", "sentencepiece", "tokenizers", "datasets", "pyarrow")
    return {name: version(name) for name in names}
