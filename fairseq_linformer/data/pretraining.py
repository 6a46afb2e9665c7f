"""``fairseq-linformer prepare pretraining``: builds fairseq's data-bin, in shards, from text sources.

    OUT/shardI/          train.bin, train.idx, dict.txt and the tokenizer; the first shard also has valid
    OUT/manifest.json    sources and counts

Each source is read, then cleaned and tokenized by several processes. The cache of ``datasets`` keeps both results, so
a killed run continues after the stages that it has finished. Of equal documents the first one is kept, in the order of
the sources. Its hash decides its split and shard, so the result does not depend on the number of processes.
"""

import hashlib
import os
import shlex
import signal
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..files import fingerprint, new_folder, write_files, write_lines
from .binarized import BinarizedWriter
from .documents import BATCH_DOCUMENTS, import_datasets, load_documents, split_paragraphs
from .manifest import describe_source, write_manifest
from .sources import MAX_SHARDS, VALID_SHARE, locate_source, parse_source
from .tokenizer import FIRST_ID, GPT2, UNK, Tokenizer, entry_names, load_tokenizer
from .tokenizer_files import DICTIONARY

MIN_VALID_TOKENS = 50_000


def prepare_corpus(
    out: Path,
    sources: Sequence[str],
    tokenizer_path: Path,
    valid_share: float = VALID_SHARE,
    shards: int = 1,
    workers: int | None = None,
) -> str:
    """Prepare a corpus in a new or empty folder, with as many processes as available processors by default.

    Returns:
        a summary with the path for ``fairseq-train``.
    """
    if not 0 < valid_share < 1:
        raise ValueError(f"--valid-share must be above 0 and below 1, got {valid_share}")
    if not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"--shards must be between 1 and {MAX_SHARDS}, got {shards}")
    tokenizer = load_tokenizer(tokenizer_path)
    located = [locate_source(parse_source(source)) for source in sources]
    workers = workers or len(os.sched_getaffinity(0))
    documents = [load_documents(source) for source in located]
    encoded = [_encode(dataset, tokenizer, tokenizer_path, workers) for dataset in documents]
    corpus = import_datasets().concatenate_datasets(encoded)
    hashes = np.stack([corpus.data.column(name).to_numpy() for name in ("high", "low")], axis=1)
    first = np.sort(np.unique(hashes, axis=0, return_index=True)[1])  # of equal documents
    with new_folder(out) as folder:
        entries = tokenizer.dictionary
        counts = np.zeros(FIRST_ID + len(entries), np.int64)  # of the training tokens
        splits = _write_splits(corpus, hashes, first, folder, valid_share, shards, counts)
        if not isinstance(tokenizer, GPT2):  # whose dict.txt has RoBERTa's counts
            entries = [f"{name} {counts[i]}" for i, name in enumerate(entry_names(entries), FIRST_ID)]
        for i in range(shards):
            write_lines(folder / f"shard{i}/{DICTIONARY}", entries)
            write_files(folder / f"shard{i}", tokenizer.model_files)
        ends = np.cumsum([len(dataset) for dataset in encoded])
        kept = np.diff(np.searchsorted(first, ends), prepend=0).tolist()
        content = {
            "options": {"valid_share": valid_share, "shards": shards},
            "sources": [
                {
                    **describe_source(source),
                    "documents": kept[i],
                    "duplicate_documents": len(encoded[i]) - kept[i],
                    "empty_documents": len(documents[i]) - len(encoded[i]),
                }
                for i, source in enumerate(located)
            ],
            "tokenizer": {"name": tokenizer.name, "files": tokenizer.checksums},
            "splits": splits,
        }
        write_manifest(folder, content)
    return _summarize(out, content)


def _encode(documents, tokenizer: Tokenizer, path: Path, workers: int):
    """A ``Dataset`` of the nonempty documents: hash, words, token IDs, and the length of each line in tokens."""
    from datasets import Features, List, Value

    features = {name: Value("uint64") for name in ("high", "low", "words")}
    features |= {"ids": List(Value(tokenizer.dtype.name)), "sizes": List(Value("int32"))}
    processes = min(workers, len(documents))
    return documents.map(
        _encode_batch,
        batched=True,
        batch_size=BATCH_DOCUMENTS,
        writer_batch_size=BATCH_DOCUMENTS,
        input_columns="text",
        remove_columns="text",
        features=Features(features),
        with_rank=True,
        fn_kwargs={"path": path},
        num_proc=processes if processes > 1 else None,
        # By content: neither the path of the tokenizer nor the number of processes matters. Each process appends to it
        # what makes a name of at most 64 characters.
        new_fingerprint=fingerprint([documents._fingerprint, sorted(tokenizer.checksums.values())])[:32],
        desc="tokenizing",
    )


_load = lru_cache(maxsize=1)(load_tokenizer)


def _encode_batch(texts: list[str], rank: int | None, path: Path) -> dict[str, Any]:
    if rank is not None:  # a process of a pool, which its parent ends; it must not handle signals as the command does
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tokenizer = _load(path)
    digests, words, ids, sizes = [], [], [], []
    for text in texts:
        if paragraphs := split_paragraphs(text):
            digests.append(hashlib.blake2b("\n".join(paragraphs).encode("utf-8"), digest_size=16).digest())
            words.append(sum(len(line.split()) for line in paragraphs))
            encoded = tokenizer.encode([*paragraphs, ""])  # a lone </s> ends a document
            ids.append(encoded[0])
            sizes.append(encoded[1])
    high, low = np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2).T
    return {"high": high, "low": low, "words": words, "ids": ids, "sizes": sizes}


def _write_splits(
    corpus,
    hashes: np.ndarray,
    first: np.ndarray,
    folder: Path,
    valid_share: float,
    shards: int,
    token_counts: np.ndarray,
) -> dict[str, dict[str, int]]:
    """Write the documents ``first``, the others are duplicates, to ``shardI/train`` and ``shard0/valid``; returns the
    counts of each split, and adds those of each training token to ``token_counts`` (V,)."""
    if not len(first):
        raise ValueError("the sources have no documents with text")
    prefixes = {"valid": "shard0/valid", **{f"train{i}": f"shard{i}/train" for i in range(shards)}}
    is_valid = hashes[:, 0] < np.uint64(valid_share * 2.0**64)
    targets = np.full(len(corpus), -1)  # indices of prefixes
    targets[first] = np.where(is_valid, 0, 1 + (hashes[:, 1] % np.uint64(shards)).astype(np.int32))[first]
    for target, name in enumerate(prefixes):
        if target not in targets:
            advice = "raise --valid-share" if name == "valid" else "lower --shards or --valid-share"
            if len(first) == 1:
                advice = "blank lines separate the documents of a text file"
            raise ValueError(f"{name} is empty: none of the {len(first):,} documents was assigned to it; {advice}")
    dtype = np.dtype(corpus.features["ids"].feature.dtype)
    writers = [BinarizedWriter(folder / prefix, dtype) for prefix in prefixes.values()]
    counts: list[Counter[str]] = [Counter() for _ in prefixes]
    for i, batch in enumerate(corpus.with_format("arrow").iter(BATCH_DOCUMENTS)):
        batch_targets = targets[i * BATCH_DOCUMENTS :][: len(batch)]
        for target in np.unique(batch_targets[batch_targets >= 0]):
            part = batch.filter(batch_targets == target)
            ids, sizes = (part.column(name).combine_chunks().flatten().to_numpy() for name in ("ids", "sizes"))
            writers[target].add(ids, sizes)
            if target != 0:
                token_counts += np.bincount(ids, minlength=len(token_counts))
            counts[target].update(
                documents=len(part),
                paragraphs=len(sizes) - len(part),
                words=part.column("words").to_numpy().sum().item(),
                tokens=len(ids),  # with the </s> of lines and documents
                unknown=int((ids == UNK).sum()),
            )
    for writer in writers:
        writer.finish()
    return dict(zip(prefixes, map(dict, counts)))


def _summarize(out: Path, manifest: dict[str, Any]) -> str:
    """The counts of a corpus, and its path for ``fairseq-train``."""
    splits = manifest["splits"]
    train = sum((Counter(counts) for name, counts in splits.items() if name != "valid"), Counter())
    duplicates = sum(source["duplicate_documents"] for source in manifest["sources"])
    unknown = sum(counts["unknown"] for counts in splits.values())
    few = splits["valid"]["tokens"] < MIN_VALID_TOKENS
    advice = f"validation on fewer than {MIN_VALID_TOKENS:,} tokens is noisy; raise --valid-share\n" if few else ""
    shards = shlex.quote(":".join(str(out / f"shard{i}") for i in range(manifest["options"]["shards"])))
    return (
        f"train: {train['documents']:,} documents, {train['words']:,} words, {train['tokens']:,} tokens; "
        f"valid: {splits['valid']['documents']:,} documents, {splits['valid']['tokens']:,} tokens; "
        f"dropped: {duplicates:,} duplicate documents; {unknown:,} <unk> tokens\n{advice}for fairseq-train: {shards}"
    )
