"""Processes that tokenise the chunks, and how they end: when all is done, at an error, at Ctrl-C.

Whatever ends it, processes are not waited for but ended: a chunk of a compressed file can take hours, and its
files are there whole or not at all.
"""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from ..progress import Progress
from .chunks import tokenise
from .options import Options
from .plan import Chunk
from .sources import Source
from .tokenizer import load_tokenizer

_state: Dict[str, Any] = {}
"""Of a worker: what it needs for every chunk."""


def tokenise_all(folder: Path, options: Options, planned: List[Source], chunks: List[Chunk], missing: List[int], workers: Optional[int]) -> None:
    """Make the chunks that are missing; those that are done stay, whatever happens.

    Args:
        folder: takes the files of the chunks.
        planned: the sources, which chunks name by their numbers.
        missing: numbers of the chunks to make.
        workers: processes at most; as many as there are processors if left out.

    Raises:
        ValueError: a source is damaged, or a process was killed or could not start; a sentence.
        OSError: a file cannot be read or written.
        KeyboardInterrupt: Ctrl-C.
    """
    if not missing:
        return
    workers = min(len(missing), workers or len(os.sched_getaffinity(0)))
    context = multiprocessing.get_context("spawn")  # threads of others do not survive a fork
    pool = ProcessPoolExecutor(workers, context, _start_worker, (options, planned, folder, os.getpid()))
    waiting: Dict[Any, int] = {}
    with Progress("tokenising", sum(chunks[i].bytes for i in missing)) as progress, _ended_by_interruption(pool) as interrupted:
        try:
            with _interruptions_blocked():
                for i in missing:
                    waiting[pool.submit(_tokenise_one, i, chunks[i])] = i
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    future.result()
                    progress.add(chunks[waiting.pop(future)].bytes)
        except BrokenProcessPool:
            if not interrupted:
                raise ValueError(
                    f"a process of {folder} was killed or could not start; the chunks that are done are kept: if memory is short start again "
                    'with fewer --workers, and a script must call prepare under if __name__ == "__main__"'
                ) from None
        finally:
            if waiting:
                _end(pool)
            pool.shutdown()
        if interrupted:
            raise KeyboardInterrupt


def _end(pool: ProcessPoolExecutor) -> None:
    """Its processes, at once; what waits for them hears BrokenProcessPool."""
    for process in list((pool._processes or {}).values()):  # None when all is over
        process.terminate()


@contextmanager
def _ended_by_interruption(pool: ProcessPoolExecutor) -> Iterator[list]:
    """In this block Ctrl-C ends the processes and is noted in the list.

    It raises nothing: raised inside ``wait``, an exception leaves a lock taken, for which others wait for ever.
    """
    noted: list = []

    def end(number, frame) -> None:
        noted.append(number)
        _end(pool)

    before = signal.getsignal(signal.SIGINT)
    if before in (signal.SIG_IGN, None) or threading.current_thread() is not threading.main_thread():
        yield noted
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _interruptions_blocked() -> Iterator[None]:
    """Processes that are started in this block never hear Ctrl-C, which is for this one, and this one after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(options: Options, planned: List[Source], folder: Path, parent: int) -> None:
    """Each process begins with it."""

    def watch() -> None:  # killed, the parent cannot say goodbye
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    tokenizer = load_tokenizer(options.gpt2, options.sentencepiece)
    _state.update(hashed=options.unique_paragraphs, sources=planned, folder=folder, tokenizer=tokenizer)


def _tokenise_one(index: int, chunk: Chunk) -> None:
    tokenise(chunk, _state["sources"][chunk.source], _state["tokenizer"], _state["folder"], index, _state["hashed"])
