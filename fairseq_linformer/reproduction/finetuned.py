"""Finetuning for the experiments: data, jobs, and results that rest on ``training.finetune``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..checkpoints.identify import identify
from ..data.tasks import TASKS
from ..data.tokenizer_files import DICTIONARY
from ..evaluation.encoded_rows import is_prepared
from ..machine import merge_provenance, provenance
from ..models.dictionaries import describe_difference, read_dictionary
from ..training.data import check_folder
from ..training.finetune import FinetuningJob, finetune
from ..training.recipe import Recipe
from .result import Inputs, Result, Row, find_shards


def task_folder(task: str, n: int, inputs: Inputs, truncation: str | None = None) -> Path:
    """The prepared folder of a task for a model of n: for example ``imdb-n1024`` if it exists, else ``imdb``; with a
    truncation ``imdb-ends``.

    ValueError if it is missing, its inputs are too long or truncated otherwise, or its dictionary is not that of
    ``--data``."""
    folder = inputs.tasks / (f"{task}-ends" if truncation else f"{task}-n{n}")
    if not (truncation or folder.is_dir()):
        folder = inputs.tasks / task
    if not is_prepared(folder):
        command = f"fairseq-linformer prepare {task}" + (f" --truncation {truncation}" if truncation else "")
        raise ValueError(f"--tasks {inputs.tasks} has no {folder.name}; `{command}` writes it")
    check_folder(TASKS[task], folder, n, truncation=truncation)
    if inputs.data is not None:
        dictionary, own = find_shards(inputs.data)[0] / DICTIONARY, folder / "input0" / DICTIONARY
        if difference := describe_difference(read_dictionary(dictionary), read_dictionary(own)):
            raise ValueError(f"{own} must equal the dictionary of --data, {dictionary}; {difference}")
    return folder


def encoder_job(
    task: str, checkpoint: Path, recipe: tuple[float, int], seed: int, name: str, data: Path, runs: Path
) -> FinetuningJob:
    """Finetuning of an encoder, or of a Linformer made from it, for one epoch.

    Args:
        recipe: learning rate and batch size.
        name: of the run in RUNS/finetuned.
    """
    overrides = (
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
    """A result that rests on results of finetuning, and on measurements of this process."""
    seconds = round(sum(result["seconds"] for result in results), 1)
    return inputs.result(rows, data, configuration, seconds=seconds, **merge_provenance([*results, provenance()]))
