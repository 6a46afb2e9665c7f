"""``manifest.json`` of a corpus: its sources, what was skipped and dropped, and what was written.

For each source documents_read = documents + duplicate_documents + emptied_documents + empty + unfit: kept, duplicate,
with duplicate paragraphs only, blank, and skipped (by reason).
"""

import hashlib
import json
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..files import open_atomic, read_json
from ..progress import Progress
from .chunks import MAX_EXAMPLES, chunk_name
from .documents import BLANK_LINE_HINT, LONG_DOCUMENT
from .plan import Chunk
from .streams import find_line_number

MANIFEST = "manifest.json"


def read_counts(folder: Path, num_sources: int, chunks: list[Chunk]) -> list[dict[str, Any]]:
    """Per source, counts of read and skipped documents, and file and line of the first skipped ones."""
    totals: list[dict[str, Any]] = [
        {"documents_read": 0, "empty": 0, "unfit": Counter(), "examples": []} for _ in range(num_sources)
    ]
    for i, chunk in enumerate(chunks):
        counts, total = json.loads((folder / f"{chunk_name(i)}.json").read_text()), totals[chunk.source]
        total["documents_read"] += counts["documents"]
        total["empty"] += counts["empty"]
        total["unfit"].update(counts["unfit"])
        for reason, offset in counts["examples"][: MAX_EXAMPLES - len(total["examples"])]:
            if chunk.is_stream:
                location = f"line {find_line_number(chunk.file, offset):,}"
            else:
                unit = "shard" if chunk.format == "hub" else "row group"
                location = f"row {offset + 1:,} from the start of {unit} {max(0, chunk.start)}"
            total["examples"].append(f"{chunk.file}, {location}: {reason}")
    return totals


def check_skipped(counts: list[dict[str, Any]], max_skipped: float) -> None:
    """Raise ValueError if more than this share of the documents of a source was skipped.

    Args:
        counts: those of ``read_counts``.
    """
    for source in counts:
        documents, unfit = source["documents_read"], sum(source["unfit"].values())
        if unfit > max_skipped * documents:
            hint = f"; {BLANK_LINE_HINT}" if LONG_DOCUMENT in source["unfit"] else ""
            raise ValueError(
                f"at most --max-skipped {max_skipped:g} of the documents of a source may be skipped, got {unfit:,} of "
                f"{documents:,}; for example {source['examples'][0]}{hint}"
            )


def write_manifest(
    out: Path,
    command: str,
    sources: list[dict[str, Any]],
    counts: list[dict[str, Any]],
    splits: dict[str, Any],
    tokenizer: dict[str, Any],
) -> None:
    """Write ``manifest.json``, which marks the corpus as finished.

    Args:
        sources: ``Plan.sources``.
        counts: counts per source.
        splits: counts per split.
        tokenizer: name and checksums of its files.
    """
    outputs = sorted(out.glob("shard*/*"))
    checksums = _hash_files([*(Path(file["path"]) for source in sources for file in source["files"]), *outputs])

    def record(file: dict[str, Any]) -> dict[str, Any]:
        return {"path": file["path"], "bytes": file["bytes"], "sha256": checksums[Path(file["path"])]}

    content = {
        "command": command,
        "sources": [
            {**source, "files": [record(file) for file in source["files"]], **source_counts}
            for source, source_counts in zip(sources, counts)
        ],
        "tokenizer": tokenizer,
        "splits": splits,
        "files": {
            str(path.relative_to(out)): {"bytes": path.stat().st_size, "sha256": checksums[path]} for path in outputs
        },
        "versions": library_versions(),
    }
    with open_atomic(out / MANIFEST) as file:
        json.dump(content, file, indent=1)


def _hash_files(paths: list[Path]) -> dict[Path, str]:
    """SHA-256 of each file."""
    checksums = {}
    with Progress("hashing", sum(path.stat().st_size for path in paths)) as progress:
        for path in paths:
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
                    progress.add(len(block))
            checksums[path] = digest.hexdigest()
    return checksums


def _read_manifest(out: Path) -> dict[str, Any]:
    """The manifest of a finished corpus; ValueError if it is damaged."""
    path = out / MANIFEST
    try:
        manifest = read_json(path)
        [(file["bytes"] + 0, out / name) for name, file in manifest["files"].items()]
        for name, counts in manifest["splits"].items():
            [counts[unit] + 0 for unit in ("documents", "tokens", *(("words",) if name != "valid" else ()))]
        [source["duplicate_documents"] + sum(source["unfit"].values()) for source in manifest["sources"]]
        manifest["splits"]["valid"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} is damaged; delete {out} and prepare it again") from None
    return manifest


def check_files(out: Path) -> None:
    """Raise ValueError if a file of a finished corpus is missing or its size differs from the manifest."""
    for name, file in _read_manifest(out)["files"].items():
        path = out / name
        if not path.exists() or path.stat().st_size != file["bytes"]:
            raise ValueError(
                f"{path} was deleted or truncated after {out} was finished; delete {out} and prepare it again"
            )


def summarize_corpus(out: Path) -> str:
    """The counts of a finished corpus, and its path for ``fairseq-train``."""
    manifest = _read_manifest(out)
    splits, sources = manifest["splits"], manifest["sources"]
    train = [counts for name, counts in splits.items() if name != "valid"]
    documents, words, tokens = (sum(counts[unit] for counts in train) for unit in ("documents", "words", "tokens"))
    unfit = sum(sum(source["unfit"].values()) for source in sources)
    duplicates = sum(source["duplicate_documents"] for source in sources)
    emptied = sum(source.get("emptied_documents", 0) for source in sources)
    unknown = sum(counts.get("unknown", 0) for counts in splits.values())
    shards = [out / f"shard{i}" for i in range(len(train))]
    return (
        f"train: {documents:,} documents, {words:,} words, {tokens:,} tokens; "
        f"valid: {splits['valid']['documents']:,} documents, {splits['valid']['tokens']:,} tokens; "
        f"dropped: {duplicates:,} duplicate documents, {emptied:,} of only duplicate paragraphs; skipped: {unfit:,}; "
        f"{unknown:,} <unk> tokens\nfor fairseq-train: {':'.join(map(str, shards))}"
    )


def library_versions() -> dict[str, str]:
    """Versions of the installed libraries that a corpus depends on."""
    versions = {}
    for name in ("fairseq-linformer", "numpy", "tiktoken", "sentencepiece", "tokenizers", "datasets", "pyarrow"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
