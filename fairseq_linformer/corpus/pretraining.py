"""``fairseq-linformer prepare pretraining``: from sources to fairseq's data-bin in shards.

    OUT/plan.json            chunks of the sources, options, tokenizer; what is prepared here
    OUT/work/chunk-*         each chunk as tokens (chunks.py); removed at the end
    OUT/shardI/              train.bin, train.idx, dict.txt; valid beside the first
    OUT/manifest.json        what it was made of and what came out; written last

Killed at any moment and rerun, it resumes with the missing chunks. The result does not depend on the number of reruns
or of processes, or on how chunks were dealt out to machines.
"""

import errno
import fcntl
import json
import os
import re
import resource
import shutil
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..files import atomic, write_lines
from . import manifest, sources
from .assemble import assemble, blocks_of
from .chunks import is_done, name_of, remove_unfinished
from .options import LATE, Options
from .plan import Chunk, make_plan, source_of
from .sources import Source
from .tokenizer import Tokenizer, load_tokenizer
from .workers import tokenise_all


def prepare(
    out, options: Options, workers: Optional[int] = None, part: Optional[Tuple[int, int]] = None, merge: bool = False
) -> str:
    """Do all of it, or one part of the chunks, or only put the chunks together.

    A script must call it under ``if __name__ == "__main__":``, because the processes it starts import the script.

    Args:
        out: folder; new, or one where the same was begun.
        workers: processes; by default as many as there are processors.
        part: (I, N), 1 <= I <= N: only every N-th chunk from the I-th on, without putting them together.
        merge: all chunks must be there.

    Returns:
        a summary with the path for ``fairseq-train``, or what is still to be done.

    Raises:
        ValueError: bad input.
        OSError: a file cannot be read or written.
        KeyboardInterrupt: Ctrl-C; finished chunks are kept.
    """
    out = Path(out)
    if part is not None and not 1 <= part[0] <= part[1]:
        raise ValueError(f"part is {part[0]}/{part[1]}; it must be I/N with I from 1 to N")
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}; it must be at least 1")
    if out.is_symlink() and not out.exists() or out.exists() and not out.is_dir():
        raise ValueError(f"{out} is not a folder; it must be new or empty, or one where this was begun")
    _allow_open_files(3 * options.shards + 100)
    with _full_disk_refused(out):
        return _prepare(out, options, workers, part, merge)


def _prepare(out: Path, options: Options, workers, part, merge: bool) -> str:
    tokenizer = load_tokenizer(options.gpt2, options.sentencepiece)
    plan = _plan(out, options, tokenizer)
    work, chunks = out / "work", [Chunk(**chunk) for chunk in plan["chunks"]]
    with _locked(out / ".lock", shared=part is not None):
        if (out / manifest.NAME).exists():
            shutil.rmtree(work, ignore_errors=True)
            manifest.check_files(out)
            return manifest.summary(out)
        mine = [i for i in range(len(chunks)) if part is None or i % part[1] == part[0] - 1]
        missing = [i for i in mine if not is_done(work, i)]
        if merge and missing:
            count, first = f"{len(missing)} of {len(chunks)} chunks of {out}", name_of(missing[0])
            raise ValueError(f"{count} are not done, the first is {first}; run their part")
        with _unfinished_removed(work) if part is None else nullcontext():  # those of other parts are theirs
            planned = [source_of(source) for source in plan["sources"]]
            tokenise_all(work, options, planned, chunks, missing, workers)
        if part is not None:
            done = f"part {part[0]}/{part[1]} is done, {len(mine)} of {len(chunks)} chunks"
            return f"{out}: {done}; when all parts are, run it with --merge"
        return _assemble(out, options, tokenizer, plan, chunks)


def _plan(out: Path, options: Options, tokenizer: Tokenizer) -> Dict[str, Any]:
    """Make the plan, or read it and check that it is the same."""
    path = out / "plan.json"
    if not path.exists() and out.exists() and any(not entry.name.startswith(".") for entry in out.iterdir()):
        raise ValueError(f"{out} has other files in it; it must be new or empty, or a folder where this was begun")
    current = {"options": {**asdict(options), "sources": list(options.sources)}, "tokenizer": tokenizer.files}
    with _locked(out / ".plan.lock", wait=True):  # parts begin together
        if path.exists():
            plan = _same_plan(path, options, tokenizer)
            if plan["options"] == current["options"] or (out / manifest.NAME).exists():
                return plan
            plan.update(current)
        else:
            parsed = [sources.parse(source) for source in options.sources]
            _check_apart(out, parsed)
            made = make_plan(parsed, max(1, int(options.chunk_mib * (1 << 20))))
            plan = {**current, "sources": made.sources, "chunks": [asdict(chunk) for chunk in made.chunks]}
        with atomic(path) as file:
            json.dump(plan, file, indent=1)
    return plan


def _check_apart(out: Path, parsed: List[Source]) -> None:
    """Refuse a folder from which a source would read what is written there."""
    for source in parsed:
        for name in ("plan.json", "manifest.json", "work/chunk-000000.json", "shard0/dict.txt", "shard0/train.bin"):
            if sources.takes(source, out / name):
                inside = f"{out} lies in the source {source.location}, which would read {out / name}"
                raise ValueError(f"{inside}; choose a folder outside it")


def _same_plan(path: Path, options: Options, tokenizer: Tokenizer) -> Dict[str, Any]:
    """The existing plan; ValueError if it is of another corpus, or a source has changed."""
    folder = path.parent
    try:
        plan = json.loads(path.read_text())
        before = Options(**{**plan["options"], "sources": tuple(plan["options"]["sources"])}).compared()
        plan["tokenizer"], plan["sources"], plan["chunks"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is not of this command; take another folder") from None
    finished = (folder / manifest.NAME).exists()
    for name, value in options.compared().items():
        if before[name] != value and (finished or name not in LATE):
            raise ValueError(f"{folder} was begun with {name} {before[name]!r}, not {value!r}; take another folder")
    if plan["tokenizer"] != tokenizer.files:
        raise ValueError(f"{folder} was begun with another tokenizer: its files have changed; take another folder")
    if not finished:
        _check_unchanged(plan)
    return plan


def _check_unchanged(plan: Dict[str, Any]) -> None:
    for source in plan["sources"]:
        for file in source["files"]:
            try:
                stat = os.stat(file["path"])
            except OSError:
                raise ValueError(f"{file['path']} is gone since this was begun") from None
            if (stat.st_size, stat.st_mtime_ns) != (file["bytes"], file["changed"]):
                raise ValueError(f"{file['path']} has changed since this was begun; take another folder")
        new = set(sources.files_of(source_of(source))) - {file["path"] for file in source["files"]}
        if new:
            raise ValueError(f"{min(new)} is new since this was begun; take another folder")


def _assemble(out: Path, options: Options, tokenizer: Tokenizer, plan: Dict[str, Any], chunks: List[Chunk]) -> str:
    work, count, unique = out / "work", len(plan["sources"]), options.unique_paragraphs
    read = manifest.read_counts(work, count, chunks)
    manifest.check_skipped(read, options.max_skipped)
    _check_unchanged(plan)
    for leftover in out.glob("shard*"):  # of a run that was killed here
        if re.fullmatch(r"shard\d+", leftover.name) and leftover.is_dir():
            shutil.rmtree(leftover)
    blocks = blocks_of(work, [chunk.source for chunk in chunks], tokenizer.dtype, unique)
    by_split, by_source = assemble(blocks, count, out, options.valid_share, options.shards, unique)
    for shard in range(options.shards):
        write_lines(out / f"shard{shard}" / "dict.txt", tokenizer.dictionary)
    counts = [{**source_read, **source_kept} for source_read, source_kept in zip(read, by_source)]
    files = {"name": tokenizer.name, "files": tokenizer.files}
    manifest.write(out, options.command(out), plan["sources"], counts, by_split, files)
    shutil.rmtree(work)
    return manifest.summary(out)


def _allow_open_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            limit = f"{hard} are allowed here (ulimit -n)"
            raise ValueError(f"so many shards need {count} open files, and {limit}; lower --shards")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


@contextmanager
def _unfinished_removed(work: Path):
    """Remove the partial files of processes that were ended, before and after the block."""
    remove_unfinished(work)
    try:
        yield
    finally:
        remove_unfinished(work)


@contextmanager
def _full_disk_refused(out: Path):
    """Turn a full disk into a ValueError that names the folder."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise ValueError(
            f"there is no room left for {out} ({error.strerror}); finished chunks are kept: make room and rerun"
        ) from None


@contextmanager
def _locked(path: Path, shared: bool = False, wait: bool = False):
    """Parts can run side by side; only putting them together runs alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise ValueError(f"{path.parent} is being prepared by another process; wait, or use --part") from None
        yield
