"""Worker processes that tokenize chunks.

An error or a signal terminates them without waiting: a chunk of a compressed file can take hours, and chunk files are
written atomically.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..progress import Progress
from ..signals import handle
from .chunks import tokenize_chunk
from .options import CorpusOptions
from .plan import Chunk
from .sources import Source
from .tokenizer import load_tokenizer

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_state: dict[str, Any] = {}
"""In a worker process, the arguments of ``tokenize_chunk`` that are the same for all chunks."""


def tokenize_chunks(
    folder: Path,
    options: CorpusOptions,
    sources: list[Source],
    chunks: list[Chunk],
    missing: list[int],
    workers: int | None,
) -> None:
    """Tokenize the missing chunks. Finished chunks survive errors and interruptions.

    Args:
        folder: folder for the chunk files.
        sources: the planned sources, which chunks refer to by index.
        missing: indices of the chunks to tokenize.
        workers: number of processes; by default the number of available processors.

    Raises:
        ValueError: a source is damaged, or a process was killed or could not start.
        OSError: a file cannot be read or written.
        KeyboardInterrupt: a signal was received, and its handler raised nothing else; the workers have ended.
    """
    if not missing:
        return
    workers = min(len(missing), workers or len(os.sched_getaffinity(0)))
    context = multiprocessing.get_context("spawn")  # threads of other libraries do not survive a fork
    with _interrupts_blocked():  # this starts multiprocessing's resource tracker
        pool = ProcessPoolExecutor(workers, context, _start_worker, (options, sources, folder, os.getpid()))
    waiting: dict[Any, int] = {}
    total = sum(chunks[i].bytes for i in missing)
    with Progress("tokenizing", total) as progress:
        with _terminate_on_signals(pool) as received:
            try:
                with _interrupts_blocked():
                    for i in missing:
                        waiting[pool.submit(_tokenize_one, i, chunks[i])] = i
                while waiting:
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        future.result()
                        progress.add(chunks[waiting.pop(future)].bytes)
            except BrokenProcessPool:
                if not received:
                    raise ValueError(
                        f"a worker process of {folder} was killed or could not start; finished chunks are kept: rerun "
                        "with fewer --workers if it ran out of memory; scripts must call prepare_corpus under "
                        'if __name__ == "__main__"'
                    ) from None
            finally:
                if waiting:
                    _terminate(pool)
                pool.shutdown()
        if received:
            signal.raise_signal(received[0])
            raise KeyboardInterrupt  # the handler returned, but chunks are missing


def _terminate(pool: ProcessPoolExecutor) -> None:
    """Terminate the worker processes; waiting for their results then raises BrokenProcessPool."""
    for process in list((pool._processes or {}).values()):  # None after shutdown
        process.terminate()


@contextmanager
def _terminate_on_signals(pool: ProcessPoolExecutor) -> Iterator[list[int]]:
    """Inside the block the signals that have a handler terminate the workers and are recorded in the list.

    They do not raise: an exception inside ``wait`` would leave a lock held, and other threads waiting forever.
    """
    received: list[int] = []

    def terminate(number, frame) -> None:
        received.append(number)
        _terminate(pool)

    is_main = threading.current_thread() is threading.main_thread()
    with handle([number for number in _SIGNALS if is_main and callable(signal.getsignal(number))], terminate):
        yield received


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started inside the block never receive Ctrl-C or SIGHUP; this process receives them after the block.

    SIGTERM is not blocked: it is how this process ends its workers.
    """
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _start_worker(options: CorpusOptions, sources: list[Source], folder: Path, parent: int) -> None:
    """Initialize a worker process."""

    def watch() -> None:  # a killed parent cannot end its workers
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    tokenizer = load_tokenizer(options.tokenizer_files)
    _state.update(hashed=options.unique_paragraphs, sources=sources, folder=folder, tokenizer=tokenizer)


def _tokenize_one(index: int, chunk: Chunk) -> None:
    source = _state["sources"][chunk.source]
    tokenize_chunk(chunk, source, _state["tokenizer"], _state["folder"], index, _state["hashed"])
