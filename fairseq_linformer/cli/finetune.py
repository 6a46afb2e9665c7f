"""``fairseq-linformer finetune``: a pretrained checkpoint, trained on a task and scored on its development set."""

import argparse
from collections.abc import Callable
from pathlib import Path

from ..data.tasks import OWN, TASKS
from .parsers import add_command, add_runs, add_tokenizer, add_truncation, tokenizer_files


def add_parser(commands) -> None:
    """Add ``finetune``."""
    parser = add_command(
        commands,
        "finetune",
        "finetune a pretrained checkpoint on a task and score the best epoch",
        """finetune sst-2 checkpoints/base/checkpoint_best.pt --tokenizer data/gpt2_bpe
        finetune qqp checkpoint_best.pt --data data/qqp --lr 2e-5 --seed 3
        finetune sst-2 checkpoint_best.pt --grid --slurm --partition=gpu
        finetune sst-2 FacebookAI/roberta-base --data data/sst-2-roberta
        finetune own checkpoint_best.pt --data data/own-task""",
        description="Rerun to resume. With --slurm any other --OPTION=VALUE is passed to sbatch.",
        allow_abbrev=False,
    )
    tasks = [*TASKS, OWN]
    own = f"{OWN} for the one in --data, which `prepare {OWN}` wrote"
    parser.add_argument("task", choices=tasks, metavar="TASK", help=f"one of {', '.join(TASKS)}; {own}")
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="fairseq checkpoint or run folder; or transformers folder or name on the hub, which is converted into "
        "RUNS/starts",
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides of configs/finetune/base.yaml")
    add_runs(parser)
    parser.add_argument("--name", help="name of the run folder (default: finetune/TASK-CHECKPOINT)")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="device to train on (default: cuda if available or with --slurm)"
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, but write, train and submit nothing")
    data = parser.add_argument_group("data", "Source and tokenizer are used only to prepare a new folder.")
    data.add_argument("--data", metavar="FOLDER", help="folder of the task, prepared if missing (default: data/TASK)")
    data.add_argument("--source", default="hub", metavar="hub|PATH", help="hub, or a folder with the official files")
    add_tokenizer(data, default="next to CHECKPOINT")
    add_truncation(data, None, " (default: head)")
    recipe = parser.add_argument_group(
        "recipe", "RoBERTa's by default. Several values, separated by commas, make a grid of all combinations."
    )
    recipe.add_argument("--lr", type=_list_of(float), metavar="LR,...", help="peak learning rate (default: 1e-5)")
    recipe.add_argument("--batch-size", type=_list_of(int), metavar="B,...", help="sentences per update (default: 32)")
    recipe.add_argument(
        "--seed", type=_list_of(int), metavar="S,...", help="seed of head, dropout and shuffling (default: 1)"
    )
    recipe.add_argument("--max-epoch", type=int, default=10, metavar="E", help="number of epochs")
    recipe.add_argument(
        "--max-positions",
        type=int,
        metavar="N",
        help="n, the longest input in tokens; a checkpoint of another n is resized (default: the checkpoint's)",
    )
    recipe.add_argument("--from-scratch", action="store_true", help="train the same model without pretrained weights")
    recipe.add_argument(
        "--grid",
        action="store_true",
        help="RoBERTa's grid: --lr 1e-5,2e-5,3e-5 and --seed 1,2,3,4,5, unless they are set",
    )
    parser.add_argument("--slurm", action="store_true", help="submit to Slurm; rerun without --slurm to report")
    parser.set_defaults(run=_finetune)


def _list_of(kind: Callable) -> Callable[[str], list]:
    def numbers(text: str) -> list:
        return [kind(part) for part in text.split(",")]

    return numbers


def _finetune(options: argparse.Namespace) -> str:
    import torch

    from ..checkpoints.files import find_checkpoint
    from ..training import recipe
    from ..training.data import open_own_task
    from ..training.finetune import FinetuningJob, default_name, finetune, submit

    checkpoint, data = find_checkpoint(options.checkpoint), options.data or f"data/{options.task}"
    task = open_own_task(data) if options.task == OWN else TASKS[options.task]
    lrs, seeds = (recipe.GRID_LRS, recipe.GRID_SEEDS) if options.grid else ((recipe.LR,), (recipe.SEED,))
    batch_sizes = options.batch_size or (recipe.BATCH_SIZE,)
    recipes = recipe.build_grid(options.lr or lrs, batch_sizes, options.seed or seeds, options.max_epoch)
    grid = "-grid" if options.grid or len(recipes) > 1 else ""
    name = options.name or default_name(task, checkpoint, options.from_scratch) + grid
    device = options.device or ("cuda" if options.slurm else _find_device(Path(options.runs) / name))
    job = FinetuningJob(
        task,
        checkpoint,
        recipes,
        name,
        data,
        options.runs,
        options.max_positions,
        options.from_scratch,
        device or ("cuda" if torch.cuda.is_available() else "cpu"),
        tuple(options.overrides),
        options.source,
        tokenizer_files(options),
        options.truncation,
    )
    if options.slurm:
        return submit(job, options.sbatch_options, options.dry_run)
    results = finetune(job, options.dry_run)
    if options.dry_run:
        unfinished = len(recipes) - len(results)
        return f"{name}: valid; unfinished runs: {unfinished} of {len(recipes)}; nothing was written"
    return "\n".join(_report(task, results, Path(options.runs) / name, recipes))


def _find_device(folder: Path) -> str | None:
    """The device of an existing run or grid, which may be reported on a machine without a GPU; None if it is new."""
    from omegaconf import OmegaConf

    from ..training.run_folder import CONFIG

    for path in (folder / CONFIG, *sorted(folder.glob(f"*/{CONFIG}"))):
        if path.is_file():
            return "cpu" if OmegaConf.select(OmegaConf.load(path), "common.cpu") else "cuda"
    return None


def _report(task, results, folder: Path, recipes) -> list[str]:
    from ..training.ranking import format_headline, format_table, median_run, rank_settings

    result, lines = results[0], []
    if len(results) > 1:
        result = median_run(task, results)
        folder /= recipes[results.index(result)].name
        lines = [*format_table(task, rank_settings(task, results)), f"median run, seed {result['recipe']['seed']}:"]
    for split, scores in result["splits"].items():
        lines.append(f"{task.name} {split}: {', '.join(format_headline(task, result, split))}; {scores['rows']:,} rows")
    epoch = "last" if task.valid_is_test else "best"
    return [*lines, f"checkpoint of the {epoch} epoch: {folder / result['checkpoint']}"]
