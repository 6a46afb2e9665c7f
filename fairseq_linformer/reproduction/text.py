"""A prepared text: the data folders that fairseq reads, and their checksums."""

import re
from functools import lru_cache
from pathlib import Path

from ..files import check_data_path, read_json, sha256

_TRAINING = ("train.idx", "train.bin")
_FIRST_SHARD = ("dict.txt", *_TRAINING, "valid.idx", "valid.bin")


def find_shards(text) -> list[Path]:
    """The data folders of a text written by ``prepare pretraining`` or ``fairseq-preprocess``.

    Raises:
        ValueError: a file is missing, or fairseq or hydra would misread the path.
    """
    check_data_path(text, "--data")
    folder = Path(text)
    numbered = {int(path.name[5:]): path for path in folder.glob("shard*") if path.name[5:].isdecimal()}
    shards = [folder] if (folder / "dict.txt").is_file() else [numbered[i] for i in sorted(numbered)]
    for shard, name in _files(shards or [folder]):
        if not (shard / name).is_file():
            raise ValueError(f"--data {text} has no {shard / name}; `fairseq-linformer prepare pretraining` writes it")
    return shards


def find_only_shard(text) -> Path:
    """The data folder of a text with a single shard. Raises as ``find_shards``; ValueError if there are several."""
    first, *others = find_shards(text)
    if others:
        raise ValueError(f"--data {text} must have one shard, got {1 + len(others)}; prepare it with --shards 1")
    return first


def _files(shards: list[Path]) -> list[tuple[Path, str]]:
    """The files that are read: of the first shard also the dictionary and the validation split."""
    return [(shard, name) for i, shard in enumerate(shards) for name in (_TRAINING if i else _FIRST_SHARD)]


def describe_text(text) -> str:
    """The ``data`` field of a record: the text's files with their checksums, and its sources if it has a manifest.

    Raises:
        ValueError: as ``find_shards``; or the manifest is damaged.
    """
    first = find_shards(text)[0]
    manifest = (first.resolve() if first == Path(text) else first).parent / "manifest.json"
    sources = ""
    if manifest.is_file():
        try:
            files = [file for source in read_json(manifest)["sources"] for file in source["files"]]
            sources = (
                "made of "
                + ", ".join(
                    f"{Path(file['path']).parent.name}/{Path(file['path']).name} {file['sha256'][:12]}"
                    for file in files
                )
                + "; "
            )
            sources.encode()
        except (OSError, ValueError, KeyError, TypeError):
            files = []
        if not files:
            raise ValueError(f"{manifest} must name the sources of the text, but it is damaged; restore or remove it")
    return f"{sources}sha256: {', '.join(f'{name} {checksum[:12]}' for name, checksum in checksums(text).items())}"


def digest(path: Path) -> str:
    """SHA-256, cached while the file is unchanged: many runs share a checkpoint, and all read one text."""
    stat = path.stat()
    return _sha256(path, stat.st_size, stat.st_mtime_ns)


@lru_cache
def _sha256(path: Path, size: int, time: int) -> str:
    return sha256(path)


def checksums(text) -> dict[str, str]:
    """SHA-256 by name of each file that is read. The names are the same for a text and for its only shard."""
    found = {}
    for shard, name in _files(find_shards(text)):
        folder = shard.resolve().name if shard == Path(text) else shard.name
        found[f"{folder}/{name}" if re.fullmatch(r"shard\d+", folder) else name] = digest(shard / name)
    return found
