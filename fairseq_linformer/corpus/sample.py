"""``fairseq-linformer prepare sentencepiece``: a model trained on a sample of the sources.

The first documents of every chunk are taken, so that the sample is spread over all sources, and the same sources give
the same model.
"""

import json
import shlex
from typing import Iterator, List, Sequence

from ..files import atomic, new_folder, sha256
from . import sources, spm
from .documents import Unfit, documents, lines_of
from .manifest import NAME, versions
from .plan import Plan, make_plan, source_of

CHUNK_BYTES = 16 << 20


def train(
    out, locations: Sequence[str], vocab_size: int, sample_mib: float = 32, model_type: str = "bpe",
    fold_case: bool = False,
) -> str:  # fmt: skip
    """Write ``spm.model``, ``dict.txt`` and ``manifest.json``.

    Args:
        out: folder, new or empty.
        locations: sources, as sources.py has them.
        vocab_size: V, pieces of the model, <unk> included.
        sample_mib: MiB of text that it is trained on.
        model_type: ``bpe`` or ``unigram``.
        fold_case: take upper case for lower case. Off by default, unlike in ``python -m fairseq_linformer.corpus.spm``.

    Returns:
        a summary.

    Raises:
        ValueError: bad input.
        OSError: a file cannot be read or written.
    """
    if not sample_mib > 0:
        raise ValueError(f"sample_mib is {sample_mib}; it must be above 0")
    parsed = [sources.parse(location) for location in locations]
    if not parsed:
        raise ValueError("there is no source; give --source, for instance wikipedia or a file")
    with new_folder(out) as folder:
        plan = make_plan(parsed, CHUNK_BYTES)
        sizes: List[int] = []
        lines = _sample(plan, sample_mib * (1 << 20), sizes)
        model = spm.train(lines, vocab_size, model_type, fold_case=fold_case)
        (folder / "spm.model").write_bytes(model)
        spm.write_dictionary(model, folder / "dict.txt")
        command = [
            "fairseq-linformer", "prepare", "sentencepiece", str(out), "--vocab-size", str(vocab_size),
            "--sample-mib", str(sample_mib), "--model-type", model_type, *["--fold-case"] * fold_case,
            *(word for location in locations for word in ("--source", location)),
        ]  # fmt: skip
        planned = [
            {**source, "files": [{"path": file["path"], "bytes": file["bytes"]} for file in source["files"]]}
            for source in plan.sources
        ]
        content = {
            "command": shlex.join(command),
            "sources": planned,
            "sample": {"bytes": sum(sizes)},
            "files": {name: {"sha256": sha256(folder / name)} for name in ("spm.model", "dict.txt")},
            "versions": versions(),
        }
        with atomic(folder / NAME) as file:
            json.dump(content, file, indent=1)
    return f"{out}/spm.model: {vocab_size} pieces, trained on {sum(sizes) / 1e6:.1f} MB"


def _sample(plan: Plan, total: float, sizes: List[int]) -> Iterator[str]:
    """Lines; ``sizes`` receives the number of bytes taken from each chunk."""
    for i, chunk in enumerate(plan.chunks):
        share = (total - sum(sizes)) / (len(plan.chunks) - i)  # later chunks get what short ones leave
        taken = 0
        for raw in documents(chunk, source_of(plan.sources[chunk.source])):
            if taken >= share:
                break
            try:
                lines = lines_of(raw)
            except Unfit:
                continue
            yield from lines
            taken += sum(len(line.encode("utf-8")) + 1 for line in lines)
        sizes.append(taken)
    if not any(sizes):
        raise ValueError("the sources have no documents with text")
