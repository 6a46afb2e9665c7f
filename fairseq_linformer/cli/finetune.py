"""``fairseq-linformer finetune``: a pretrained checkpoint, trained on a task or on labeled files, and scored."""

import argparse
from collections.abc import Callable
from pathlib import Path

from ..data.own_files import open_own
from ..data.task_sources import TaskFiles
from ..data.tasks import TASKS, Task
from .parsers import add_command, add_shared, check_task_or_file, positive, tokenizer_files


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
        help=f"one of {', '.join(TASKS)}; labeled rows in a file (.tsv, .csv, .json, .jsonl or .parquet), or in a "
        "folder with the files train and valid; or a folder that `prepare` wrote",
    )
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="fairseq checkpoint or run folder; or transformers folder or name on the hub, which is converted into "
        "RUNS/starts",
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides of configs/finetune/base.yaml")
    add_shared(parser, "--runs")
    parser.add_argument("--name", help="name of the run folder (default: finetune/TASK-CHECKPOINT or FILE-CHECKPOINT)")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="device to train on (default: cuda if available or with --slurm)"
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, but write, train and submit nothing")
    data = parser.add_argument_group("data", "Source and tokenizer are used only to prepare a new folder.")
    where = "folder of the prepared data, written if missing (default: data/TASK or data/FILE-CHECKPOINT)"
    data.add_argument("--data", metavar="FOLDER", help=where)
    add_shared(data, "--source", "--valid", "--text-column", "--label-column", "--regression")
    add_shared(data, "--tokenizer", "--truncation")
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
    from ..checkpoints.identify import Kind, identify
    from ..training.finetune import FinetuningJob, choose_device, default_name, finetune, submit
    from ..training.ranking import format_report
    from ..training.recipe import choose_recipes

    checkpoint = identify(options.checkpoint)
    checkpoint.check_kind(Kind.FAIRSEQ, Kind.TRANSFORMERS)
    task, source, label = _open_task(options)
    own_label = default_name(label, checkpoint.path)
    values = options.lr, options.batch_size, options.seed
    recipes = choose_recipes(checkpoint, *values, options.max_epoch, options.grid)
    grid = "-grid" if options.grid or len(recipes) > 1 else ""
    scratch = "-from-scratch" if options.from_scratch else ""
    name = options.name or f"finetune/{own_label}{scratch}{grid}"
    folder = Path(options.runs) / name
    job = FinetuningJob(
        task,
        checkpoint,
        recipes,
        name,
        options.data or "data/" + (own_label if isinstance(source, TaskFiles) else label),
        options.runs,
        options.from_scratch,
        options.device or ("cuda" if options.slurm else choose_device(folder)),
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
    return "\n".join(format_report(label, task, results, folder, recipes))


def _open_task(options: argparse.Namespace) -> tuple[Task, str | TaskFiles, str]:
    """The task, the source of its rows, and the name of either for folders."""
    from ..evaluation.encoded_rows import is_prepared, read_prepared_task

    given, path = options.task, Path(options.task)
    is_own_file = given not in TASKS and not is_prepared(path)
    if not is_own_file and (options.valid or options.text_column or options.label_column or options.regression):
        raise ValueError(f"--valid, --text-column, --label-column and --regression need a file of yours, got {given}")
    if given not in TASKS and options.source:
        raise ValueError(f"--source needs a task, got {given}")
    if given in TASKS:
        return TASKS[given], options.source or "hub", given
    if is_own_file:
        columns = options.text_column or (), options.label_column, options.regression
        task, files = open_own(path, options.valid, *columns)
        return task, files, path.resolve().name if path.is_dir() else path.stem
    if not (prepared := read_prepared_task(path)):
        raise ValueError(f"{given} does not say its task; pass it, with --data {given}")
    options.data = options.data or given
    return prepared, "hub", path.resolve().name
