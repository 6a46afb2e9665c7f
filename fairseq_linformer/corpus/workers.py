"""Processes that tokenise the chunks, and how they end: when all is done, at an error, at Ctrl-C.

At an error or Ctrl-C processes are terminated, not awaited: a chunk of a compressed file can take hours, and its files
are written whole or not at all.
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
"""Of a worker process: what every chunk needs."""


def tokenise_all(
    folder: Path, options: Options, planned: List[Source], chunks: List[Chunk], missing: List[int],
    workers: Optional[int],
) -> None:  # fmt: skip
    """Make the missing chunks; finished ones stay, whatever happens.

    Args:
        folder: for the files of the chunks.
        planned: the sources, to which chunks refer by index.
        missing: numbers of the chunks to make.
        workers: processes at most; by default as many as there are processors.

    Raises:
        ValueError: a source is damaged, or a process was killed or could not start.
        OSError: a file cannot be read or written.
        KeyboardInterrupt: Ctrl-C.
    """
    if not missing:
        return
    workers = min(len(missing), workers or len(os.sched_getaffinity(0)))
    context = multiprocessing.get_context("spawn")  # the threads of other libraries do not survive a fork
    pool = ProcessPoolExecutor(workers, context, _start_worker, (options, planned, folder, os.getpid()))
    waiting: Dict[Any, int] = {}
    total = sum(chunks[i].bytes for i in missing)
    with Progress("tokenising", total) as progress, _terminated_by_interruption(pool) as interruptions:
        try:
            with _interruptions_blocked():
                for i in missing:
                    waiting[pool.submit(_tokenise_one, i, chunks[i])] = i
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    future.result()
                    progress.add(chunks[waiting.pop(future)].bytes)
        except BrokenProcessPool:
            if not interruptions:
                raise ValueError(
                    f"a process of {folder} was killed or could not start; finished chunks are kept: if memory is "
                    'short rerun with fewer --workers, and a script must call prepare under if __name__ == "__main__"'
                ) from None
        finally:
            if waiting:
                _terminate(pool)
            pool.shutdown()
        if interruptions:
            raise KeyboardInterrupt


def _terminate(pool: ProcessPoolExecutor) -> None:
    """Its processes, at once; waiting for them then raises BrokenProcessPool."""
    for process in list((pool._processes or {}).values()):  # None after shutdown
        process.terminate()


@contextmanager
def _terminated_by_interruption(pool: ProcessPoolExecutor) -> Iterator[list]:
    """In this block Ctrl-C terminates the processes and is noted in the list.

    It raises nothing: raised inside ``wait``, an exception would leave a lock taken, and others waiting forever.
    """
    interruptions: list = []

    def handle(number, frame) -> None:
        interruptions.append(number)
        _terminate(pool)

    before = signal.getsignal(signal.SIGINT)
    if before in (signal.SIG_IGN, None) or threading.current_thread() is not threading.main_thread():
        yield interruptions
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield interruptions
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _interruptions_blocked() -> Iterator[None]:
    """Processes started in this block never receive Ctrl-C, which is for this one, and this one does so after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(options: Options, planned: List[Source], folder: Path, parent: int) -> None:
    """Runs first in each process."""

    def watch() -> None:  # a killed parent cannot end its workers
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    tokenizer = load_tokenizer(options.gpt2, options.sentencepiece)
    _state.update(hashed=options.unique_paragraphs, sources=planned, folder=folder, tokenizer=tokenizer)


def _tokenise_one(index: int, chunk: Chunk) -> None:
    tokenise(chunk, _state["sources"][chunk.source], _state["tokenizer"], _state["folder"], index, _state["hashed"])
