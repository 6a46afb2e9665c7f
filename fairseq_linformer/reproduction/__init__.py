"""The paper's claims and ours: an experiment a file, in ``paper/`` or ``beyond/``. To add one, add a file.

Its docstring has the claims and rules, in Markdown. It defines

    TITLE                          of its page
    WHERE                          the place in the paper; only of an experiment on the paper
    SAYS                           the claim, in a few words
    PARTS                          by scale, the parts that are measured, and the options of `reproduce` that each reads
    run(part, scale, inputs)       measure a part: a ``Result``
    verdicts(results)              ``Verdict`` of each claim; of the results of one scale, or of none
    tables(results)                ``page.Table`` of the results of one scale

and it may define

    chart(results)                 ``page.Panel`` of the results of one scale
    ARRAYS                         if Slurm trains it at the paper's scale: by name, a function (runs, tasks, device) to
                                   its ``TrainingJob`` of one process

``Inputs`` and ``Result`` are those of ``result.py``, verdicts those of ``verdict.py``.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

from . import beyond, paper

if TYPE_CHECKING:
    from ..training.job import TrainingJob


def load_all() -> dict[str, ModuleType]:
    """The experiments by name, such as ``figure-3``; those of the paper first."""
    return {
        found.name.replace("_", "-"): import_module(f"{folder.__name__}.{found.name}")
        for folder in (paper, beyond)
        for found in iter_modules(folder.__path__)
    }


def array_jobs(name: str, runs, tasks, device: str) -> "list[TrainingJob]":
    """The jobs of an array of ``fairseq-linformer submit``, with one process each.

    Raises:
        ValueError: the array is unknown, needs ``tasks``, or has a job that cannot be trained.
    """
    arrays = {each: build for module in load_all().values() for each, build in getattr(module, "ARRAYS", {}).items()}
    if name not in arrays:
        raise ValueError(f"unknown --array {name!r}; choose from {', '.join(arrays)}")
    jobs: list[TrainingJob] = arrays[name](runs, tasks, device)
    return jobs
