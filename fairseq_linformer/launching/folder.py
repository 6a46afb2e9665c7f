"""A run folder: one configuration, its checkpoints, logs and curves.

    RUN/config.yaml      the configuration; another one is refused
    RUN/checkpoints/     fairseq's
    RUN/tensorboard/
    RUN/logs/JOB/        rank-R.txt of every process, one after the other where a job was requeued
    RUN/stints.jsonl     a line for each time it began or went on: commit, hardware, versions, date, processes
    RUN/stops.txt        a line for each time it was told to stop: the updates done by then
    RUN/stopped          there after such a stop, until it goes on
    RUN/done             there when it is trained to its end
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
from .building import check_built
from .checkpoints import find_last, restore_last
from .training import Training, identity

logger = logging.getLogger(__name__)

CONFIG, CHECKPOINTS, LOGS, STOPS, STOPPED, DONE, LOCK = "config.yaml", "checkpoints", "logs", "stops.txt", "stopped", "done", ".lock"
STINTS = "stints.jsonl"
_OF_STINT = {"hardware": dict, "versions": dict, "date": str, "commit": (str, type(None))}
STANDING_STILL = 3
"""So many stops at the same update, and a job does not ask to be queued again."""


def check(training: Training) -> List[str]:
    """Before the job is queued: would it begin? Nothing is written.

    Returns:
        lines that say what it will go on from.

    Raises:
        ValueError: it would not; one sentence.
        OSError: the folder cannot be read.
    """
    if is_new(training):
        check_built(training.composed)
        return ["it begins anew"]
    if (training.folder / DONE).exists():
        return ["it is trained to its end"]
    with alone_in(training.folder) if (training.folder / LOCK).exists() else nullcontext():  # a checkpoint that is being written looks cut off
        checkpoint, said = find_last(training.folder / CHECKPOINTS)
    return [*said, f"it goes on from {checkpoint}" if checkpoint else "it begins anew"]


def begin(training: Training) -> List[str]:
    """In the job, before its processes start: make the folder or take it up.

    Raises:
        ValueError, OSError: as ``check``; or it cannot be written.
    """
    if is_new(training):
        with atomic(training.folder / CONFIG) as file:
            file.write(OmegaConf.to_yaml(training.composed))
    for name in (CHECKPOINTS, LOGS):
        (training.folder / name).mkdir(exist_ok=True)
    with alone_in(training.folder):
        (training.folder / STOPPED).unlink(missing_ok=True)
        return restore_last(training.folder / CHECKPOINTS)


def is_new(training: Training, but: Sequence[str] = (), advice: str = "another --name is wanted, or the same configuration") -> bool:
    """Whether the folder is still to be made.

    Args:
        but: options that may differ.
        advice: what to do where it cannot be this one.

    Raises:
        ValueError: it is of another configuration.
    """
    path, folder, cfg = training.folder / CONFIG, training.folder, training.composed
    if not path.exists():
        if folder.exists() and (not folder.is_dir() or any(p.name != LOGS and p.name[0] != "." for p in folder.iterdir())):
            raise ValueError(f"{folder} is no run folder, for it has no {CONFIG}; another --name or --runs is wanted")
        return True
    there = identity(read_config(folder))
    here = identity(OmegaConf.create(OmegaConf.to_yaml(cfg)))
    differing = [key for key in sorted({*there, *here} - {*but}) if there.get(key) != here.get(key)]
    if differing:
        first = "; ".join(f"{key} is {there.get(key)} there and {here.get(key)} here" for key in differing[:3])
        more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ValueError(f"{folder} holds another configuration: {first}{more}; {advice}")
    return False


def read_config(folder: Path) -> DictConfig:
    """The configuration of a run folder.

    Raises:
        ValueError: it is damaged.
        OSError: there is none, or it cannot be read.
    """
    path = folder / CONFIG
    try:
        cfg = OmegaConf.create(path.read_text(encoding="utf-8"))
        identity(cfg)
    except (OmegaConfBaseException, YAMLError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no configuration: {first_line(error)}") from None
    return cfg


def note_stint(folder: Path, processes: int) -> None:
    """Write down where and with what it trains from now on."""
    with open(folder / STINTS, "a", encoding="utf-8") as file:
        file.write(json.dumps({**provenance(), "processes": processes}) + "\n")


def where_trained(*folders: Path) -> Dict[str, Any]:
    """Where and with what runs were trained, over all stints of all of them: ``commit``, ``hardware``, ``versions``, and the last ``date``.

    Of what differs between stints all values are told, with semicolons between.

    Raises:
        ValueError: one does not say.
    """
    stints: List[Dict[str, Any]] = []
    for folder in folders:
        try:
            found = [json.loads(line) for line in (folder / STINTS).read_text(encoding="utf-8").splitlines()]
            if not all(isinstance(stint[name], kinds) for stint in found for name, kinds in _OF_STINT.items()):
                found = []
            stints += [{name: stint[name] for name in _OF_STINT} for stint in found]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            found = []
        if not found:
            raise ValueError(f"{folder / STINTS} does not say where and with what this was trained")
    merged = {name: _all_values([stint[name] for stint in stints]) for name in ("hardware", "versions")}
    return {**merged, "date": max(stint["date"] for stint in stints), "commit": _joined([stint["commit"] for stint in stints if stint["commit"]])}


def _all_values(said: List[Dict[str, Any]]) -> Dict[str, Any]:
    """
    >>> _all_values([{"processor": "A", "cores": 2}, {"processor": "B", "cores": 2}])
    {'processor': 'A; B', 'cores': 2}
    """
    names = dict.fromkeys(name for one in said for name in one)
    values = {name: [one[name] for one in said if name in one] for name in names}
    return {name: of_it[0] if all(value == of_it[0] for value in of_it) else _joined(of_it) for name, of_it in values.items()}


def _joined(values: List[Any]) -> str:
    """Each once, in their order."""
    return "; ".join(dict.fromkeys(map(str, values)))


def mark_stopped(folder: Path, updates: int) -> bool:
    """Write down that a run was told to stop and saved, which asks for it to be queued again.

    Returns:
        False, and no mark, if the last stops were all at this update: queueing again would lead nowhere.
    """
    with open(folder / STOPS, "a", encoding="utf-8") as file:
        file.write(f"{updates}\n")
    last = (folder / STOPS).read_text(encoding="utf-8").split()[-STANDING_STILL:]
    if len(last) == STANDING_STILL and len(set(last)) == 1:
        return False
    (folder / STOPPED).touch()
    return True


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Two jobs that train in one folder would overwrite each other's checkpoints.

    Raises:
        ValueError: another process is in it.
    """
    with open(folder / LOCK, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another job trains in {folder}; wait for it, or train in another folder") from None
        except OSError as error:  # not every shared file system has locks
            logger.warning("%s cannot be locked (%s); take care that only one job trains in it", folder, error)
        # The lock is held as long as anybody has the file open. Loaders of data outlive a rank that ends by up to 5 seconds, in
        # which the job that follows would be refused.
        os.register_at_fork(after_in_child=file.close)
        yield
