"""The text that is trained on, as ``prepare pretraining`` or ``fairseq-preprocess`` writes it."""

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Dict, List, Tuple

from ..files import read_json, sha256

_TRAIN = ("train.idx", "train.bin")
_WANTED = ("dict.txt", *_TRAIN, "valid.idx", "valid.bin")


def shards_of(text) -> List[Path]:
    """The folders for fairseq of a text as ``prepare pretraining`` or ``fairseq-preprocess`` writes it.

    Raises:
        ValueError: it is none, or fairseq cannot be given its path.
    """
    folder = Path(text)
    for sign, means in ((os.pathsep, "which for fairseq stands between two folders"), ("${", "which for hydra begins the name of an option")):
        if sign in str(folder.resolve()):
            raise ValueError(f"--text is {text}; there is a {sign!r} in its path, {means}")
    numbered = {int(path.name[5:]): path for path in folder.glob("shard*") if path.name[5:].isdecimal()}
    shards = [folder] if (folder / "dict.txt").is_file() else [numbered[i] for i in sorted(numbered)]
    for shard, name in _files(shards or [folder]):
        if not (shard / name).is_file():
            raise ValueError(f"--text is {text}; there is no {name} in {shard}, as `fairseq-linformer prepare pretraining` writes it")
    return shards


def _files(shards: List[Path]) -> List[Tuple[Path, str]]:
    """What is read: validation text and the dictionary are those of the first."""
    return [(shard, name) for i, shard in enumerate(shards) for name in (_TRAIN if i else _WANTED)]


def described(text) -> str:
    """Of a prepared text: its files by their sums, and its sources if it has a manifest.

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
            raise ValueError(f"{manifest} does not say what the text was made of; take it back from where it was whole, or remove it")
    return f"{sources}sha256: {', '.join(f'{name} {said[:12]}' for name, said in sums(text).items())}"


def digest(path: Path) -> str:
    """SHA-256, once for a file that stays as it is: many runs start from one checkpoint, and all read one text."""
    there = path.stat()
    return _sum_of(path, there.st_size, there.st_mtime_ns)


@lru_cache
def _sum_of(path: Path, size: int, time: int) -> str:
    return sha256(path)


def sums(text) -> Dict[str, str]:
    """SHA-256 of each file of a text that is read, by its name, which is the same if the text's only shard was given."""
    found = {}
    for shard, name in _files(shards_of(text)):
        called = shard.resolve().name if shard == Path(text) else shard.name
        found[f"{called}/{name}" if re.fullmatch(r"shard\d+", called) else name] = digest(shard / name)
    return found
