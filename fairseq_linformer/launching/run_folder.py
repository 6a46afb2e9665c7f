"""A run folder: one configuration, its checkpoints, logs and curves, and how it was trained.

    RUN/config.yaml      the configuration; a different one is refused
    RUN/checkpoints/     fairseq's
    RUN/tensorboard/
    RUN/logs/JOB/        rank-R.txt of every process; a job that is queued again appends to them
    RUN/attempts.jsonl   one line for each start or resume: commit, hardware, versions, date, processes
    RUN/stops.txt        one line for each stop by a signal: the number of updates
    RUN/stopped          exists after such a stop, until training resumes
    RUN/done             exists once training is complete
"""

import fcntl
import json
import logging
import os
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from ..errors import first_line
from ..files import atomic
from ..machine import provenance
from .checkpoints import find_last_intact, restore_last
from .training import Training, check_buildable, identity

logger = logging.getLogger(__name__)

CONFIG, CHECKPOINTS, LOGS, LOCK = "config.yaml", "checkpoints", "logs", ".lock"
ATTEMPTS, STOPS, STOPPED, DONE = "attempts.jsonl", "stops.txt", "stopped", "done"
_PROVENANCE = {"hardware": dict, "versions": dict, "date": str, "commit": (str, type(None))}
MAX_STOPS_AT_ONE_UPDATE = 3
"""After so many stops at the same update a job is not queued again."""


def check_run(training: Training) -> List[str]:
    """Check, before it is queued, that training can start. Writes nothing.

    Returns:
        lines that say what it will resume from.

    Raises:
        ValueError, OSError: it cannot; one sentence.
    """
    if is_new(training):
        check_buildable(training.composed)
        return ["starts at update 0"]
    if (training.folder / DONE).exists():
        return ["training is complete"]
    # A checkpoint that another job is writing looks truncated.
    with locked(training.folder) if (training.folder / LOCK).exists() else nullcontext():
        checkpoint, lines = find_last_intact(training.folder / CHECKPOINTS)
    return [*lines, f"resumes from {checkpoint}" if checkpoint else "starts at update 0"]


def create_or_resume(training: Training) -> List[str]:
    """Create the folder, or prepare it for resuming; in the job, before its processes start.

    Returns:
        lines that say what was found and done.

    Raises:
        ValueError, OSError: as ``check_run``; or the folder cannot be written.
    """
    if is_new(training):
        with atomic(training.folder / CONFIG) as file:
            file.write(OmegaConf.to_yaml(training.composed))
    for name in (CHECKPOINTS, LOGS):
        (training.folder / name).mkdir(exist_ok=True)
    with locked(training.folder):
        (training.folder / STOPPED).unlink(missing_ok=True)
        return restore_last(training.folder / CHECKPOINTS)


def is_new(training: Training, ignore: Sequence[str] = (), advice: str = "choose another --name") -> bool:
    """Whether the folder does not exist yet.

    Args:
        ignore: options that may differ.
        advice: how to resolve a conflict, for the error message.

    Raises:
        ValueError: the folder is of another configuration, or is not a run folder.
    """
    folder = training.folder
    if not (folder / CONFIG).exists():
        # sbatch creates logs, and a killed job can leave hidden files.
        is_file = folder.exists() and not folder.is_dir()
        if is_file or folder.exists() and any(name != LOGS and name[0] != "." for name in os.listdir(folder)):
            raise ValueError(f"{folder} is not a run folder: it has no {CONFIG}; choose another --name or --runs")
        return True
    there = identity(read_config(folder))
    here = identity(OmegaConf.create(OmegaConf.to_yaml(training.composed)))
    differing = [key for key in sorted({*there, *here} - {*ignore}) if there.get(key) != here.get(key)]
    if differing:
        first = "; ".join(f"{key} is {there.get(key)} there and {here.get(key)} here" for key in differing[:3])
        more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ValueError(f"{folder} holds another configuration: {first}{more}; {advice}")
    return False


def read_config(folder: Path) -> DictConfig:
    """The configuration of a run folder; ValueError if it is damaged, OSError if it cannot be read."""
    path = folder / CONFIG
    try:
        cfg = OmegaConf.create(path.read_text(encoding="utf-8"))
        identity(cfg)
    except (OmegaConfBaseException, YAMLError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no configuration: {first_line(error)}") from None
    return cfg


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder, in which a second job would overwrite the checkpoints; ValueError if it is locked."""
    with open(folder / LOCK, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another job trains in {folder}; wait for it, or train in another folder") from None
        except OSError as error:  # not every shared file system has locks
            logger.warning("%s cannot be locked (%s); make sure that only one job trains in it", folder, error)
        # The lock is held as long as any process has the file open. Data loaders outlive their rank by up to 5 seconds,
        # during which the next job would be refused.
        os.register_at_fork(after_in_child=file.close)
        yield


def mark_stopped(folder: Path, updates: int) -> bool:
    """Record that a signal stopped the run and that it saved, so that its job is queued again; False, without the mark
    ``STOPPED``, if the last stops were all at this update and another attempt would be in vain."""
    with open(folder / STOPS, "a", encoding="utf-8") as file:
        file.write(f"{updates}\n")
    last = (folder / STOPS).read_text(encoding="utf-8").split()[-MAX_STOPS_AT_ONE_UPDATE:]
    if last == [str(updates)] * MAX_STOPS_AT_ONE_UPDATE:
        return False
    (folder / STOPPED).touch()
    return True


def record_attempt(folder: Path, processes: int) -> None:
    """Append where and with what the run trains from now on."""
    with open(_attempts_file(folder), "a", encoding="utf-8") as file:
        file.write(json.dumps({**provenance(), "processes": processes}) + "\n")


def _attempts_file(folder: Path) -> Path:
    old = folder / "stints.jsonl"  # the name in folders of earlier versions
    return old if old.exists() and not (folder / ATTEMPTS).exists() else folder / ATTEMPTS


def training_provenance(*folders: Path) -> Dict[str, Any]:
    """``commit``, ``hardware``, ``versions`` and the last ``date`` of all attempts of these runs. Different values
    are joined by semicolons. ValueError if ``ATTEMPTS`` of a folder is missing or damaged."""
    attempts = [attempt for folder in folders for attempt in _read_attempts(_attempts_file(folder))]
    merged = {name: _merge([attempt[name] for attempt in attempts]) for name in ("hardware", "versions")}
    commits = [attempt["commit"] for attempt in attempts if attempt["commit"]]
    return {**merged, "date": max(attempt["date"] for attempt in attempts), "commit": _join(commits)}


def _read_attempts(path: Path) -> List[Dict[str, Any]]:
    try:
        attempts = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if attempts and all(isinstance(a[name], kind) for a in attempts for name, kind in _PROVENANCE.items()):
            return attempts
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ValueError(f"{path} does not say where and with what this was trained")


def _merge(dicts: List[Dict[str, Any]]) -> Dict[str, Any]:
    """
    >>> _merge([{"processor": "A", "cores": 2}, {"processor": "B", "cores": 2}])
    {'processor': 'A; B', 'cores': 2}
    """
    merged = {}
    for name in dict.fromkeys(name for one in dicts for name in one):
        values = [one[name] for one in dicts if name in one]
        merged[name] = values[0] if all(value == values[0] for value in values) else _join(values)
    return merged


def _join(values) -> str:
    """Distinct values in their order."""
    return "; ".join(dict.fromkeys(map(str, values)))
