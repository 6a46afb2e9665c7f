"""The list of experiments. To add one, write ``experiments/NAME.py`` and name it in ``MODULES``.

Every command, the report and the Slurm arrays iterate over this list; nothing else knows an experiment by its name.
"""

from functools import cache
from importlib import import_module
from pathlib import Path

from .claim import Claim
from .experiment import Experiment
from .ledger import read_folder
from .records import select_reproduced
from .scales import NAMES

MODULES = (
    "table_1",
    "operations",
    "sharing",
    "figure_1",
    "theorem_1",
    "theorem_2",
    "figure_2",
    "figure_3",
    "table_2",
    "table_3",
    "memory",
    "warm_start",
    "projections",
    "starts",
    "growing",
    "window_sizes",
    "local_window",
    "local_window_cost",
    "conversion",
    "speed",
    "recall",
    "survival",
    "short_inputs",
    "distillation",
    "encoder_spectrum",
    "encoder_perplexity",
    "encoder_speed",
    "long_documents",
    "encoder_tasks",
    "int8",
    "int8_speed",
)
"""Files of ``experiments/``, in the order of the report. Each has ``EXPERIMENTS``, a tuple."""


@cache
def experiments() -> tuple[Experiment, ...]:
    """All experiments, in the order of the report.

    Raises:
        ValueError: a file of ``MODULES`` cannot be imported or defines none, or a name is defined twice.
    """
    found: list[Experiment] = []
    for name in MODULES:
        try:
            found += import_module(f".experiments.{name}", __package__).EXPERIMENTS
        except (AttributeError, ImportError, TypeError) as error:
            raise ValueError(
                f"experiments/{name}.py defines no tuple EXPERIMENTS: {type(error).__name__}: {error}"
            ) from error
    for names in ([each.name for each in found], [claim.identifier for each in found for claim in each.claims]):
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"names of experiments and claims must be unique, got {', '.join(sorted(twice))} twice")
    return tuple(found)


def find(name: str) -> Experiment:
    """
    Raises:
        ValueError: there is no such experiment.
    """
    found = next((each for each in experiments() if each.name == name), None)
    if found is None:
        raise ValueError(f"unknown experiment {name!r}; choose from {', '.join(each.name for each in experiments())}")
    return found


def claims() -> dict[str, Claim]:
    """All claims by identifier."""
    return {claim.identifier: claim for each in experiments() for claim in each.claims}


def listing(folder) -> list[str]:
    """A line per experiment and scale: what it costs, and its records in the ledger.

    Raises:
        ValueError: the folder does not exist, or a file in it is not a record.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"--results must be an existing folder, got {folder}")
    records = read_folder(folder)
    lines: list[tuple[str, str, str, str]] = []
    for each in experiments():
        for scale in each.scales:
            made = [r.identifier for r in select_reproduced(records, each.name, scale)]
            lines.append((each.name, scale, each.cost(scale), ", ".join(made) or "not measured"))
        used = {name for scale in NAMES for _, verdict in each.evaluate(records, scale) for name in verdict.records}
        others = sorted(
            r.identifier
            for r in records
            if r.identifier in used and (r.experiment, r.made_by) != (each.name, "reproduce")
        )
        if others:
            lines.append((each.name, "", "measured by other commands", ", ".join(others)))
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
