"""``fairseq-linformer prepare pretraining``: builds fairseq's data-bin, in shards, from text sources.

    OUT/plan.json            options, tokenizer, and the chunks of the sources
    OUT/work/chunk-*         tokenized chunks (chunks.py); removed at the end
    OUT/shardI/              train.bin, train.idx, dict.txt; the first shard also has valid
    OUT/manifest.json        sources and counts; written last

Rerun the command to resume an interrupted run with its missing chunks. The result does not depend on interruptions, the
number of processes, or the distribution of chunks over machines.
"""

import errno
import fcntl
import json
import os
import re
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..files import open_atomic, read_json, write_lines
from . import manifest, sources
from .assembly import assemble, list_blocks
from .chunks import chunk_name, is_done, remove_unfinished
from .options import LATE_OPTIONS, CorpusOptions
from .plan import Chunk, make_plan, planned_source
from .tokenizer import Tokenizer, load_tokenizer
from .workers import tokenize_chunks

_OUTPUTS = ("plan.json", manifest.MANIFEST, "work/chunk-000000.json", "shard0/dict.txt", "shard0/train.bin")
"""Files of each kind that are written."""


def prepare_corpus(
    out, options: CorpusOptions, workers: int | None = None, part: tuple[int, int] | None = None, merge: bool = False
) -> str:
    """Prepare a corpus, tokenize a part of its chunks, or assemble tokenized chunks.

    Scripts must call it under ``if __name__ == "__main__":``, because worker processes import the script.

    Args:
        out: new or empty folder, or that of an interrupted run.
        workers: number of processes; by default that of the available processors.
        part: (I, N), 1 <= I <= N: tokenize every N-th chunk, beginning with the I-th, and assemble nothing.
        merge: require that all chunks are tokenized, and assemble them.

    Returns:
        a summary with the path for ``fairseq-train``, or what remains to be done.

    Raises:
        ValueError: a source is missing or damaged, or an argument does not fit.
        OSError: a file cannot be read or written.
        KeyboardInterrupt: Ctrl-C; finished chunks are kept.
    """
    out = Path(out)
    if part is not None and not 1 <= part[0] <= part[1]:
        raise ValueError(f"part must be I/N with 1 <= I <= N, got {part[0]}/{part[1]}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if merge and workers is not None:
        raise ValueError(f"workers has no effect with --merge, which tokenizes nothing; omit it, got {workers}")
    if (out.is_symlink() and not out.exists()) or (out.exists() and not out.is_dir()):
        raise ValueError(f"OUT must be a new or empty folder, or that of an interrupted run, got the file {out}")
    names = os.listdir(out) if out.exists() else []
    if "plan.json" not in names and not all(name.startswith(".") for name in names):
        raise ValueError(f"OUT must be a new or empty folder, or that of an interrupted run; {out} has other files")
    _raise_file_limit(3 * options.shards + 100)
    with _report_full_disk(out), _remove_unstarted(out):
        return _prepare(out, options, workers, part, merge)


def _prepare(out: Path, options: CorpusOptions, workers: int | None, part: tuple[int, int] | None, merge: bool) -> str:
    tokenizer = load_tokenizer(options.tokenizer_files)
    plan = _load_or_make_plan(out, options, tokenizer)
    work, chunks = out / "work", [Chunk(**chunk) for chunk in plan["chunks"]]
    with _lock(out / ".lock", shared=part is not None):
        if (out / manifest.MANIFEST).exists():
            shutil.rmtree(work, ignore_errors=True)
            manifest.check_files(out)
            return manifest.summarize_corpus(out)
        own = [i for i in range(len(chunks)) if part is None or i % part[1] == part[0] - 1]
        missing = [i for i in own if not is_done(work, i)]
        if merge and missing:
            raise ValueError(
                f"--merge needs all {len(chunks)} chunks of {out}; {len(missing)} are not tokenized yet, the first is "
                f"{chunk_name(missing[0])}"
            )
        # With --part, unfinished files may belong to another running part.
        with _remove_unfinished(work) if part is None else nullcontext():
            planned = [planned_source(source) for source in plan["sources"]]
            tokenize_chunks(work, options, planned, chunks, missing, workers)
        if part is not None:
            done = f"part {part[0]}/{part[1]} is done, {len(own)} of {len(chunks)} chunks"
            return f"{out}: {done}; after all parts, run with --merge"
        return _assemble(out, options, tokenizer, plan, chunks)


def _load_or_make_plan(out: Path, options: CorpusOptions, tokenizer: Tokenizer) -> dict[str, Any]:
    """Write ``plan.json``, or read it and check that it matches the options."""
    path = out / "plan.json"
    current = {"options": {**asdict(options), "sources": list(options.sources)}, "tokenizer": tokenizer.checksums}
    with _lock(out / ".plan.lock", wait=True):  # parts may start at the same time
        if path.exists():
            plan = _load_plan(path, options, tokenizer)
            if plan["options"] == current["options"] or (out / manifest.MANIFEST).exists():
                return plan
            plan.update(current)
        else:
            parsed = [sources.parse_source(source) for source in options.sources]
            sources.check_outside(parsed, [out / name for name in _OUTPUTS])
            new_plan = make_plan(parsed, max(1, int(options.chunk_mib * (1 << 20))))
            plan = {**current, "sources": new_plan.sources, "chunks": [asdict(chunk) for chunk in new_plan.chunks]}
        with open_atomic(path) as file:
            json.dump(plan, file, indent=1)
    return plan


def _load_plan(path: Path, options: CorpusOptions, tokenizer: Tokenizer) -> dict[str, Any]:
    """Read a plan. Raises ValueError if it is for another corpus, or a source has changed."""
    folder = path.parent
    try:
        plan = read_json(path)
        previous = CorpusOptions(**{**plan["options"], "sources": tuple(plan["options"]["sources"])}).fixed_options()
        plan["tokenizer"], plan["sources"], plan["chunks"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} was not written by prepare pretraining; choose another folder") from None
    finished = (folder / manifest.MANIFEST).exists()
    for name, value in options.fixed_options().items():
        if previous[name] != value and (finished or name not in LATE_OPTIONS):
            raise ValueError(
                f"{name} must be {previous[name]!r}, as in {folder}, got {value!r}; choose another folder to change it"
            )
    if sorted(plan["tokenizer"].values()) != sorted(tokenizer.checksums.values()):  # names may differ
        raise ValueError(f"the tokenizer's files changed after the run in {folder} started; choose another folder")
    if not finished:
        _check_unchanged(plan)
    return plan


def _check_unchanged(plan: dict[str, Any]) -> None:
    """Raise ValueError if files of the sources were changed, added or deleted."""
    for source in plan["sources"]:
        for file in source["files"]:
            try:
                stat = os.stat(file["path"])
            except OSError:
                raise ValueError(f"{file['path']} was deleted after the run started; restore it") from None
            if (stat.st_size, stat.st_mtime_ns) != (file["bytes"], file["changed"]):
                raise ValueError(f"{file['path']} changed after the run started; choose another output folder")
        added = set(sources.list_files(planned_source(source))) - {file["path"] for file in source["files"]}
        if added:
            raise ValueError(f"{min(added)} was added after the run started; choose another output folder")


def _assemble(
    out: Path, options: CorpusOptions, tokenizer: Tokenizer, plan: dict[str, Any], chunks: list[Chunk]
) -> str:
    work, num_sources, unique = out / "work", len(plan["sources"]), options.unique_paragraphs
    read = manifest.read_counts(work, num_sources, chunks)
    manifest.check_skipped(read, options.max_skipped)
    _check_unchanged(plan)
    for leftover in out.glob("shard*"):  # of a run that was killed here
        if re.fullmatch(r"shard\d+", leftover.name) and leftover.is_dir():
            shutil.rmtree(leftover)
    blocks = list_blocks(work, [chunk.source for chunk in chunks], tokenizer.dtype, unique)
    by_split, by_source = assemble(blocks, num_sources, out, options.valid_share, options.shards, unique)
    for shard in range(options.shards):
        write_lines(out / f"shard{shard}" / "dict.txt", tokenizer.dictionary)
    counts = [{**source_read, **source_kept} for source_read, source_kept in zip(read, by_source)]
    tokenizer_record = {"name": tokenizer.name, "files": tokenizer.checksums}
    manifest.write_manifest(out, options.command(out), plan["sources"], counts, by_split, tokenizer_record)
    shutil.rmtree(work)
    return manifest.summarize_corpus(out)


def _raise_file_limit(num_files: int) -> None:
    """Raise the process's limit on open files if it is below ``num_files``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < num_files:
        if hard != resource.RLIM_INFINITY and hard < num_files:
            raise ValueError(f"--shards needs {num_files} open files, ulimit -n allows {hard}; lower --shards")
        resource.setrlimit(resource.RLIMIT_NOFILE, (num_files, hard))


@contextmanager
def _remove_unfinished(work: Path) -> Iterator[None]:
    """Remove partial chunk files before and after the block."""
    remove_unfinished(work)
    try:
        yield
    finally:
        remove_unfinished(work)


@contextmanager
def _remove_unstarted(out: Path) -> Iterator[None]:
    """Leave nothing behind if a new run fails before its first chunk is tokenized."""
    is_new, is_planned = not out.exists(), (out / "plan.json").exists()
    try:
        yield
    except BaseException:
        if not is_planned and out.is_dir() and not any((out / "work").glob("chunk-*.json")):
            with suppress(ValueError), _lock(out / ".lock"):  # a locked folder has other running parts
                for name in ("plan.json", ".plan.lock", ".lock"):
                    (out / name).unlink(missing_ok=True)
                shutil.rmtree(out / "work", ignore_errors=True)
            if is_new and not any(out.iterdir()):
                out.rmdir()
        raise


@contextmanager
def _report_full_disk(out: Path) -> Iterator[None]:
    """Turn a full disk into a ValueError that names the folder."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise ValueError(
            f"no space left for {out} ({error.strerror}); finished chunks are kept: free space and rerun to resume"
        ) from None


@contextmanager
def _lock(path: Path, shared: bool = False, wait: bool = False) -> Iterator[None]:
    """Lock a folder: shared between parts, exclusive for assembly."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+") as file:  # NFS locks as shared only what is open for reading
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise ValueError(f"{path.parent} is being prepared by another process; wait, or use --part") from None
        yield
