"""Results of a grid over learning rates, batch sizes and seeds. The best setting has the best median over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..evaluation.scores import format_unit, format_values
from ..task_data.tasks import Task

Result = Mapping[str, Any]
"""A result file, see ``single_run.read_result``."""


@dataclass(frozen=True)
class Setting:
    """Scores of one learning rate and batch size.

    Attributes:
        lr, batch_size: setting of the recipe.
        seeds: seed of each run.
        values: score of each run on the development set.
    """

    lr: float
    batch_size: int
    seeds: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median score over the seeds."""
        return median(self.values)


def _score(task: Task, result: Result, split: str = "valid") -> float:
    value: float = result["splits"][split]["scores"][task.metrics[0]]["value"]
    return value


def rank_settings(task: Task, results: Iterable[Result]) -> list[Setting]:
    """Settings by median, best first; ties go to the lower learning rate."""
    scores: dict[tuple[float, int], list[tuple[int, float]]] = {}
    for result in results:
        recipe = result["recipe"]
        setting = (recipe["lr"], recipe["batch_size"])
        scores.setdefault(setting, []).append((recipe["seed"], _score(task, result)))
    settings = [Setting(*setting, *zip(*sorted(pairs))) for setting, pairs in scores.items()]
    return sorted(settings, key=lambda setting: (-setting.median, setting.lr, setting.batch_size))


def select_results(setting: Setting, results: Iterable[Result]) -> list[Result]:
    """The results of a setting."""
    key = (setting.lr, setting.batch_size)
    return [result for result in results if (result["recipe"]["lr"], result["recipe"]["batch_size"]) == key]


def median_run(task: Task, results: Sequence[Result]) -> Result:
    """The run of the best setting with the median score; with an even number of runs, the lower of the middle two."""
    best = select_results(rank_settings(task, results)[0], results)
    return sorted(best, key=lambda result: _score(task, result))[(len(best) - 1) // 2]


def format_table(task: Task, settings: Sequence[Setting]) -> list[str]:
    """A line per setting, and a summary of the best one."""
    name, best = task.metrics[0], settings[0]
    lines = [f"{'lr':>8} {'batch':>6} {'seeds':>6} {'median':>8}   lowest to highest {name}"]
    for s in settings:
        low, middle, high = format_values(name, min(s.values), s.median, max(s.values))
        lines.append(f"{s.lr:>8g} {s.batch_size:>6} {len(s.values):>6} {middle:>8}   {low} to {high}")
    seeds = f"{len(best.seeds)} seeds" if len(best.seeds) > 1 else "one seed"
    score = f"{name} {format_values(name, best.median)[0]}{format_unit(name)}"
    lines.append(
        f"{task.name}: {score}, median over {seeds}, lr {best.lr:g}, batch size {best.batch_size}; selected and "
        "reported on the same set"
    )
    return lines
