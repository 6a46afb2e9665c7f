"""A prepared text: the folders that fairseq reads, and checksums that tell one text from another."""

import os
import re
from functools import lru_cache
from pathlib import Path

from ..files import read_json, sha256

_TRAIN = ("train.idx", "train.bin")
_WANTED = ("dict.txt", *_TRAIN, "valid.idx", "valid.bin")


def shards_of(text) -> list[Path]:
    """The data folders of a text written by ``prepare pretraining`` or ``fairseq-preprocess``.

    Raises:
        ValueError: a file is missing, or fairseq or hydra would misread the path.
    """
    folder = Path(text)
    for sign, means in ((os.pathsep, "which separates folders for fairseq"), ("${", "which begins an interpolation for hydra")):
        if sign in str(folder.resolve()):
            raise ValueError(f"--text is {text}; its path contains {sign!r}, {means}")
    numbered = {int(path.name[5:]): path for path in folder.glob("shard*") if path.name[5:].isdecimal()}
    shards = [folder] if (folder / "dict.txt").is_file() else [numbered[i] for i in sorted(numbered)]
    for shard, name in _files(shards or [folder]):
        if not (shard / name).is_file():
            raise ValueError(f"--text is {text}; {shard} has no {name}, which `fairseq-linformer prepare pretraining` writes")
    return shards


def _files(shards: list[Path]) -> list[tuple[Path, str]]:
    """The files that are read: of the first shard also the dictionary and the validation split."""
    return [(shard, name) for i, shard in enumerate(shards) for name in (_TRAIN if i else _WANTED)]


def described(text) -> str:
    """Its files with their checksums, and its sources if it has a manifest; for a record.

    Raises:
        ValueError: as ``shards_of``; or the manifest is damaged.
    """
    first = shards_of(text)[0]
    manifest = (first.resolve() if first == Path(text) else first).parent / "manifest.json"
    sources = ""
    if manifest.is_file():
        try:
            files = [file for source in read_json(manifest)["sources"] for file in source["files"]]
            sources = "made of " + ", ".join(f"{Path(file['path']).parent.name}/{Path(file['path']).name} {file['sha256'][:12]}" for file in files) + "; "
            sources.encode()
        except (OSError, ValueError, KeyError, TypeError):
            files = []
        if not files:
            raise ValueError(f"{manifest} does not name the sources of the text; restore it, or remove it")
    return f"{sources}sha256: {', '.join(f'{name} {said[:12]}' for name, said in sums(text).items())}"


def digest(path: Path) -> str:
    """SHA-256, computed once per unchanged file: many runs start from one checkpoint, and all read one text."""
    stat = path.stat()
    return _sha256(path, stat.st_size, stat.st_mtime_ns)


@lru_cache
def _sha256(path: Path, size: int, time: int) -> str:
    return sha256(path)


def sums(text) -> dict[str, str]:
    """SHA-256 of each file that is read, by name: the same names whether the text or its only shard is given."""
    found = {}
    for shard, name in _files(shards_of(text)):
        called = shard.resolve().name if shard == Path(text) else shard.name
        found[f"{called}/{name}" if re.fullmatch(r"shard\d+", called) else name] = digest(shard / name)
    return found
