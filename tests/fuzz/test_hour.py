"""An hour, or FUZZ_MINUTES, over all parsers, with the inputs of FUZZ_SEED.

Each input is tried in a child process, with 12 GiB of address space and 20 seconds of the processor: crashes and hangs
are findings, too.
Findings of at most 16 KiB are stored in tests/fuzz/corpus, where the tests repeat them; all are in build/fuzz.
"""

import faulthandler
import os
import random
import resource
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from .findings import FOLDER, LIMIT, store
from .mutations import KINDS, mutate
from .targets import NAMES, Target, build_targets, check, surroundings

ROUND = {True: 5, False: 200}
"""Inputs of a slow or quick target per child process."""
SECONDS = 20
"""Limit on the processor's time per input: on a busy machine the clock says nothing."""
BUILD = Path(__file__).parents[2] / "build/fuzz"


def draw(generator: random.Random, seed: bytes) -> bytes:
    count = generator.choice((1, 1, 2, 3, 5, 8))
    mutations = [
        (generator.randrange(len(KINDS)), generator.random(), generator.randrange(1 << 16)) for _ in range(count)
    ]
    return mutate(seed, mutations)


def work(target: Target, world: Path, seed: int, current: Path, out: int) -> None:
    """Try a round of inputs, and write a letter for each: accepted, rejected or a finding, which ends the round."""
    # address space: PyTorch and its libraries have mapped several GiB already
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    generator = random.Random(seed)
    with surroundings(world, target) as path:
        for _ in range(ROUND[target.slow]):
            data = draw(generator, target.seed)
            current.write_bytes(data)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                os.write(out, b"r" if check(target, path, data) else b"a")
            except BaseException as error:
                os.write(out, b"f" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:300])
                break
            signal.setitimer(signal.ITIMER_PROF, 0)


def try_round(name: str, target: Target, world: Path, seed: int) -> tuple[Counter, str, bytes]:
    """Counts of a round, and the finding's error and input; empty if there is none."""
    current = BUILD / "current"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1), os.dup2(null, 2)
        faulthandler.disable()
        status = 1
        try:
            work(target, world, seed, current, writing)
            status = 0
        finally:
            os._exit(status)  # never back into pytest
    os.close(writing)
    with open(reading, "rb") as file:
        output = file.read()
    _, status = os.waitpid(child, 0)
    letters, _, error = output.partition(b"f")
    reason = error.decode("utf-8", "replace")
    if status and not reason:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else status
        reason = f"more than {SECONDS} seconds of the processor" if number == signal.SIGPROF else f"signal {number}"
    counts = Counter(accepted=letters.count(b"a"), rejected=letters.count(b"r"), findings=int(bool(reason)))
    return counts, reason, current.read_bytes() if reason else b""


@pytest.mark.nightly
def test_fuzz(world):
    BUILD.mkdir(parents=True, exist_ok=True)
    targets = build_targets(world)
    only = os.environ.get("FUZZ_TARGETS", "").split(",") if os.environ.get("FUZZ_TARGETS") else NAMES
    end = time.monotonic() + 60 * float(os.environ.get("FUZZ_MINUTES", "60"))
    seed, totals, known = int(os.environ.get("FUZZ_SEED", "1")) << 32, {name: Counter() for name in only}, set()
    while time.monotonic() < end:
        for name in only:
            seed += 1
            counts, reason, data = try_round(name, targets[name], world, seed)
            totals[name] += counts
            if reason and (name, reason[:60]) not in known:
                known.add((name, reason[:60]))
                path = store(BUILD, name, data)
                if len(data) <= LIMIT:
                    path = store(FOLDER, name, data)
                print(f"{name}: {reason}: {path}")
    for name, counts in totals.items():
        print(name, *(f"{counts[kind]:,} {kind}," for kind in ("accepted", "rejected", "findings")))
    every = sum(totals.values(), Counter())
    print("all", *(f"{every[kind]:,} {kind}," for kind in ("accepted", "rejected", "findings")))
    assert not every["findings"]
