"""``fairseq-linformer prepare sentencepiece``: a SentencePiece model trained on a sample of the sources.

The sample has random documents of every source, in the order of the source; the same sources give the same model.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..files import check_new_folder, new_folder, sha256, write_json
from . import sentencepiece_model
from .documents import load_documents, split_paragraphs
from .manifest import MANIFEST, describe_source, library_versions
from .sources import locate_source, parse_source


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
    sentencepiece_model.check_vocab_size(vocab_size)
    if not sample_mib > 0:
        raise ValueError(f"--sample-mib must be above 0, got {sample_mib}")
    out = Path(out)
    check_new_folder(out)
    located = [locate_source(parse_source(source)) for source in sources]
    lines: list[str] = []
    for i, source in enumerate(located):
        used = sum(map(_size, lines))
        # Short sources leave more for later ones.
        lines += _sample_lines(load_documents(source), (sample_mib * (1 << 20) - used) / (len(located) - i))
    if not lines:
        raise ValueError("the sources have no documents with text")
    model = sentencepiece_model.train_model(iter(lines), vocab_size, model_type, fold_case=fold_case)
    num_bytes = sum(map(_size, lines))
    with new_folder(out) as folder:
        (folder / "spm.model").write_bytes(model)
        sentencepiece_model.write_dictionary(model, folder / "dict.txt")
        options = {"vocab_size": vocab_size, "sample_mib": sample_mib, "model_type": model_type, "fold_case": fold_case}
        content = {
            "options": options,
            "sources": [describe_source(source) for source in located],
            "sample": {"bytes": num_bytes},
            "files": {name: {"sha256": sha256(folder / name)} for name in ("spm.model", "dict.txt")},
            "versions": library_versions(),
        }
        write_json(folder / MANIFEST, content)
    return f"{out}/spm.model: {vocab_size} pieces, trained on {num_bytes / 1e6:.1f} MB"


def _size(line: str) -> int:
    return len(line.encode("utf-8")) + 1


def _sample_lines(documents, num_bytes: float) -> list[str]:
    """The paragraphs of random documents of about ``num_bytes`` in total, or of all documents."""
    chosen: dict[int, list[str]] = {}
    size = 0
    for i in np.random.default_rng(0).permutation(len(documents)).tolist():
        if size >= num_bytes:
            break
        chosen[i] = split_paragraphs(documents[i]["text"])
        size += sum(map(_size, chosen[i]))
    return [line for i in sorted(chosen) for line in chosen[i]]
