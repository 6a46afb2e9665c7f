"""Learning rates, batches and seeds: each a run of its own, and what a paper reports of them."""

from dataclasses import dataclass
from statistics import median
from typing import Any, Dict, Iterable, List, Tuple

from ..evaluation.scores import in_words, unit_of
from ..task_data.table import Task


@dataclass(frozen=True)
class Setting:
    """
    Attributes:
        lr, batch_size: of the recipe.
        seeds: of its runs.
        values: of the score on the development set, one per seed.
    """

    lr: float
    batch_size: int
    seeds: Tuple[int, ...]
    values: Tuple[float, ...]

    @property
    def median(self) -> float:
        """Over the seeds."""
        return median(self.values)


def _value(task: Task, result: Dict[str, Any], split: str = "valid") -> float:
    return result["splits"][split]["scores"][task.metrics[0]]["value"]


def settings(task: Task, results: Iterable[Dict[str, Any]], split: str = "valid") -> List[Setting]:
    """The runs of a grid by rate and batch, the best median first; of equal ones the lower rate.

    Args:
        results: as of ``run.read_result``.
    """
    runs: Dict[Tuple[float, int], List[Tuple[int, float]]] = {}
    for result in results:
        recipe = result["recipe"]
        key = (recipe["lr"], recipe["batch_size"])
        runs.setdefault(key, []).append((recipe["seed"], _value(task, result, split)))
    found = [Setting(*key, *map(tuple, zip(*sorted(pairs)))) for key, pairs in runs.items()]
    return sorted(found, key=lambda setting: (-setting.median, setting.lr, setting.batch_size))


def runs_of(setting: Setting, results: Iterable[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The results of a setting."""
    key = (setting.lr, setting.batch_size)
    return [result for result in results if (result["recipe"]["lr"], result["recipe"]["batch_size"]) == key]


def middle_run(task: Task, results: Iterable[Dict[str, Any]]) -> Dict[str, Any]:
    """The run of the best setting that has the median score; of an even number the worse of the two."""
    runs = runs_of(settings(task, results)[0], results)
    return sorted(runs, key=lambda result: _value(task, result))[(len(runs) - 1) // 2]


def table(task: Task, found: List[Setting]) -> List[str]:
    """For a reader."""
    name, best = task.metrics[0], found[0]
    lines = [f"{'lr':>8} {'batch':>6} {'seeds':>6} {'median':>8}   lowest to highest {name}"]
    for s in found:
        low, middle, high = in_words(name, min(s.values), s.median, max(s.values))
        lines.append(f"{s.lr:>8g} {s.batch_size:>6} {len(s.values):>6} {middle:>8}   {low} to {high}")
    seeds = f"{len(best.seeds)} seeds" if len(best.seeds) > 1 else "one seed"
    score = f"{name} {in_words(name, best.median)[0]}{unit_of(name)}"
    lines.append(
        f"{task.name}: {score}, the median over {seeds} at lr {best.lr:g}, batches of {best.batch_size}; chosen on the "
        "set that it is reported on"
    )
    return lines
