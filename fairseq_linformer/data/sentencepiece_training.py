"""``fairseq-linformer prepare sentencepiece``: a SentencePiece model trained on a sample of the sources.

The sample consists of the first documents of every chunk, so it covers all sources, and the same sources give the same
model.
"""

import json
import shlex
from collections.abc import Iterator, Sequence

from ..files import new_folder, open_atomic, sha256
from ..progress import Progress
from . import sentencepiece_model
from .documents import UnfitDocument, read_documents, split_paragraphs
from .manifest import MANIFEST, library_versions
from .options import NO_SOURCE
from .plan import Plan, make_plan, planned_source
from .sources import parse_source

_CHUNK_BYTES = 16 << 20


def prepare_sentencepiece(
    out,
    sources: Sequence[str],
    vocab_size: int,
    sample_mib: float = 32,
    model_type: str = "bpe",
    fold_case: bool = False,
) -> str:
    """Write ``spm.model``, ``dict.txt`` and ``manifest.json``.

    Args:
        out: new or empty folder.
        sources: as ``sources.py`` describes them.
        vocab_size: V, the number of pieces, including <unk>.
        sample_mib: MiB of text to train on.
        model_type: ``bpe`` or ``unigram``.
        fold_case: convert uppercase to lowercase.

    Returns:
        a one-line summary.

    Raises:
        ValueError: an option is out of range, or a source is missing or damaged.
        OSError: a file cannot be read or written.
    """
    if not sample_mib > 0:
        raise ValueError(f"sample_mib must be above 0, got {sample_mib}")
    if not sources:
        raise ValueError(NO_SOURCE)
    parsed = [parse_source(source) for source in sources]
    with new_folder(out) as folder:
        plan = make_plan(parsed, _CHUNK_BYTES)
        sizes: list[int] = []
        with Progress("sampling and training", None) as progress:
            lines = _sample_lines(plan, sample_mib * (1 << 20), sizes, progress)
            model = sentencepiece_model.train_model(lines, vocab_size, model_type, fold_case=fold_case)
        (folder / "spm.model").write_bytes(model)
        sentencepiece_model.write_dictionary(model, folder / "dict.txt")
        command = ["fairseq-linformer", "prepare", "sentencepiece", str(out), "--vocab-size", str(vocab_size)]
        command += ["--sample-mib", str(sample_mib), "--model-type", model_type, *["--fold-case"] * fold_case]
        for source in sources:
            command += ["--source", source]
        content = {
            "command": shlex.join(command),
            "sources": [
                {**source, "files": [{"path": file["path"], "bytes": file["bytes"]} for file in source["files"]]}
                for source in plan.sources
            ],
            "sample": {"bytes": sum(sizes)},
            "files": {name: {"sha256": sha256(folder / name)} for name in ("spm.model", "dict.txt")},
            "versions": library_versions(),
        }
        with open_atomic(folder / MANIFEST) as file:
            json.dump(content, file, indent=1)
    return f"{out}/spm.model: {vocab_size} pieces, trained on {sum(sizes) / 1e6:.1f} MB"


def _sample_lines(plan: Plan, num_bytes: float, sizes: list[int], progress: Progress) -> Iterator[str]:
    """Lines of about ``num_bytes`` in total; the number of bytes from each chunk is appended to ``sizes``."""
    for i, chunk in enumerate(plan.chunks):
        share = (num_bytes - sum(sizes)) / (len(plan.chunks) - i)  # short chunks leave more for later ones
        size = 0
        for raw in read_documents(chunk, planned_source(plan.sources[chunk.source])):
            if size >= share:
                break
            try:
                lines = split_paragraphs(raw)
            except UnfitDocument:
                continue
            yield from lines
            num_read = sum(len(line.encode("utf-8")) + 1 for line in lines)
            size += num_read
            progress.add(num_read)
        sizes.append(size)
    if not any(sizes):
        raise ValueError("the sources have no documents with text")
