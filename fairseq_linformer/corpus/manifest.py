"""``manifest.json``: what a corpus was made of, what was skipped and dropped, what came out.

For each source documents_read = documents + duplicate_documents + emptied_documents + empty + unfit: those that were
kept, that came before, whose paragraphs all came before, that are blank, and that were skipped, by reason.
"""

import json
from collections import Counter
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
    """Per source what was read and skipped, and the first skipped documents by file and line."""
    totals = [{"documents_read": 0, "empty": 0, "unfit": Counter(), "examples": []} for _ in range(source_count)]
    for i, chunk in enumerate(chunks):
        counts, total = json.loads((folder / f"{name_of(i)}.json").read_text()), totals[chunk.source]
        total["documents_read"] += counts["documents"]
        total["empty"] += counts["empty"]
        total["unfit"].update(counts["unfit"])
        for reason, place in counts["examples"][: EXAMPLES - len(total["examples"])]:
            if chunk.is_stream:
                where = f"line {line_number(chunk.file, place):,}"
            else:
                unit = "shard" if chunk.format == "hub" else "row group"
                where = f"row {place + 1:,} from {unit} {max(0, chunk.start)} on"
            total["examples"].append(f"{chunk.file}, {where}: {reason}")
    return totals


def check_skipped(read: List[Dict[str, Any]], max_skipped: float) -> None:
    """Raise ValueError if too much is skipped of the sources of ``read_counts``."""
    documents, unfit = sum(c["documents_read"] for c in read), sum(sum(c["unfit"].values()) for c in read)
    if unfit > max_skipped * documents:
        first = next(example for counts in read for example in counts["examples"])
        advice = f"; {ENDS_OF_DOCUMENTS}" if any(LONG_DOCUMENT in counts["unfit"] for counts in read) else ""
        raise ValueError(
            f"{unfit:,} of {documents:,} documents must be skipped, more than the share of {max_skipped:g} that "
            f"--max-skipped allows; the first is {first}{advice}"
        )


def write(
    out: Path, command: str, sources: List[Dict[str, Any]], counts: List[Dict[str, Any]], splits: Dict[str, Any],
    tokenizer: Dict[str, Any],
) -> None:  # fmt: skip
    """Write ``manifest.json``, which marks the corpus as done.

    Args:
        sources: as the plan has them.
        counts: per source.
        splits: counts per split.
        tokenizer: its name and its files.
    """
    files = sorted(out.glob("shard*/*"))
    sums = _sums([*(Path(file["path"]) for source in sources for file in source["files"]), *files])

    def record(file: Dict[str, Any]) -> Dict[str, Any]:
        return {"path": file["path"], "bytes": file["bytes"], "sha256": sums[Path(file["path"])]}

    content = {
        "command": command,
        "sources": [
            {**source, "files": [record(file) for file in source["files"]], **source_counts}
            for source, source_counts in zip(sources, counts)
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
    """Raise ValueError if a finished corpus is not as its manifest says any more."""
    manifest = json.loads((out / NAME).read_text())
    for name, file in manifest["files"].items():
        path = out / name
        if not path.exists() or path.stat().st_size != file["bytes"]:
            raise ValueError(
                f"{path} is missing or cut off, though {out} was finished; delete {out} and prepare it again"
            )


def summary(out: Path) -> str:
    """The counts of a finished corpus, and its path for fairseq-train."""
    manifest = json.loads((out / NAME).read_text())
    splits, sources = manifest["splits"], manifest["sources"]
    train = [counts for name, counts in splits.items() if name != "valid"]
    documents, words, tokens = (sum(counts[unit] for counts in train) for unit in ("documents", "words", "tokens"))
    unfit = sum(sum(source["unfit"].values()) for source in sources)
    repeated = sum(source["duplicate_documents"] + source.get("emptied_documents", 0) for source in sources)
    unknown = sum(counts.get("unknown", 0) for counts in splits.values())
    shards = [out / f"shard{i}" for i in range(len(train))]
    return (
        f"train: {documents:,} documents, {words:,} words, {tokens:,} tokens; "
        f"valid: {splits['valid']['documents']:,} documents, {splits['valid']['tokens']:,} tokens; "
        f"dropped: {repeated:,} documents that came before; skipped: {unfit:,}; "
        f"{unknown:,} tokens are unknown to the dictionary\nfor fairseq-train: {':'.join(map(str, shards))}"
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
