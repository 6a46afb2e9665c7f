"""The run folder of a training job.

RUN/config.yaml      configuration; a run resumes only with the same one
RUN/checkpoints/     fairseq's checkpoints
RUN/tensorboard/     curves
RUN/logs/JOB/        output of each process, rank-R.txt; a requeued job appends
RUN/attempts.jsonl   commit, hardware, versions, date and processes of each start or resume, one per line
RUN/stops.txt        number of updates at each stop by a signal, one per line
RUN/stopped          exists between such a stop and the next attempt
RUN/done             exists once training is complete
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from ..errors import first_line
from ..files import open_atomic, write_lines
from ..machine import provenance
from .checkpoints import check_initial, find_last_intact, restore_last
from .job import TrainingJob, check_buildable, identity

logger = logging.getLogger(__name__)

CONFIG, CHECKPOINTS, LOGS, LOCK = "config.yaml", "checkpoints", "logs", ".lock"
ATTEMPTS, STOPS, STOPPED, DONE = "attempts.jsonl", "stops.txt", "stopped", "done"
_PROVENANCE: dict[str, Any] = {"hardware": dict, "versions": dict, "date": str, "commit": (str, type(None))}
MAX_STOPS_AT_ONE_UPDATE = 3
"""A job that stopped this often at the same update is not requeued."""


def check_run(training: TrainingJob) -> list[str]:
    """Check that training can start, without writing anything.

    Returns:
        Lines for the log: the checkpoint that it will resume from.

    Raises:
        ValueError, OSError: it cannot start.
    """
    if is_new(training):
        check_buildable(training.cfg)
        if start := training.cfg.checkpoint.finetune_from_model:
            check_initial(Path(start))
        return ["starts at update 0"]
    if (training.folder / DONE).exists():
        return ["training is complete"]
    # A checkpoint that another job is writing looks truncated.
    with lock_folder(training.folder) if (training.folder / LOCK).exists() else nullcontext():
        checkpoint, lines = find_last_intact(training.folder / CHECKPOINTS)
    return [*lines, f"resumes from {checkpoint}" if checkpoint else "starts at update 0"]


def create_or_resume(training: TrainingJob) -> list[str]:
    """Create the folder or prepare it for resuming, before the processes of a job start.

    Returns:
        Lines for the log.

    Raises:
        ValueError, OSError: as ``is_new``, ``lock_folder`` and ``restore_last``; or the folder cannot be written.
    """
    if is_new(training):
        with open_atomic(training.folder / CONFIG) as file:
            file.write(OmegaConf.to_yaml(training.cfg))
    for name in (CHECKPOINTS, LOGS):
        (training.folder / name).mkdir(exist_ok=True)
    with lock_folder(training.folder):
        (training.folder / STOPPED).unlink(missing_ok=True)
        return restore_last(training.folder / CHECKPOINTS)


def is_new(training: TrainingJob, ignore: Sequence[str] = (), advice: str = "choose another --name") -> bool:
    """Whether the folder does not exist yet.

    Args:
        ignore: options that may differ from the folder's.
        advice: advice at the end of the error message.

    Raises:
        ValueError: the folder has a different configuration, or is not a run folder.
    """
    folder = training.folder
    if not (folder / CONFIG).exists():
        # sbatch creates logs, and a killed job can leave hidden files.
        is_file = folder.exists() and not folder.is_dir()
        if is_file or (folder.exists() and any(name != LOGS and name[0] != "." for name in os.listdir(folder))):
            raise ValueError(f"{folder} is not a run folder: it has no {CONFIG}; choose another --name or --runs")
        return True
    stored = identity(read_config(folder))
    requested = identity(cast(DictConfig, OmegaConf.create(OmegaConf.to_yaml(training.cfg))))
    differing = [key for key in sorted({*stored, *requested} - {*ignore}) if stored.get(key) != requested.get(key)]
    if differing:
        first = "; ".join(f"{key} must be {stored.get(key)}, got {requested.get(key)}" for key in differing[:3])
        more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ValueError(f"{folder} has a different configuration: {first}{more}; {advice}")
    return False


def read_config(folder: Path) -> DictConfig:
    """The configuration of a run folder; ValueError if it is damaged, OSError if it cannot be read."""
    path = folder / CONFIG
    try:
        cfg = cast(DictConfig, OmegaConf.create(path.read_text(encoding="utf-8")))
        identity(cfg)
    except (
        OmegaConfBaseException,
        YAMLError,
        AssertionError,
        AttributeError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        reason = first_line(error)[:200] or type(error).__name__
        raise ValueError(f"{path} is not a configuration: {reason}") from None
    return cfg


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a run folder, so that no second job overwrites its checkpoints; ValueError if it is locked."""
    with open(folder / LOCK, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another job is training in {folder}; wait until it ends") from None
        except OSError as error:  # not all shared file systems support locks
            logger.warning("cannot lock %s (%s); make sure that only one job trains in it", folder, error)
        # A lock lasts while any process has the file open, and data loaders outlive their rank by up to 5 seconds.
        os.register_at_fork(after_in_child=file.close)
        yield


def mark_stopped(folder: Path, updates: int) -> bool:
    """Record that the run was saved and stopped by a signal, so that its job is requeued.

    Returns:
        False, without creating ``STOPPED``, if the last ``MAX_STOPS_AT_ONE_UPDATE`` stops were at this update.
    """
    with open(folder / STOPS, "a", encoding="utf-8") as file:
        file.write(f"{updates}\n")
    last = (folder / STOPS).read_text(encoding="utf-8").split()[-MAX_STOPS_AT_ONE_UPDATE:]
    if last == [str(updates)] * MAX_STOPS_AT_ONE_UPDATE:
        return False
    (folder / STOPPED).touch()
    return True


def record_attempt(folder: Path, processes: int) -> None:
    """Append this attempt, with machine, versions and commit, to the run folder."""
    path = _attempts_file(folder)
    attempts = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    write_lines(path, [*attempts, json.dumps({**provenance(), "processes": processes})])


def _attempts_file(folder: Path) -> Path:
    old = folder / "stints.jsonl"  # its name in earlier versions
    return old if old.exists() and not (folder / ATTEMPTS).exists() else folder / ATTEMPTS


def training_provenance(*folders: Path) -> dict[str, Any]:
    """``commit``, ``hardware``, ``versions`` and the last ``date`` of all attempts in these run folders.

    Different values are joined by semicolons. ValueError if ``ATTEMPTS`` is missing or damaged.
    """
    return merge_provenance([attempt for folder in folders for attempt in _read_attempts(_attempts_file(folder))])


def merge_provenance(measurements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``commit``, ``hardware``, ``versions`` and the last ``date``; different values are joined by semicolons."""
    merged = {name: merge_values([each[name] for each in measurements]) for name in ("hardware", "versions")}
    commits = [each["commit"] for each in measurements if each["commit"]]
    return {**merged, "date": max(each["date"] for each in measurements), "commit": _join(commits)}


def _read_attempts(path: Path) -> list[dict[str, Any]]:
    try:
        attempts = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if attempts and all(isinstance(a[name], kind) for a in attempts for name, kind in _PROVENANCE.items()):
            return attempts
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ValueError(f"{path} is missing or damaged; it must have hardware, versions, date and commit per attempt")


def merge_values(dicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge dictionaries; different values of a key are joined by semicolons.

    >>> merge_values([{"processor": "A", "cores": 2}, {"processor": "B", "cores": 2}])
    {'processor': 'A; B', 'cores': 2}
    """
    merged = {}
    for name in dict.fromkeys(name for one in dicts for name in one):
        values = [one[name] for one in dicts if name in one]
        merged[name] = values[0] if all(value == values[0] for value in values) else _join(values)
    return merged


def _join(values) -> str:
    """Join the distinct values, in order."""
    return "; ".join(dict.fromkeys(map(str, values)))
