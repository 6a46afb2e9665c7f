"""Results of finetuned models: from the result files of ``training.finetune`` to rows, and their accuracies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from ..checkpoints.identify import identify
from ..data.tasks import TASKS
from ..data.tokenizer_files import DICTIONARY
from ..evaluation.encoded_rows import is_prepared
from ..machine import merge_provenance
from ..models.dictionaries import describe_difference, read_dictionary
from ..training.data import check_folder
from ..training.finetune import FinetuningJob, finetune
from ..training.ranking import rank_settings
from ..training.recipe import Recipe
from .result import Inputs, Result, Row, Rows, describe_text, find_shards, repeated
from .verdict import MIN_SEEDS, Estimate, wilson

ABOVE_CHANCE = 5.0
"""Points of accuracy above the most frequent class that at least one model must have on a task."""


def task_folder(task: str, n: int, inputs: Inputs) -> Path:
    """The prepared folder of a task for a model of n: for example ``imdb-n1024`` if it exists, else ``imdb``.

    ValueError if it is missing, its inputs are too long, or its dictionary is not that of ``--data``."""
    for_n = inputs.tasks / f"{task}-n{n}"
    folder = for_n if for_n.is_dir() else inputs.tasks / task
    if not is_prepared(folder):
        raise ValueError(f"--tasks {inputs.tasks} has no {folder.name}; `fairseq-linformer prepare {task}` writes it")
    check_folder(TASKS[task], folder, n)
    if inputs.data is not None:
        dictionary, own = find_shards(inputs.data)[0] / DICTIONARY, folder / "input0" / DICTIONARY
        if difference := describe_difference(read_dictionary(dictionary), read_dictionary(own)):
            raise ValueError(f"{own} must equal the dictionary of --data, {dictionary}; {difference}")
    return folder


def encoder_job(
    task: str, checkpoint: Path, recipe: tuple[float, int], seed: int, name: str, data: Path, runs: Path, amp: bool
) -> FinetuningJob:
    """Finetuning of an encoder, or of a Linformer made from it, for one epoch.

    Args:
        recipe: learning rate and batch size.
        name: of the run in RUNS/finetuned.
    """
    overrides = (
        f"common.amp={str(amp).lower()}",
        "dataset.num_workers=0",
        "optimizer._name=fused_adam",
        "model.dropout=0.0",  # a single epoch needs none, and without it a CPU is several times faster
        "model.attention_dropout=0.0",
    )
    recipes = [Recipe(*recipe, 1, seed)]
    return FinetuningJob(
        TASKS[task], identify(checkpoint), recipes, f"finetuned/{name}", str(data), str(runs), overrides=overrides
    )


def finetune_once(job: FinetuningJob) -> tuple[Path, dict[str, Any]]:
    """Finetune with the only recipe of a job, unless it is done.

    Returns:
        The best checkpoint, and the result.
    """
    (found,) = finetune(job)
    checkpoint = Path(job.runs, job.name, found["checkpoint"])
    for other in {*checkpoint.parent.glob("*.pt*")} - {checkpoint}:  # there are dozens of runs
        other.unlink()
    return checkpoint, found


def finetuned_result(
    rows: Sequence[Row], results: Sequence[Mapping[str, Any]], data: str, inputs: Inputs, **configuration: Any
) -> Result:
    """A result that rests on results of finetuning."""
    seconds = round(sum(result["seconds"] for result in results), 1)
    return inputs.result(rows, data, configuration, seconds=seconds, **merge_provenance(results))


def result_of(
    task: str, label: str, results: Sequence[Mapping[str, Any]], inputs: Inputs, **configuration: Any
) -> Result:
    """The result of one model on one task, with several seeds, or with the grid's setting of the best median."""
    chosen = rank_settings(TASKS[task], results)[0]
    text = f"; pretrained on: {describe_text(inputs.data)}" if inputs.data else ""
    recipes = [result["recipe"] for result in chosen]
    recipe = {"lr": recipes[0]["lr"], "batch_size": recipes[0]["batch_size"], "seeds": [r["seed"] for r in recipes]}
    data = f"{task}: {results[0]['data']}{text}"
    return finetuned_result(rows_of(task, label, chosen), results, data, inputs, **configuration, recipe=recipe)


def rows_of(task: str, label: str, results: Sequence[Mapping[str, Any]]) -> Rows:
    """Accuracy on the development set, share of its most frequent class, and number of its rows."""
    model, scores = results[0]["model"], [result["splits"]["valid"] for result in results]
    at: dict[str, Any] = {"task": task, "model": label, "n": int(model["max_positions"])}
    if model["projected_dim"]:
        at |= {"k": int(model["projected_dim"]), "sharing": model["sharing"]}
    accuracies = repeated([100 * each["scores"]["accuracy"]["value"] for each in scores])
    return Rows(
        [
            Row(metric="accuracy", unit="%", **accuracies, **at),
            Row(metric="majority", value=100 * scores[0]["majority"], unit="%", **at),
            Row(metric="rows", value=scores[0]["rows"], unit="rows", **at),
        ]
    )


def mean_accuracy(rows: Rows, model: str, tasks: Sequence[str]) -> Estimate | None:
    """The mean over tasks of the medians, of the lowest and of the highest; None if one has too few seeds."""
    found = [rows.find("accuracy", task=task, model=model) for task in tasks]
    measured = [row for row in found if row and (row.repetitions or 1) >= MIN_SEEDS]
    if not measured or len(measured) < len(tasks):
        return None
    value, low, high = (mean(getattr(row, name) for row in measured) for name in ("value", "low", "high"))
    return Estimate(value, low, high, model)


def near_chance(rows: Rows, tasks: Sequence[str]) -> dict[str, str]:
    """Tasks on which no model is ``ABOVE_CHANCE`` points above the most frequent class, with the best one in words.

    A model is above it if the lower end of its accuracy's 95 % interval is (Wilson, one trial per row), because the
    best of many models can be above chance by luck.
    """
    found = {}
    for task in tasks:
        margins = []
        for row in rows.select("accuracy", task=task):
            majority, number = (rows.find(metric, task=task, model=row.model) for metric in ("majority", "rows"))
            if majority and number:
                low = 100 * wilson(row.value / 100, int(number.value))[0]
                text = f"{row.value:.1f} % [from {low:.1f}] at best, most frequent class {majority.value:.1f} %"
                margins.append((low - majority.value, text))
        margin, text = max(margins, default=(ABOVE_CHANCE, ""))
        if margin < ABOVE_CHANCE:
            found[task] = text
    return found
