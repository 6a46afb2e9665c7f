"""The run folder of a training job.

RUN/config.yaml      configuration; a run resumes only with the same one
RUN/checkpoints/     fairseq's checkpoints
RUN/tensorboard/     curves
RUN/logs/train.txt   what rank 0 logs, of all attempts; with Slurm, JOB.txt has the output of all ranks
RUN/attempts.jsonl   commit, hardware, versions, date and processes of each start or resume, one per line
RUN/done             exists once training is complete
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from ..errors import first_line
from ..files import open_atomic
from ..machine import merge_provenance, provenance
from .job import TrainingJob, identity
from .restore import restore_last

logger = logging.getLogger(__name__)

CONFIG, CHECKPOINTS, LOGS, LOG, LOCK, DONE = "config.yaml", "checkpoints", "logs", "train.txt", ".lock", "done"
ATTEMPTS = "attempts.jsonl"


def create_or_resume(job: TrainingJob) -> list[str]:
    """Create the folder or prepare it for resuming, while it is locked.

    Returns:
        Lines for the log.

    Raises:
        ValueError, OSError: as ``check_run_folder`` and ``restore_last``; or the folder cannot be written.
    """
    if check_run_folder(job):
        with open_atomic(job.folder / CONFIG) as file:
            file.write(OmegaConf.to_yaml(job.cfg))
    for name in (CHECKPOINTS, LOGS):
        (job.folder / name).mkdir(exist_ok=True)
    return restore_last(job.folder / CHECKPOINTS)


def check_run_folder(job: TrainingJob, ignore: Sequence[str] = (), advice: str = "choose another --name") -> bool:
    """Check the job's configuration, and that its folder is new or has the same configuration.

    Args:
        ignore: options that may differ from the folder's.
        advice: advice at the end of the error message.

    Returns:
        Whether the folder has no configuration yet.

    Raises:
        ValueError: as ``TrainingJob.cfg``; or the folder has a different configuration, or is not a run folder.
    """
    folder, cfg = job.folder, job.cfg
    if not (folder / CONFIG).exists():
        # sbatch creates logs, and a killed job can leave hidden files.
        is_file = folder.exists() and not folder.is_dir()
        if is_file or (folder.exists() and any(name != LOGS and name[0] != "." for name in os.listdir(folder))):
            raise ValueError(f"{folder} is not a run folder: it has no {CONFIG}; choose another --name or --runs")
        return True
    stored = identity(read_config(folder))
    requested = identity(cast(DictConfig, OmegaConf.create(OmegaConf.to_yaml(cfg))))
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
    except OSError:
        raise
    except Exception as error:  # OmegaConf raises many types
        raise ValueError(f"{path} is not a configuration: {first_line(error)[:200]}") from None
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


def record_attempt(folder: Path, processes: int) -> None:
    """Append this attempt, with machine, versions and commit, to the run folder."""
    with open(folder / ATTEMPTS, "a", encoding="utf-8") as file:
        print(json.dumps({**provenance(), "processes": processes}), file=file)


def training_provenance(*folders: Path) -> dict[str, Any]:
    """``commit``, ``hardware``, ``versions`` and the last ``date`` of all attempts in these run folders.

    Different values are joined by semicolons. ValueError if ``ATTEMPTS`` is missing or damaged.
    """
    return merge_provenance([attempt for folder in folders for attempt in _read_attempts(folder / ATTEMPTS)])


def _read_attempts(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        raise ValueError(f"{path} is missing or damaged; it must have a line per attempt") from None
