"""Finetune a pretrained checkpoint on a task or on your labeled files, and score it. Rerun to resume. With --slurm any
other --OPTION=VALUE is passed to sbatch.

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
from .parsers import add_shared, check_task_or_file, positive, take


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    task = (
        f"one of {', '.join(TASKS)}; labeled rows in a file (.tsv, .csv, .json, .jsonl or .parquet), or in a folder "
        "with the files train and valid; or a folder that `prepare` wrote"
    )
    add("task", metavar="TASK-OR-FILE", help=task)
    checkpoint = "fairseq checkpoint or run folder; or a model of transformers, which is converted into RUNS/starts"
    add("checkpoint", metavar="CHECKPOINT", help=checkpoint)
    add("overrides", nargs="*", default=[], metavar="KEY=VALUE", help="overrides of configs/finetune/base.yaml")
    add_shared(parser, "--runs")
    add("--name", help="name of the run folder (default: finetune/TASK-CHECKPOINT or FILE-CHECKPOINT)")
    add("--device", choices=("cpu", "cuda"), help="device to train on (default: cuda if available or with --slurm)")
    add("--dry-run", action="store_true", help="check everything, but write, train and submit nothing")
    add("--slurm", action="store_true", help="submit to Slurm; rerun without --slurm to report")
    data = parser.add_argument_group("data", "Source and tokenizer are used only to prepare a new folder.")
    where = "folder of the prepared data, written if missing (default: data/TASK or data/FILE-CHECKPOINT)"
    data.add_argument("--data", metavar="FOLDER", help=where)
    add_shared(data, "--source", "--valid", "--text-column", "--label-column", "--regression")
    add_shared(data, "--tokenizer", "--truncation")
    recipe = "RoBERTa's by default. Several values, separated by commas, make a grid of all combinations."
    add = parser.add_argument_group("recipe", recipe).add_argument
    rates = "peak learning rate (default: RoBERTa's 1e-5, more for a width below 768)"
    add("--lr", type=_list_of(float), metavar="LR,...", help=rates)
    add("--batch-size", type=_list_of(positive), metavar="B,...", help="sentences per batch (default: 32)")
    add("--seed", type=_list_of(int), metavar="S,...", help="seed of head, dropout and shuffling (default: 1)")
    add("--max-epoch", type=positive, default=10, metavar="E", help="number of epochs")
    add("--from-scratch", action="store_true", help="train the same model without pretrained weights")
    grid = "RoBERTa's grid: 1, 2 and 3 times the default --lr, and --seed 1,2,3,4,5, unless they are set"
    add("--grid", action="store_true", help=grid)


def _list_of(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def numbers(text: str) -> list[Any]:
        return [kind(part) for part in text.split(",")]

    return numbers


def run(options: argparse.Namespace) -> str:
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
    from ..training.data import open_task
    from ..training.finetune import FinetuningJob, choose_device, default_name
    from ..training.recipe import choose_recipes

    given = dict(vars(options))
    checkpoint = identify(given.pop("checkpoint"))
    checkpoint.check_kind(Kind.FAIRSEQ, Kind.TRANSFORMERS)
    recipes = choose_recipes(checkpoint, **take(given, choose_recipes))
    task, source, label, data = open_task(given.pop("task"), given.pop("source", None), take(given, open_own))
    if data and "data" in given:
        raise ValueError(f"--data has no effect on {data}, which is prepared; for other data pass a task or your files")
    own_label = default_name(label, checkpoint.path)
    suffix = "-from-scratch" * ("from_scratch" in given) + "-grid" * ("grid" in options or len(recipes) > 1)
    name = given.pop("name", "") or f"finetune/{own_label}{suffix}"
    data = given.pop("data", data) or f"data/{own_label if isinstance(source, TaskFiles) else label}"
    if "device" not in given:
        given["device"] = "cuda" if "slurm" in options else choose_device(Path(options.runs, name))
    others = take(given, FinetuningJob)
    return FinetuningJob(task, checkpoint, recipes, name, data, source=source, **others), label
