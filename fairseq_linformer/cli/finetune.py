"""Finetune a pretrained checkpoint on a task or on your labeled files, and score the best epoch. Rerun to resume. With
--slurm any other --OPTION=VALUE is passed to sbatch.

    fairseq-linformer finetune sst-2 checkpoints/base/checkpoint_best.pt --tokenizer data/gpt2_bpe
    fairseq-linformer finetune reviews.csv checkpoint_best.pt --text-column review --label-column stars
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data.own_files import open_own
from ..data.task_sources import TaskFiles
from ..data.tasks import TASKS
from .parsers import add_shared, check_taken, check_task_or_file, positive, take


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the task, the checkpoint, the data and the recipe."""
    add = parser.add_argument
    task = (
        f"one of {', '.join(TASKS)}; labeled rows in a file (.tsv, .csv, .json, .jsonl or .parquet), or in a folder "
        "with the files train and valid; or a folder that `prepare` wrote"
    )
    add("task", metavar="TASK-OR-FILE", help=task)
    checkpoint = (
        "fairseq checkpoint or run folder; or transformers folder or name on the hub, which is converted into "
        "RUNS/starts"
    )
    add("checkpoint", metavar="CHECKPOINT", help=checkpoint)
    overrides = "overrides of configs/finetune/base.yaml"
    add("overrides", nargs="*", default=[], metavar="KEY=VALUE", help=overrides)
    add_shared(parser, "--runs")
    name = "name of the run folder (default: finetune/TASK-CHECKPOINT or FILE-CHECKPOINT)"
    add("--name", help=name)
    device = "device to train on (default: cuda if available or with --slurm)"
    add("--device", choices=("cpu", "cuda"), help=device)
    add("--dry-run", action="store_true", help="check everything, but write, train and submit nothing")
    add("--slurm", action="store_true", help="submit to Slurm; rerun without --slurm to report")
    data = parser.add_argument_group("data", "Source and tokenizer are used only to prepare a new folder.")
    where = "folder of the prepared data, written if missing (default: data/TASK or data/FILE-CHECKPOINT)"
    data.add_argument("--data", metavar="FOLDER", help=where)
    add_shared(data, "--source", "--valid", "--text-column", "--label-column", "--regression")
    add_shared(data, "--tokenizer", "--truncation")
    recipe = "RoBERTa's by default. Several values, separated by commas, make a grid of all combinations."
    _add_recipe(parser.add_argument_group("recipe", recipe))


def _add_recipe(group: Any) -> None:
    add = group.add_argument
    rates = "peak learning rate (default: RoBERTa's 1e-5, more for a width below 768)"
    add("--lr", type=_list_of(float), metavar="LR,...", help=rates)
    batch = "sentences per update (default: 32)"
    add("--batch-size", type=_list_of(positive), metavar="B,...", help=batch)
    seed = "seed of head, dropout and shuffling (default: 1)"
    add("--seed", type=_list_of(int), metavar="S,...", help=seed)
    add("--max-epoch", type=positive, default=10, metavar="E", help="number of epochs")
    add("--from-scratch", action="store_true", help="train the same model without pretrained weights")
    grid = "RoBERTa's grid: 1, 2 and 3 times the default --lr, and --seed 1,2,3,4,5, unless they are set"
    add("--grid", action="store_true", help=grid)


def _list_of(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def numbers(text: str) -> list[Any]:
        return [kind(part) for part in text.split(",")]

    return numbers


def run(options: argparse.Namespace) -> str:
    """Finetune, or submit, and report."""
    check_task_or_file(options.task)  # before PyTorch is imported, which takes seconds
    from ..training.finetune import finetune, submit
    from ..training.ranking import format_report

    job, label = _build_job(options)
    is_dry = "dry_run" in options
    if "slurm" in options:
        return submit(job, options.sbatch_options, is_dry)
    results = finetune(job, is_dry)
    if is_dry:
        unfinished = len(job.recipes) - len(results)
        return f"{job.name}: no error found; runs to train: {unfinished} of {len(job.recipes)}; nothing was written"
    return "\n".join(format_report(label, job.task, results, Path(job.runs, job.name), job.recipes))


def _build_job(options: argparse.Namespace) -> tuple[Any, str]:
    """The job, and the name of its task or file."""
    from ..checkpoints.identify import Kind, identify
    from ..training.finetune import FinetuningJob, choose_device, default_name
    from ..training.recipe import choose_recipes

    given = dict(vars(options))
    checkpoint = identify(given.pop("checkpoint"))
    checkpoint.check_kind(Kind.FAIRSEQ, Kind.TRANSFORMERS)
    recipes = choose_recipes(checkpoint, **take(given, choose_recipes))
    job = take(given, FinetuningJob) | {"checkpoint": checkpoint, "recipes": recipes}
    label = _open_task(job, take(given, open_own))
    own_label = default_name(label, checkpoint.path)
    kind = "-from-scratch" * ("from_scratch" in job) + "-grid" * ("grid" in options or len(recipes) > 1)
    job = {
        "name": f"finetune/{own_label}{kind}",
        "data": f"data/{own_label if isinstance(job['source'], TaskFiles) else label}",
        **job,
    }
    if "device" not in job:
        job["device"] = "cuda" if "slurm" in options else choose_device(Path(job["runs"], job["name"]))
    return FinetuningJob(**job), label


def _open_task(job: dict[str, Any], own: dict[str, Any]) -> str:
    """Put the task and the source of its rows into a job, and return the name of either for folders.

    Args:
        job: its task, as the user named it, and other options.
        own: options of a user's own files.
    """
    from ..evaluation.encoded_rows import is_prepared, read_prepared_task

    name = job["task"]
    path = Path(name)
    if name not in TASKS and "source" in job:
        raise ValueError(f"--source needs a task, got {name}")
    if name not in TASKS and not is_prepared(path):
        job["task"], job["source"] = open_own(path, **own)
        return path.resolve().name if path.is_dir() else path.stem
    check_taken(own, name)
    job.setdefault("source", "hub")
    if name in TASKS:
        job["task"] = TASKS[name]
        return str(name)
    job.setdefault("data", name)
    if not (prepared := read_prepared_task(path)):
        raise ValueError(f"{name} does not say its task; pass it, with --data {name}")
    job["task"] = prepared
    return path.resolve().name
