"""Learning rates, batches and seeds: each a run of its own, and what a paper reports of them."""

from dataclasses import dataclass
from statistics import median
from typing import Any, Dict, Iterable, List, Tuple

from ..task_data.table import Task


@dataclass(frozen=True)
class Setting:
    """
    Attributes:
        lr, batch_size: of the recipe.
        seeds: that were run.
        values: of the score on the development set, one a seed.
    """

    lr: float
    batch_size: int
    seeds: Tuple[int, ...]
    values: Tuple[float, ...]

    @property
    def median(self) -> float:
        """Over the seeds."""
        return median(self.values)


def score_of(task: Task) -> str:
    """The score by which the best is chosen: GLUE's, and the accuracy where it has two."""
    return "pearson" if task.score else "matthews" if task.name == "cola" else "accuracy"


def settings(task: Task, results: Iterable[Dict[str, Any]], split: str = "valid") -> List[Setting]:
    """The runs of a grid by rate and batch, the best median first; of equal ones the lower rate.

    Args:
        results: as ``run.read_result`` gives them.
    """
    found: Dict[Tuple[float, int], List[Tuple[int, float]]] = {}
    for result in results:
        recipe = result["recipe"]
        value = result["splits"][split]["scores"][score_of(task)]["value"]
        found.setdefault((recipe["lr"], recipe["batch_size"]), []).append((recipe["seed"], value))
    every = [Setting(lr, batch_size, *map(tuple, zip(*sorted(runs)))) for (lr, batch_size), runs in found.items()]
    return sorted(every, key=lambda setting: (-setting.median, setting.lr, setting.batch_size))


def table(task: Task, every: List[Setting]) -> List[str]:
    """For a reader."""
    name, best = score_of(task), every[0]
    factor, digits = (100, 2) if name == "accuracy" else (1, 4)
    lines = [f"{'lr':>8} {'batch':>6} {'seeds':>6} {'median':>8}   lowest to highest {name}"]
    for s in every:
        low, middle, high = (f"{factor * x:.{digits}f}" for x in (min(s.values), s.median, max(s.values)))
        lines.append(f"{s.lr:>8g} {s.batch_size:>6} {len(s.values):>6} {middle:>8}   {low} to {high}")
    seeds = f"{len(best.seeds)} seeds" if len(best.seeds) > 1 else "one seed"
    lines.append(f"{task.name}: {name} {factor * best.median:.{digits}f}, the median over {seeds} at lr {best.lr:g}, batches of {best.batch_size}; chosen on the set that it is reported on")
    return lines
