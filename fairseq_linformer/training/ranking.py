"""Results of finetuned runs, ranked and in words. The best setting of a grid has the best median score over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ..checkpoints.identify import LAST
from ..data.tasks import Task
from ..evaluation.scores import format_unit, format_values, warn_of_chance
from .recipe import Recipe

RunResult = Mapping[str, Any]
"""A result.json, see ``finetune.build_result``."""


def _scores(task: Task, results: Iterable[RunResult]) -> list[float]:
    return [result["splits"]["valid"]["scores"][task.metrics[0]]["value"] for result in results]


def rank_settings(task: Task, results: Iterable[RunResult]) -> list[list[RunResult]]:
    """The results of each setting (learning rate and batch size) by seed; settings by median score, best first."""
    settings: dict[tuple[float, int], list[RunResult]] = {}
    for result in sorted(results, key=lambda result: result["recipe"]["seed"]):
        settings.setdefault((result["recipe"]["lr"], result["recipe"]["batch_size"]), []).append(result)
    by_rate = [settings[setting] for setting in sorted(settings)]  # ties go to the lower learning rate
    return sorted(by_rate, key=lambda results: -median(_scores(task, results)))


def median_run(task: Task, results: Iterable[RunResult]) -> RunResult:
    """The run of the best setting with the median score; with an even number of runs, the lower of the middle two."""
    best = rank_settings(task, results)[0]
    return sorted(best, key=lambda result: _scores(task, [result]))[(len(best) - 1) // 2]


def format_table(task: Task, settings: Sequence[Sequence[RunResult]]) -> list[str]:
    """A line per setting, as from ``rank_settings``, and a summary of the best one."""
    name = task.metrics[0]
    lines = [f"{'lr':>8} {'batch':>6} {'seeds':>6} {'median':>8}   lowest to highest {name}"]
    for results in settings:
        recipe, scores = results[0]["recipe"], _scores(task, results)
        low, middle, high = format_values(name, min(scores), median(scores), max(scores))
        lines.append(f"{recipe['lr']:>8g} {recipe['batch_size']:>6} {len(scores):>6} {middle:>8}   {low} to {high}")
    best, recipe = settings[0], settings[0][0]["recipe"]
    seeds = f"{len(best)} seeds" if len(best) > 1 else "one seed"
    score = f"{name} {format_values(name, median(_scores(task, best)))[0]}{format_unit(name)}"
    lines.append(
        f"{task.name}: {score}, median over {seeds}, lr {recipe['lr']:g}, batch size {recipe['batch_size']}; selected "
        "and reported on the same set"
    )
    return lines


def format_report(
    data: str, task: Task, results: Sequence[RunResult], folder: Path, recipes: Sequence[Recipe]
) -> list[str]:
    """The table of a grid, the scores of the run, or of the grid's median run, and the path of its checkpoint.

    Args:
        data: name of the data.
        folder: of the run, or of the grid's run folders.
        recipes: those of the results.
    """
    result, lines = results[0], []
    if len(results) > 1:
        result = median_run(task, results)
        folder /= recipes[results.index(result)].name
        lines = [*format_table(task, rank_settings(task, results)), f"median run, seed {result['recipe']['seed']}:"]
    for split, scores in result["splits"].items():
        shown = []
        for name in task.metrics:
            score = scores["scores"][name]
            value, low, high = format_values(name, score["value"], *score["interval"])
            shown.append(f"{name} {value}{format_unit(name)} ({low} to {high})")
        lines.append(f"{data} {split}: {', '.join(shown)}; {scores['rows']:,} rows")
        lines += [f"{warning}; try another --lr, more epochs or more rows" for warning in warn_of_chance(scores)]
    epoch = "last" if result["checkpoint"].endswith(LAST) else "best"
    return [*lines, f"checkpoint of the {epoch} epoch: {folder / result['checkpoint']}"]
