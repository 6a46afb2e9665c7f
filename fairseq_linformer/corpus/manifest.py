"""``manifest.json``: what a corpus was made of, what was skipped and dropped, what came out.

Of each source documents_read = documents + duplicate_documents + emptied_documents + empty + unfit: those that were
kept, that came before, whose paragraphs all came before, that are blank, and that were skipped, by what is wrong with them.
"""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Dict, List

from ..files import atomic, sha256
from ..progress import Progress
from .chunks import EXAMPLES, name_of
from .documents import ENDS_OF_DOCUMENTS, LONG_DOCUMENT
from .plan import Chunk
from .streams import line_number

NAME = "manifest.json"


def read_counts(folder: Path, source_count: int, chunks: List[Chunk]) -> List[Dict[str, Any]]:
    """Of each source what was read and skipped, the first of that by file and line."""
    read: List[Dict[str, Any]] = [{"documents_read": 0, "empty": 0, "unfit": {}, "examples": []} for _ in range(source_count)]
    for i, chunk in enumerate(chunks):
        said, counts = json.loads((folder / f"{name_of(i)}.json").read_text()), read[chunk.source]
        counts["documents_read"] += said["documents"]
        counts["empty"] += said["empty"]
        for reason, count in said["unfit"].items():
            counts["unfit"][reason] = counts["unfit"].get(reason, 0) + count
        for reason, place in said["examples"][: EXAMPLES - len(counts["examples"])]:
            if chunk.format in ("text", "jsonl"):
                where = f"line {line_number(chunk.file, place):,}"
            else:
                where = f"row {place + 1:,} from {'shard' if chunk.format == 'hub' else 'row group'} {max(0, chunk.start)} on"
            counts["examples"].append(f"{chunk.file}, {where}: {reason}")
    return read


def check_skipped(read: List[Dict[str, Any]], max_skipped: float) -> None:
    """Refuse sources of which too much is skipped.

    Args:
        read: of ``read_counts``.

    Raises:
        ValueError: with a sentence that names the first.
    """
    documents, unfit = sum(c["documents_read"] for c in read), sum(sum(c["unfit"].values()) for c in read)
    if unfit > max_skipped * documents:
        first = next(example for counts in read for example in counts["examples"])
        advice = f"; {ENDS_OF_DOCUMENTS}" * any(LONG_DOCUMENT in counts["unfit"] for counts in read)
        raise ValueError(
            f"{unfit:,} of {documents:,} documents must be skipped, more than the share of {max_skipped:g} that --max-skipped allows; "
            f"the first is {first}{advice}"
        )


def write(
    out: Path, command: str, sources: List[Dict[str, Any]], counts: List[Dict[str, Any]], splits: Dict[str, Any], tokenizer: Dict[str, Any]
) -> None:
    """Write ``manifest.json``, the mark that all is done.

    Args:
        sources: as the plan has them.
        counts: of each source.
        splits: counts of each split.
        tokenizer: its name and its files.
    """
    files = sorted(out.glob("shard*/*"))
    sums = _sums([*(Path(file["path"]) for source in sources for file in source["files"]), *files])
    content = {
        "command": command,
        "sources": [
            {**source, "files": [{"path": file["path"], "bytes": file["bytes"], "sha256": sums[Path(file["path"])]} for file in source["files"]], **of}
            for source, of in zip(sources, counts)
        ],
        "tokenizer": tokenizer,
        "splits": splits,
        "files": {str(path.relative_to(out)): {"bytes": path.stat().st_size, "sha256": sums[path]} for path in files},
        "versions": versions(),
    }
    with atomic(out / NAME) as file:
        json.dump(content, file, indent=1)


def _sums(paths: List[Path]) -> Dict[Path, str]:
    """SHA-256 of each file."""
    sums = {}
    with Progress("hashing", sum(path.stat().st_size for path in paths)) as progress:
        for path in paths:
            sums[path] = sha256(path)
            progress.add(path.stat().st_size)
    return sums


def check_files(out: Path) -> None:
    """Refuse a corpus that was done and is not as its manifest says any more.

    Raises:
        ValueError: with a sentence.
    """
    manifest = json.loads((out / NAME).read_text())
    for name, file in manifest["files"].items():
        path = out / name
        if not path.exists() or path.stat().st_size != file["bytes"]:
            raise ValueError(f"{path} is missing or cut off, though {out} was finished; delete {out} and prepare it again")


def told(out: Path) -> str:
    """What to say of a corpus that is done, and the path for fairseq-train."""
    manifest = json.loads((out / NAME).read_text())
    train = [counts for name, counts in manifest["splits"].items() if name != "valid"]
    unfit = sum(sum(source["unfit"].values()) for source in manifest["sources"])
    again = sum(source["duplicate_documents"] + source.get("emptied_documents", 0) for source in manifest["sources"])
    shards = sorted((name.split("/")[0] for name in manifest["files"] if name.endswith("dict.txt")), key=lambda s: int(s[5:]))
    return (
        f"train: {sum(c['documents'] for c in train):,} documents, {sum(c['words'] for c in train):,} words, "
        f"{sum(c['tokens'] for c in train):,} tokens; valid: {manifest['splits']['valid']['documents']:,} documents, "
        f"{manifest['splits']['valid']['tokens']:,} tokens; dropped: {again:,} documents that came before; skipped: {unfit:,}; "
        f"{sum(c.get('unknown', 0) for c in manifest['splits'].values()):,} tokens are unknown to the dictionary\n"
        "for fairseq-train: " + ":".join(str(out / shard) for shard in shards)
    )


def versions() -> Dict[str, str]:
    """Of the libraries that a corpus depends on, those that are installed."""
    found = {}
    for name in ("fairseq-linformer", "numpy", "tiktoken", "sentencepiece", "datasets", "pyarrow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
