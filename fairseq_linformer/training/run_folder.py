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
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from ..checkpoints.identify import LAST
from ..files import check_same, is_read_error, open_atomic
from ..machine import merge_provenance, provenance
from .job import TrainingJob, micro_batches

logger = logging.getLogger(__name__)

CONFIG, CHECKPOINTS, LOGS, LOG, LOCK, DONE = "config.yaml", "checkpoints", "logs", "train.txt", ".lock", "done"
ATTEMPTS = "attempts.jsonl"
UNFINISHED = ".tmp"
"""The end of the names of files that fairseq renames to checkpoints."""
_MAY_DIFFER = (
    *("distributed_training.", "common_eval."),
    *(f"dataset.{name}" for name in ("num_workers", "data_buffer_size", "disable_validation")),
    *(f"common.{name}" for name in ("log_", "user_dir", "tensorboard_logdir", "no_progress_bar")),
    *(f"checkpoint.{name}" for name in ("save_interval", "keep_")),
)
"""Beginnings of options that may change between attempts of a run."""


def check_run_folder(job: TrainingJob, ignore: Sequence[str] = ()) -> None:
    """Check a job's configuration, and that its folder is new or has the same one.

    Args:
        ignore: options that may differ from the folder's.
    """
    yaml = OmegaConf.to_yaml(job.cfg)
    if (job.folder / CONFIG).exists():
        texts = (job.folder / CONFIG).read_text(encoding="utf-8"), yaml
        before, now = (identify_run(OmegaConf.create(text), ignore) for text in texts)
        check_same(job.folder, before, now)
    elif any(job.folder.glob("[!.]*")):  # a killed job can leave hidden files
        raise ValueError(f"{job.folder} is not a run folder: it has no {CONFIG}; choose another name or folder of runs")


def identify_run(cfg: Any, ignore: Sequence[str] = ()) -> dict[str, Any]:
    """The options that define a run, flattened: all but ``ignore``, where it runs and what it logs.

    ``update_freq`` counts the micro-batches per update over all processes.
    """
    flat = dict(_flatten(OmegaConf.to_container(cfg, enum_to_str=True)))
    flat["optimization.update_freq"] = micro_batches(cfg)
    return {key: value for key, value in flat.items() if key not in ignore and not key.startswith(_MAY_DIFFER)}


def _flatten(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _flatten(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree


def write_config(job: TrainingJob) -> None:
    """Write a job's configuration to its folder, all that a worker needs, over that of an earlier attempt."""
    with open_atomic(job.folder / CONFIG) as file:  # first: a folder without it is not a run folder
        file.write(OmegaConf.to_yaml(job.cfg))
    (job.folder / LOGS).mkdir(exist_ok=True)


def read_config(folder: Path) -> DictConfig:
    """The configuration in a run folder, as fairseq-hydra-train passes it on."""
    return cast(DictConfig, OmegaConf.create(OmegaConf.to_container(OmegaConf.load(folder / CONFIG), resolve=True)))


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
    """``commit``, ``hardware``, ``versions`` and the last ``date`` of all attempts in these run folders; different
    values are joined by semicolons."""
    lines = [line for folder in folders for line in (folder / ATTEMPTS).read_text(encoding="utf-8").splitlines()]
    return merge_provenance([json.loads(line) for line in lines])


def restore_last(folder: Path) -> list[str]:
    """Replace ``checkpoint_last.pt``, which fairseq resumes from, with the newest intact checkpoint if it is damaged.

    The damaged file is renamed. Unfinished files, of a killed process, are deleted. Returns lines for the log;
    ValueError if all checkpoints are damaged.
    """
    for unfinished in folder.glob(f"*.pt{UNFINISHED}"):
        unfinished.unlink()
    last = folder / LAST
    paths = sorted(folder.glob("checkpoint*.pt"), key=lambda path: (path != last, -path.stat().st_mtime))
    intact = next(filter(is_intact, paths), None)
    if not paths:
        return [f"no checkpoint in {folder} yet"]
    if intact is None:
        raise ValueError(f"all {len(paths)} checkpoints in {folder} are damaged; delete them to start over")
    lines = [f"{path} is damaged" for path in paths[: paths.index(intact)]]
    if intact != last:
        unfinished = folder / f"{LAST}{UNFINISHED}"
        shutil.copyfile(intact, unfinished)
        if last.exists():
            os.replace(last, folder / f"{LAST}.damaged")
        os.replace(unfinished, last)
        lines.append(f"replaced {LAST} with {intact.name}")
    return [*lines, f"resuming from {last}"]


def is_intact(path: Path) -> bool:
    """Whether a checkpoint is complete, and has the content that was written, by the CRCs of its zip entries."""
    try:
        with zipfile.ZipFile(path) as file:
            return bool(file.namelist()) and file.testzip() is None
    except Exception as error:  # damaged archives make zipfile raise almost any error
        if is_read_error(error):
            raise
        return False
