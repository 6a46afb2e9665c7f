"""A long run: a job of two ranks is killed and stopped again and again, and ends with the bits of an undisturbed one.

    SOAK_MINUTES=60 SOAK_SEED=1 python -m pytest -q -n 0 -s tests/launching/soak.py

``DISTURBED`` of the minutes are for the job that is disturbed. An undisturbed one then repeats its updates; it starts
once, so that its leaks add up. The summary is printed, and written to build/soak/summary.json.
"""

import json
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
from fairseq.trainer import Trainer

from fairseq_linformer.launching import worker
from fairseq_linformer.launching.checkpoints import LAST
from fairseq_linformer.launching.run_folder import ATTEMPTS, CHECKPOINTS, CONFIG, LOCK, LOGS, STOPPED, STOPS

from ..fairseq_commands import load, masked_lm_data
from . import jobs
from .two_ranks import RANKS, TwoRanks

BUILD = Path(__file__).parents[2] / "build/soak"
DISTURBED = 0.65
"""Share of the minutes. The other job repeats no update, and starts once."""
MEAN_SECONDS = 12.0
"""Mean time from a start to its kill or stop, which is exponentially distributed."""
SAVE_INTERVAL, KEEP = 10, 2
KINDS = {
    "SIGKILL of one rank": (signal.SIGKILL, 1),
    "SIGKILL of all ranks": (signal.SIGKILL, 2),
    "SIGTERM of one rank": (signal.SIGTERM, 1),
    "SIGTERM of all ranks": (signal.SIGTERM, 2),
}
"""Signal and number of ranks."""
LAST_STOP = "SIGTERM of all ranks"
GRACE, LOADERS, DEADLINE = 20.0, 30.0, 600.0
"""Seconds until a rank without its peer is killed, as by a launcher; until data loaders must have ended, which outlive
a killed rank by up to 5 seconds; and until a job that does not end is stuck."""
WARM_UP = 0.2
"""Share of the updates before memory and descriptors are compared."""
MAX_GROWTH = 0.02
"""Of the resident memory of a rank: trend over the undisturbed job, and over the peaks of the attempts."""
MAX_CHECKPOINTS = KEEP + 5
"""At any time: a new one before an old one is deleted, last and best, and the copies of both that are being written."""
CACHE = "torchinductor_"
"""PyTorch's own cache in the folder of temporary files."""
RUN_FILES = {LOCK, ATTEMPTS, CHECKPOINTS, CONFIG, LOGS, STOPS, STOPPED, "tensorboard"}


class Attempt:
    """The processes of a start, what they log, and samples of their memory and descriptors."""

    def __init__(self, job: TwoRanks, number: int, before: Callable[[int], object]):
        self.checkpoints = job.folder / CHECKPOINTS
        self.losses: dict[int, str] = {}
        """By number of updates, as rank 0 logged them."""
        self.loaded: int | None = None
        self.saved: list[int] = []
        self.samples: list[list[tuple[int, int, int]]] = [[] for _ in RANKS]
        """By rank: updates so far, bytes of resident memory, open descriptors."""
        self.pids: set[int] = set()
        self.max_checkpoints = self.max_checkpoint_bytes = 0
        self.left_alone = False
        """Whether a rank was still waiting for its peer after ``GRACE``."""
        logs = job.folder / LOGS / f"{number:05}"
        logs.mkdir()

        def separate(rank: int) -> None:
            os.setsid()
            with open(logs / f"rank-{rank}.txt", "wb") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            before(rank)

        self.ranks = job.start_ranks(separate)
        self.sessions = {rank.process.pid for rank in self.ranks}
        self._log, self._position = logs / "rank-0.txt", 0

    def observe(self, seconds: float) -> None:
        """Sample, and wait for this time or for the end of a rank."""
        self._read_log()
        updates = max(self.losses, default=self.loaded or 0)
        for rank, samples in zip(self.ranks, self.samples):
            try:
                process = psutil.Process(rank.process.pid)
                sample = (updates, process.memory_info().rss, process.num_fds())
                self.pids |= {process.pid, *(child.pid for child in process.children(recursive=True))}
            except psutil.Error:  # it has ended
                continue
            if sample[1]:  # not a zombie
                samples.append(sample)
        sizes = [size for path in self.checkpoints.glob("*.pt*") if (size := _size(path)) > 1000]
        self.max_checkpoints = max(self.max_checkpoints, len(sizes))
        self.max_checkpoint_bytes = max(self.max_checkpoint_bytes, sum(sizes))
        if alive := self.alive():
            alive[0].process.join(seconds)

    def alive(self) -> list:
        return [rank for rank in self.ranks if rank.process.is_alive()]

    def wait(self) -> list[int]:
        """Wait until all processes have ended; returns the ranks' statuses."""
        start = both = time.monotonic()
        while alive := self.alive():
            assert time.monotonic() < start + DEADLINE, self.last_lines()
            if len(alive) == len(self.ranks):
                both = time.monotonic()
            elif time.monotonic() > both + GRACE:
                self.left_alone = True
                alive[0].process.kill()
            self.observe(0.2)
        self._read_log()
        statuses = [rank.wait() for rank in self.ranks]
        for rank in self.ranks:
            rank.process.close()
        return statuses

    def orphans(self) -> list[dict]:
        """Processes of this attempt that did not end with it."""
        end = time.monotonic() + LOADERS
        while (found := _members(self.sessions)) and time.monotonic() < end:
            time.sleep(0.5)
        return found

    def last_lines(self) -> str:
        return self._log.read_text()[-3000:] if self._log.exists() else ""

    def _read_log(self) -> None:
        if not self._log.exists():
            return
        with open(self._log, "rb") as file:
            file.seek(self._position)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._position += len(text)
        for line in text.decode().splitlines():
            if found := re.search(r'train_inner \| .*"loss": "([\d.]+)".*"num_updates": "(\d+)"', line):
                self.losses[int(found[2])] = found[1]
            elif found := re.search(r"Saved checkpoint .* @ (\d+) updates", line):
                self.saved.append(int(found[1]))
            elif found := re.search(r"Loaded checkpoint .* @ (\d+) updates", line):
                self.loaded = int(found[1])


class Job:
    """A job and all its attempts."""

    def __init__(self, data: str, name: str):
        options = {"dataset.num_workers": 1, "optimization.update_freq": "[2]", "dataset.disable_validation": "false"}
        options |= {"checkpoint.keep_interval_updates": KEEP, "dataset.validate_interval_updates": 5 * SAVE_INTERVAL}
        self.job = TwoRanks(data, BUILD, name, 10**7, SAVE_INTERVAL, **options)
        self.attempts: list[Attempt] = []
        self.kinds: Counter[str] = Counter()
        self.newest = 0
        """Updates of the newest checkpoint."""
        self.losses: dict[int, str] = {}
        self.seconds: list[float] = []
        self.own_descriptors: list[int] = []

    def attempt(
        self,
        until: Callable[[Attempt], bool],
        kind: str = "",
        victims: Sequence[int] = (),
        before: Callable[[int], object] = lambda rank: None,
    ) -> list[int]:
        """Start or resume, send a signal of ``KINDS`` to ``victims`` at a moment, and check what is left.

        Returns:
            The ranks' statuses.
        """
        start = time.monotonic()
        lines = self.job.prepare()  # an error if a process that has not ended holds the lock
        assert not any("damaged" in line or "replaced" in line for line in lines), lines
        self._check_files()
        attempt = Attempt(self.job, len(self.attempts), before)
        self.attempts.append(attempt)
        while len(attempt.alive()) == len(RANKS) and not until(attempt):
            attempt.observe(0.25)
        assert not kind or len(attempt.alive()) == len(RANKS), f"it ended by itself: {attempt.last_lines()}"
        for rank in victims:
            attempt.ranks[rank].send_signal(KINDS[kind][0])
        statuses = attempt.wait()
        self.kinds.update([kind] if kind else [])
        self._check_updates(attempt)
        self._check_statuses(attempt, kind, victims, statuses)
        assert not (orphans := attempt.orphans()), orphans
        self.own_descriptors.append(psutil.Process().num_fds())
        self.seconds.append(time.monotonic() - start)
        return statuses

    def _check_updates(self, attempt: Attempt) -> None:
        """It resumed from the newest checkpoint, and each update has the loss that it had in earlier attempts."""
        if attempt.loaded is not None:
            assert self.newest <= attempt.loaded <= max(self.losses, default=0), (self.newest, attempt.loaded)
            self.newest = attempt.loaded
        start = attempt.loaded or 0
        assert not attempt.losses or start == self.newest, (start, self.newest)
        assert list(attempt.losses) == [*range(start + 1, start + 1 + len(attempt.losses))], attempt.losses
        for update, loss in attempt.losses.items():
            assert self.losses.setdefault(update, loss) == loss, update
        self.newest = max([self.newest, *attempt.saved])

    def _check_statuses(self, attempt: Attempt, kind: str, victims: Sequence[int], statuses: list[int]) -> None:
        message = f"{kind} {victims}: statuses {statuses}: {attempt.last_lines()}"
        if statuses == [0, 0]:
            assert not kind.startswith("SIGKILL") and (self.job.folder / STOPPED).exists(), message
            assert int((self.job.folder / STOPS).read_text().split()[-1]) == self.newest, message
        else:  # SIGTERM kills a rank that is not listening yet
            assert any(statuses[rank] == -KINDS[kind][0] for rank in victims) and 0 not in statuses, message
            assert not attempt.left_alone or not attempt.losses, f"the other rank did not notice: {message}"

    def _check_files(self) -> None:
        """Between attempts there are no temporary files and few checkpoints."""
        names = {path.name for path in self.job.folder.iterdir()}
        assert names <= RUN_FILES, names - RUN_FILES
        names = {path.name for path in (self.job.folder / CHECKPOINTS).iterdir()}
        assert all(name.endswith(".pt") for name in names) and len(names) <= MAX_CHECKPOINTS, names

    def figures(self) -> dict:
        """What all attempts took."""
        attempts = self.attempts
        return {
            "attempts": len(attempts),
            "minutes": round(sum(self.seconds) / 60, 2),
            "updates": len(self.losses),
            "updates repeated": sum(len(attempt.losses) for attempt in attempts) - len(self.losses),
            "checkpoints": sum(len(attempt.saved) for attempt in attempts),
            "kinds": dict(sorted(self.kinds.items())),
            "processes": len(set().union(*(attempt.pids for attempt in attempts))),
            "ranks killed by the launcher before their first update": sum(attempt.left_alone for attempt in attempts),
            "checkpoints at a time": max(attempt.max_checkpoints for attempt in attempts),
            "bytes of checkpoints at a time": max(attempt.max_checkpoint_bytes for attempt in attempts),
            "bytes of the folder per update": round(_total_size(self.job.folder) / len(self.losses)),
        }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _total_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _members(sessions: set[int]) -> list[dict]:
    """Processes in these sessions; not zombies, which an init that does not wait for them leaves behind."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        try:
            if os.getsid(process.pid) in sessions and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.info)
        except OSError:  # it has ended
            continue
    return found


def _trend(values: Sequence[float], positions: Sequence[float] | None = None) -> dict[str, float]:
    """First, last and largest value, and the growth of a straight line through them, relative to the first."""
    x = np.arange(len(values)) if positions is None else np.asarray(positions, float)
    slope = float(np.polyfit(x, values, 1)[0]) if len(set(x)) > 1 else 0.0
    growth = slope * float(x[-1] - x[0]) / values[0]
    return {"first": values[0], "last": values[-1], "peak": max(values), "growth": round(growth, 5)}


def _memory(undisturbed: Attempt, attempts: Sequence[Attempt]) -> dict[str, dict[str, float]]:
    """Bytes of resident memory of each rank over the undisturbed job, and the peaks of the attempts that trained."""
    trends = {}
    for rank in RANKS:
        updates, values, _ = zip(*_warm(undisturbed, rank))
        peaks = [max(sample[1] for sample in attempt.samples[rank]) for attempt in attempts if attempt.losses]
        trends[f"rank {rank}"] = _trend(values, updates)
        trends[f"rank {rank}, peaks of the attempts"] = _trend(peaks)
    return trends


def _descriptors(undisturbed: Attempt) -> dict[str, list[int]]:
    """The fewest descriptors of each rank in each quarter of the undisturbed job: data loaders come and go."""
    quarters = {}
    for rank in RANKS:
        counts = [sample[2] for sample in _warm(undisturbed, rank)]
        quarters[f"rank {rank}"] = [min(map(int, part)) for part in np.array_split(counts, 4)]
    return quarters


def _warm(undisturbed: Attempt, rank: int) -> list[tuple[int, int, int]]:
    last = max(undisturbed.losses)
    return [sample for sample in undisturbed.samples[rank] if WARM_UP * last <= sample[0] < last]


def _stop_at(updates: int) -> None:
    """In a rank: receive SIGTERM during this update."""
    train_step = Trainer.train_step

    def train_and_stop(self, *args, **kwargs):
        if self.get_num_updates() == updates - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(self, *args, **kwargs)

    Trainer.train_step = train_and_stop


def test_soak(tmp_path, monkeypatch):
    if "SOAK_MINUTES" not in os.environ:
        pytest.skip("set SOAK_MINUTES")
    minutes, seed = float(os.environ["SOAK_MINUTES"]), int(os.environ.get("SOAK_SEED", "1"))
    shutil.rmtree(BUILD, ignore_errors=True)
    temporary = BUILD / "tmp"
    temporary.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(worker, "_DELAY_SECONDS", 0)  # of the rank that is left alone
    data, choose = masked_lm_data(tmp_path, sentences=2000), random.Random(seed)

    disturbed, end = Job(data, "disturbed"), time.monotonic() + 60 * DISTURBED * minutes
    while time.monotonic() < end:
        kind, seconds = choose.choice(list(KINDS)), choose.expovariate(1 / MEAN_SECONDS)
        victims, moment = choose.sample(RANKS, KINDS[kind][1]), time.monotonic() + seconds
        disturbed.attempt(lambda _: time.monotonic() > moment, kind, victims)
    assert disturbed.attempt(lambda attempt: bool(attempt.losses), LAST_STOP, RANKS) == [0, 0]
    updates = disturbed.newest

    undisturbed = Job(data, "undisturbed")
    assert undisturbed.attempt(lambda _: False, before=lambda rank: _stop_at(updates)) == [0, 0]

    pids = set().union(*(attempt.pids for job in (disturbed, undisturbed) for attempt in job.attempts))
    shared = [path.name for path in Path("/dev/shm").glob("torch_*") if int(path.name.split("_")[1]) in pids]
    descriptors = _descriptors(undisturbed.attempts[0])
    summary = {
        "seed": seed,
        "disturbed": disturbed.figures(),
        "undisturbed": undisturbed.figures(),
        "bytes of memory": _memory(undisturbed.attempts[0], disturbed.attempts),
        "descriptors by quarter": descriptors,
        "descriptors of the test by attempt": disturbed.own_descriptors,
        "temporary files": [path.name for path in temporary.iterdir() if not path.name.startswith(CACHE)],
        "shared memory": shared,
        "same bits": jobs.same_bits(disturbed.job.folder, undisturbed.job.folder),
    }
    (BUILD / "summary.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps(summary, indent=1))

    assert summary["same bits"]
    assert load(disturbed.job.folder / CHECKPOINTS)["optimizer_history"][-1]["num_updates"] == updates
    assert list(undisturbed.losses) == [*range(1, updates + 1)] and disturbed.losses == undisturbed.losses
    # A process that ends by SIGKILL leaves its folder, which its data loaders share.
    kinds = summary["disturbed"]["kinds"]
    kills = sum(count for kind, count in kinds.items() if "KILL" in kind)
    alone = summary["disturbed"]["ranks killed by the launcher before their first update"]
    left = [name for name in summary["temporary files"] if name.startswith("pymp-")]
    assert not shared and len(left) <= len(RANKS) * kills + alone and left == summary["temporary files"]
    checkpoint = (disturbed.job.folder / CHECKPOINTS / LAST).stat().st_size
    for figures in (summary["disturbed"], summary["undisturbed"]):
        assert figures["checkpoints at a time"] <= MAX_CHECKPOINTS
        assert figures["bytes of checkpoints at a time"] <= MAX_CHECKPOINTS * (checkpoint + 4096)
    growing = {name: trend for name, trend in summary["bytes of memory"].items() if trend["growth"] > MAX_GROWTH}
    assert not growing, growing
    assert all(counts[-1] <= counts[0] for counts in descriptors.values()), descriptors
    assert len(set(disturbed.own_descriptors)) == 1, disturbed.own_descriptors
