"""``fairseq-linformer finetune``: a pretrained checkpoint, trained on a task or on labeled files, and scored."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from ..data.task_sources import TaskFiles, open_own
from ..data.tasks import TASKS, Task
from ..training.arguments import add_runs
from .parsers import add_command, add_shared, check_options, check_task_or_file, positive, tokenizer_files

INPUTS = {
    "a task": ("data", "source"),
    "prepared data": (),
    "your own file": ("data", "valid", "text_column", "label_column"),
}
"""Options, by what they apply to."""


def add_parser(commands) -> None:
    """Add ``finetune``."""
    parser = add_command(
        commands,
        "finetune",
        "finetune a pretrained checkpoint on a task or on your labeled files, and score the best epoch",
        """finetune sst-2 checkpoints/base/checkpoint_best.pt --tokenizer data/gpt2_bpe
        finetune reviews.csv checkpoint_best.pt --text-column review --label-column stars
        finetune data/sst-2 checkpoint_best.pt --lr 2e-5 --seed 3
        finetune sst-2 checkpoint_best.pt --grid --slurm --partition=gpu
        finetune sst-2 FacebookAI/roberta-base --data data/sst-2-roberta""",
        description="Rerun to resume. With --slurm any other --OPTION=VALUE is passed to sbatch.",
    )
    parser.add_argument(
        "task",
        metavar="TASK-OR-FILE",
        help=f"one of {', '.join(TASKS)}; labeled rows in a file (.tsv, .csv, .jsonl or .parquet), or in a folder with "
        "the files train and valid; or a folder that `prepare` wrote",
    )
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="fairseq checkpoint or run folder; or transformers folder or name on the hub, which is converted into "
        "RUNS/starts",
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides of configs/finetune/base.yaml")
    add_runs(parser)
    parser.add_argument("--name", help="name of the run folder (default: finetune/TASK-CHECKPOINT or FILE-CHECKPOINT)")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="device to train on (default: cuda if available or with --slurm)"
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, but write, train and submit nothing")
    data = parser.add_argument_group("data", "Source and tokenizer are used only to prepare a new folder.")
    where = "folder of the prepared data, written if missing (default: data/TASK or data/FILE-CHECKPOINT)"
    data.add_argument("--data", metavar="FOLDER", help=where)
    add_shared(data, "--source", "--valid", "--text-column", "--label-column", "--tokenizer", "--truncation")
    recipe = parser.add_argument_group(
        "recipe", "RoBERTa's by default. Several values, separated by commas, make a grid of all combinations."
    )
    rates = "peak learning rate (default: RoBERTa's 1e-5, more for a width below 768)"
    recipe.add_argument("--lr", type=_list_of(float), metavar="LR,...", help=rates)
    recipe.add_argument(
        "--batch-size", type=_list_of(positive), metavar="B,...", help="sentences per update (default: 32)"
    )
    recipe.add_argument(
        "--seed", type=_list_of(int), metavar="S,...", help="seed of head, dropout and shuffling (default: 1)"
    )
    recipe.add_argument("--max-epoch", type=positive, default=10, metavar="E", help="number of epochs")
    recipe.add_argument(
        "--max-positions",
        type=positive,
        metavar="N",
        help="n, the longest input in tokens; a checkpoint of another n is resized (default: the checkpoint's)",
    )
    recipe.add_argument("--from-scratch", action="store_true", help="train the same model without pretrained weights")
    recipe.add_argument(
        "--grid",
        action="store_true",
        help="RoBERTa's grid: 1, 2 and 3 times the default --lr, and --seed 1,2,3,4,5, unless they are set",
    )
    parser.add_argument("--slurm", action="store_true", help="submit to Slurm; rerun without --slurm to report")
    parser.set_defaults(run=_finetune)


def _list_of(kind: Callable) -> Callable[[str], list]:
    def numbers(text: str) -> list:
        return [kind(part) for part in text.split(",")]

    return numbers


def _finetune(options: argparse.Namespace) -> str:
    check_task_or_file(options.task)  # before PyTorch is imported, which takes seconds
    import torch

    from ..checkpoints.identify import Kind, identify
    from ..training import recipe
    from ..training.finetune import FinetuningJob, default_name, finetune, submit
    from ..training.initial_checkpoint import read_width

    checkpoint = identify(options.checkpoint)
    checkpoint.check_kind(Kind.FAIRSEQ, Kind.TRANSFORMERS)
    task, source, label = _open_task(options)
    own_label = default_name(label, checkpoint.path)
    lrs, seeds = options.lr, options.seed or (recipe.GRID_SEEDS if options.grid else (recipe.SEED,))
    if not lrs:
        width = read_width(checkpoint)
        lrs = [recipe.scale_lr(lr, width) for lr in (recipe.GRID_LRS if options.grid else (recipe.LR,))]
        print(f"learning rate for a width of {width}: {', '.join(f'{lr:g}' for lr in lrs)}", file=sys.stderr)
    recipes = recipe.build_grid(lrs, options.batch_size or (recipe.BATCH_SIZE,), seeds, options.max_epoch)
    grid = "-grid" if options.grid or len(recipes) > 1 else ""
    scratch = "-from-scratch" if options.from_scratch else ""
    name = options.name or f"finetune/{own_label}{scratch}{grid}"
    device = options.device or ("cuda" if options.slurm else _find_device(Path(options.runs) / name))
    job = FinetuningJob(
        task,
        checkpoint,
        recipes,
        name,
        options.data or "data/" + (own_label if isinstance(source, TaskFiles) else label),
        options.runs,
        options.max_positions,
        options.from_scratch,
        device or ("cuda" if torch.cuda.is_available() else "cpu"),
        tuple(options.overrides),
        source,
        tokenizer_files(options),
        options.truncation,
    )
    if options.slurm:
        return submit(job, options.sbatch_options, options.dry_run)
    results = finetune(job, options.dry_run)
    if options.dry_run:
        unfinished = len(recipes) - len(results)
        return f"{name}: no error found; runs to train: {unfinished} of {len(recipes)}; nothing was written"
    return "\n".join(_report(label, task, results, Path(options.runs) / name, recipes))


def _open_task(options: argparse.Namespace) -> tuple[Task, str | TaskFiles, str]:
    """The task, the source of its rows, and the name of either for folders."""
    from ..evaluation.encoded_rows import is_prepared, read_prepared_task

    given, path = options.task, Path(options.task)
    if given in TASKS:
        check_options(options, INPUTS, "a task", given)
        return TASKS[given], options.source or "hub", given
    if is_prepared(path):
        check_options(options, INPUTS, "prepared data", given)
        if not (task := read_prepared_task(path)):
            raise ValueError(f"{given} does not say its task; pass it, with --data {given}")
        options.data = given
        return task, "hub", path.resolve().name
    check_options(options, INPUTS, "your own file", given)
    task, files = open_own(path, options.valid, options.text_column or (), options.label_column)
    return task, files, path.resolve().name if path.is_dir() else path.stem


def _find_device(folder: Path) -> str | None:
    """The device of an existing run or grid, which may be reported on a machine without a GPU; None if it is new."""
    from omegaconf import OmegaConf

    from ..training.run_folder import CONFIG

    for path in (folder / CONFIG, *sorted(folder.glob(f"*/{CONFIG}"))):
        if path.is_file():
            return "cpu" if OmegaConf.select(OmegaConf.load(path), "common.cpu") else "cuda"
    return None


def _report(data: str, task, results, folder: Path, recipes) -> list[str]:
    from ..evaluation.scores import warn_of_chance
    from ..training.ranking import format_headline, format_table, median_run, rank_settings

    result, lines = results[0], []
    if len(results) > 1:
        result = median_run(task, results)
        folder /= recipes[results.index(result)].name
        lines = [*format_table(task, rank_settings(task, results)), f"median run, seed {result['recipe']['seed']}:"]
    for split, scores in result["splits"].items():
        lines.append(f"{data} {split}: {', '.join(format_headline(task, scores['scores']))}; {scores['rows']:,} rows")
        lines += [f"{warning}; try another --lr, more epochs or more rows" for warning in warn_of_chance(scores)]
    epoch = "last" if task.valid_is_test else "best"
    return [*lines, f"checkpoint of the {epoch} epoch: {folder / result['checkpoint']}"]
