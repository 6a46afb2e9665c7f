"""SIGKILL of one or all ranks at random moments: rerunning the job gives the same bits, and loses no saved update."""

import os
import random
import re
import shutil
import signal
from itertools import count, product
from pathlib import Path

import pytest
from fairseq import checkpoint_utils
from fairseq.tasks.fairseq_task import FairseqTask

from fairseq_linformer.training.run_folder import DONE

from ..fairseq_commands import load, same_bits
from .two_ranks import TwoRanks

pytestmark = pytest.mark.slow

PHASES = ("training", "validation", "writing")
FAULTS = [
    *(("training", "one", 0), ("validation", "all", 0), ("writing", "one", 0)),
    *(pytest.param(*fault, marks=pytest.mark.nightly) for fault in product(PHASES, ("one", "all"), range(1, 20))),
]
"""Phase, ranks to kill, and seed of the moment."""
UPDATES = 8


class HalvedWrites:
    """A file of which each 50th write is an event in the middle: a checkpoint takes hundreds."""

    def __init__(self, file, event):
        self.file, self.event, self.writes = file, event, count()

    def write(self, data):
        if next(self.writes) % 50:
            return self.file.write(data)
        data = memoryview(data)
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        self.event()
        self.file.write(data[len(data) // 2 :])
        return len(data)

    def flush(self):
        self.file.flush()


class Events:
    """Counts the events of a phase in a worker, which is killed at one of them."""

    def __init__(self, phase, log, kill_at=None):
        self.phase, self.log, self.kill_at, self.count = phase, log, kill_at, 0

    def __call__(self):
        self.count += 1
        with open(self.log, "a") as file:
            file.write(".")
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self):
        """In the worker: an event before and after each forward and backward pass, within each 50th write to a
        checkpoint and each copy, and before and after each time a file gets its name."""
        if self.phase != "writing":
            name = "train_step" if self.phase == "training" else "valid_step"
            setattr(FairseqTask, name, self._around(getattr(FairseqTask, name)))
            return
        save = checkpoint_utils._torch_persistent_save
        checkpoint_utils._torch_persistent_save = lambda state, file: save(state, HalvedWrites(file, self))

        def copy_halves(source, target):
            content = Path(source).read_bytes()
            with open(target, "wb", buffering=0) as file:
                file.write(content[: len(content) // 2])
                self()
                file.write(content[len(content) // 2 :])
            return target

        shutil.copyfile = copy_halves
        os.replace, os.rename = self._around(os.replace), self._around(os.rename)

    def _around(self, function):
        def wrapped(*args, **kwargs):
            self()
            result = function(*args, **kwargs)
            self()
            return result

        return wrapped


class Job(TwoRanks):
    """A run that validates and saves after every third update."""

    def __init__(self, data, runs, name):
        super().__init__(data, runs, name, UPDATES, save_interval=3)

    def start(self, events=None):
        """Start both ranks; ``events`` maps ranks to lists."""
        return self.start_ranks(lambda rank: [each.install() for each in (events or {}).get(rank, ())])

    def run(self, events=None):
        """Train to the end; returns the output of rank 0."""
        return self.finish(self.start(events))[0]


@pytest.fixture(scope="module")
def whole(mlm_data, tmp_path_factory):
    """A run that is not disturbed, and the number of events by phase and rank."""
    runs = tmp_path_factory.mktemp("whole")
    logs = {(phase, rank): runs / f"{phase}-{rank}" for phase in PHASES for rank in (0, 1)}
    job = Job(mlm_data, runs, "run")
    job.run({rank: [Events(phase, logs[phase, rank]) for phase in PHASES] for rank in (0, 1)})
    counts = {key: log.stat().st_size for key, log in logs.items() if log.exists()}
    assert logs.keys() - counts.keys() == {("writing", 1)}
    return job.folder, counts


@pytest.mark.parametrize("phase, victims, seed", FAULTS)
def test_killed_ranks_lose_nothing(phase, victims, seed, whole, mlm_data, tmp_path):
    undisturbed, counts = whole
    choose = random.Random(f"{phase} {victims} {seed}")
    victim = choose.choice([rank for rank in (0, 1) if (phase, rank) in counts])
    moment = choose.randint(1, counts[phase, victim])
    job = Job(mlm_data, tmp_path, "run")
    ranks = job.start({victim: [Events(phase, tmp_path / "events", moment)]})
    ranks[victim].process.join()
    if victims == "all":
        os.kill(ranks[1 - victim].process.pid, signal.SIGKILL)
    output = [rank.stdout.read() for rank in ranks]
    statuses = [rank.wait() for rank in ranks]
    assert statuses[victim] == -signal.SIGKILL and statuses[1 - victim] in (1, -signal.SIGKILL), output

    saved = max(map(int, re.findall(r"Saved checkpoint .* @ (\d+) updates", output[0])), default=0)
    assert ("resuming from" in job.run()) or not saved
    assert same_bits(job.folder / "checkpoints", undisturbed / "checkpoints")
    assert load(job.folder / "checkpoints")["optimizer_history"][-1]["num_updates"] == UPDATES
    names = {path.name for path in (job.folder / "checkpoints").iterdir()}
    assert all(name.endswith(".pt") for name in names), names
    print(f"{phase}, {victims}, seed {seed}: rank {victim} at event {moment} of {counts[phase, victim]}, saved {saved}")


def test_a_run_that_starts_from_a_checkpoint_resumes_from_its_own(whole, mlm_data, tmp_path):
    undisturbed, _ = whole
    start = next((undisturbed / "checkpoints").glob("checkpoint_*_6.pt"))
    job = TwoRanks(mlm_data, tmp_path, "run", UPDATES, save_interval=3, **{"checkpoint.restore_file": start})
    output, _ = job.finish(job.start_ranks())
    assert f"Loaded checkpoint {start} " in output
    assert same_bits(job.folder / "checkpoints", undisturbed / "checkpoints")
    (job.folder / DONE).unlink()
    output, _ = job.finish(job.start_ranks())
    assert f"@ {UPDATES} updates" in output and str(start) not in output.partition("Preparing to load")[2]
