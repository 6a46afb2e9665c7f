"""A prepared text: the data folders that fairseq reads, and their checksums."""

from pathlib import Path

from ..data.tokenizer_files import DICTIONARY
from ..files import check_data_path, claim, read_json, sha256

FILES = (DICTIONARY, "train.bin", "valid.bin")


def find_shards(text: Path | None, single: bool = False) -> list[Path]:
    """The data folders of a text written by ``prepare pretraining`` or ``fairseq-preprocess``; ValueError if there is
    none, or several although ``single``."""
    folder = Path(text or "")
    check_data_path(folder, "--data")
    numbered = {int(path.name[5:]): path for path in folder.glob("shard*") if path.name[5:].isdecimal()}
    shards = [folder] if (folder / DICTIONARY).is_file() else [numbered[i] for i in sorted(numbered)]
    for name in FILES:
        if not shards or not (shards[0] / name).is_file():
            raise ValueError(f"--data {text} has no {name}; `fairseq-linformer prepare pretraining` writes it")
    if single and len(shards) > 1:
        raise ValueError(f"--data {text} must have one shard, got {len(shards)}; prepare it with --shards 1")
    return shards


def claim_runs(folder: Path, text: Path) -> None:
    """Make a folder the one of the runs on a text, because finished runs are used again; ValueError if its runs are on
    another text."""
    claim(folder, {"--data": describe_text(text)})


def describe_text(text: Path | None) -> str:
    """The sources of a text if it has a manifest, and the checksums of its files."""
    first, *others = find_shards(text)
    manifest = first.resolve().parent / "manifest.json"
    sources = ""
    if manifest.is_file():
        files = [file for source in read_json(manifest)["sources"] for file in source["files"]]
        names = (f"{Path(each['path']).name} {each['sha256'][:12]}" for each in files)
        sources = f"made of {', '.join(names)}; "
    parts = [first / name for name in FILES] + [each / "train.bin" for each in others]
    sums = (f"{path.parent.name}/{path.name} {sha256(path)[:12]}" for path in parts)
    return f"{sources}sha256: {', '.join(sums)}"
