"""``fairseq-linformer finetune``: a pretrained checkpoint on a task, scored on its development set.

    fairseq-linformer finetune sst-2 runs/n512-k256-layerwise/checkpoints/checkpoint_last.pt --gpt2 data/gpt2_bpe
    fairseq-linformer finetune qqp checkpoint_best.pt --data data/qqp --lr 2e-5 --seed 3
    fairseq-linformer finetune sst-2 checkpoint_best.pt --grid                      # rates x seeds, one after the other
    fairseq-linformer finetune sst-2 checkpoint_best.pt --grid --slurm --partition=gpu
    fairseq-linformer finetune sst-2 FacebookAI/roberta-base --source hub           # through transformers
"""

import argparse
import shlex
from pathlib import Path
from typing import Callable, List, Optional

from ..task_data.cut import HOW
from ..task_data.table import TASKS


def add_parser(commands) -> None:
    """Add ``finetune``."""
    description = "KEY=VALUE overrides configs/finetune; with --slurm any other --OPTION=VALUE goes to sbatch."
    parser = commands.add_parser("finetune", help="a pretrained checkpoint on a task: train, keep the best, score it",
                                 allow_abbrev=False, description=description)  # fmt: skip
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("checkpoint", metavar="CHECKPOINT",
                        help="of fairseq (a file), of transformers (a folder), or a name on the hub")  # fmt: skip
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="more options of fairseq-hydra-train")
    parser.add_argument("--runs", default="runs", metavar="FOLDER", help="takes the run folders (%(default)s)")
    parser.add_argument("--name", help="of the run folder (finetune/TASK-CHECKPOINT)")
    parser.add_argument("--device", choices=("cpu", "gpu"), help="(a GPU, if there is one, and with --slurm)")
    data = parser.add_argument_group("data")
    data.add_argument("--data", metavar="FOLDER", help="as prepare writes it; else it is prepared (data/TASK)")
    data.add_argument("--source", metavar="hub|PATH", help="to prepare it from, as for prepare (hub)")
    tokenizer = data.add_mutually_exclusive_group()
    tokenizer.add_argument("--gpt2", metavar="FOLDER", help="to prepare it (beside the checkpoint)")
    tokenizer.add_argument("--sentencepiece", metavar="MODEL", help="to prepare it (beside the checkpoint)")
    data.add_argument("--cut", choices=HOW, help="to prepare it: the part of a longer text to keep (head)")
    recipe = parser.add_argument_group("recipe: RoBERTa's")
    recipe.add_argument("--max-positions", type=int, metavar="N", help="n (the checkpoint's, else it is resized first)")
    recipe.add_argument("--epochs", type=int, metavar="E", help="(10)")
    recipe.add_argument("--lr", type=_list(float), metavar="LR",
                        help="peak, after 6 %% of the updates (1e-5); in a grid 1e-5,2e-5,3e-5")  # fmt: skip
    recipe.add_argument("--batch-size", type=_list(int), metavar="B", help="(32); in a grid several")
    recipe.add_argument("--seed", type=_list(int), metavar="S", help="(1); in a grid several, 1,2,3,4,5")
    recipe.add_argument("--from-scratch", action="store_true", help="the same model without its pretrained weights")
    grid = parser.add_argument_group("grid")
    grid.add_argument("--grid", action="store_true",
                      help="every rate, batch and seed; reports the best median. Rerun to resume")  # fmt: skip
    grid.add_argument("--slurm", action="store_true", help="as an array of Slurm; rerun without it to report")
    grid.add_argument("--dry-run", action="store_true", help="with --slurm: check, and print what would be submitted")
    parser.add_argument("--ledger", type=Path, metavar="FOLDER", help="write an entry of the ledger there (results)")
    parser.set_defaults(run=_finetune, takes_more=True)


def _list(kind: Callable) -> Callable[[str], List]:
    def values(text: str) -> List:
        try:
            return [kind(part) for part in text.split(",")]
        except ValueError:
            number = "a number" if kind is float else "a whole number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {number}, or several with commas between") from None

    return values


def _finetune(options: argparse.Namespace) -> str:
    import torch

    from ..checkpoints.files import is_fairseq
    from ..finetuning import recipe
    from ..finetuning.finetune import Job, default_name, finetune, submit

    task, words = TASKS[options.task], [*options.overrides, *options.more]
    overrides = [word for word in words if not word.startswith("-")]
    sbatch_options = [word for word in words if word.startswith("-")]
    _check(options, overrides, sbatch_options)
    lrs, seeds = (recipe.GRID_LRS, recipe.GRID_SEEDS) if options.grid else ((recipe.LR,), (recipe.SEED,))
    epochs = recipe.EPOCHS if options.epochs is None else options.epochs
    batch_sizes = options.batch_size or (recipe.BATCH_SIZE,)
    recipes = recipe.grid(options.lr or lrs, batch_sizes, options.seed or seeds, epochs)
    name = options.name or default_name(task, options.checkpoint, options.from_scratch) + "-grid" * options.grid
    device = options.device or ("gpu" if options.slurm else _begun_on(Path(options.runs) / name))
    device = device or ("gpu" if torch.cuda.is_available() else "cpu")
    if options.ledger:
        from ..reproduction.records import check_ledger

        check_ledger(options.ledger)
    if not is_fairseq(options.checkpoint):
        from ..finetuning.with_transformers import finetune_transformers

        _refuse_for_transformers(options, overrides)
        source = options.source or "hub"
        results = finetune_transformers(
            task, options.checkpoint, recipes, options.runs, name, source, device, options.max_positions
        )
    else:
        prepare = {key: getattr(options, key) for key in ("source", "gpt2", "sentencepiece", "cut")}
        data = options.data or f"data/{task.name}"
        job = Job(
            task, options.checkpoint, recipes, name, data, options.runs, options.max_positions, options.from_scratch,
            device, tuple(overrides), prepare,
        )  # fmt: skip
        if options.slurm:
            return submit(job, sbatch_options, options.dry_run)
        results = finetune(job)
    report = _report(task, results, Path(options.runs) / name, recipes)
    if options.ledger:
        from ..reproduction.finetuning_records import record_of
        from ..reproduction.records import put

        record = record_of(task, results, name.split("/")[-1], _command(options, overrides))
        report.append(f"ledger: {put(record, options.ledger)}")
    return "\n".join(report)


def _begun_on(folder: Path) -> Optional[str]:
    """The device of a run, or of the first of a grid: runs of a cluster's GPUs may be reported where there is none."""
    from omegaconf import OmegaConf

    from ..launching.run_folder import CONFIG, read_config

    for path in (folder / CONFIG, *sorted(folder.glob(f"*/{CONFIG}"))):
        if path.is_file():
            return "cpu" if OmegaConf.select(read_config(path.parent), "common.cpu") else "gpu"
    return None


def _report(task, results, folder: Path, recipes) -> List[str]:
    from ..finetuning.grid import middle_run, settings, table
    from ..finetuning.run import headline

    result, lines = results[0], []
    if len(results) > 1:
        result = middle_run(task, results)
        folder /= recipes[results.index(result)].name
        lines = [*table(task, settings(task, results)), f"its run of seed {result['recipe']['seed']}:"]
    for split, scores in result["splits"].items():
        lines.append(f"{task.name} {split}: {', '.join(headline(result, split))}; {scores['rows']:,} rows")
    epoch = "last" if task.valid_is_test else "best"
    return [*lines, f"the checkpoint of the {epoch} epoch: {folder / result['checkpoint']}"]


def _command(options: argparse.Namespace, overrides: List[str]) -> str:
    """The command that reproduces it; of paths only their last part."""
    words = ["fairseq-linformer", "finetune", options.task, _last_part(options.checkpoint), *overrides]
    for name in ("data", "source", "gpt2", "sentencepiece"):
        if path := getattr(options, name):
            words += [f"--{name}", _last_part(path)]
    for name in ("cut", "max_positions", "epochs", "lr", "batch_size", "seed", "device"):
        if (value := getattr(options, name)) is not None:
            words += [_flag(name), ",".join(map(repr, value)) if isinstance(value, list) else str(value)]
    return shlex.join(words + [_flag(name) for name in ("from_scratch", "grid") if getattr(options, name)])


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _last_part(path: str) -> str:
    return Path(path).absolute().name if Path(path).exists() else path


def _check(options: argparse.Namespace, overrides: List[str], sbatch_options: List[str]) -> None:
    from ..finetuning.recipe import check_overrides

    if wrong := [word for word in overrides if "=" not in word]:
        raise ValueError(f"{wrong[0]} is no override; it must be KEY=VALUE")
    check_overrides(overrides)
    if sbatch_options and not options.slurm:
        raise ValueError(f"{sbatch_options[0]} is no option; with --slurm it would go to sbatch")
    if options.slurm and not options.grid:
        single = "fairseq-linformer submit --config=configs/finetune/base.yaml"
        raise ValueError(f"--slurm is given without --grid; it runs a grid as an array, `{single}` a single job")
    if options.dry_run and not options.slurm:
        raise ValueError("--dry-run is given without --slurm")
    if options.slurm and options.ledger:
        raise ValueError("--ledger is given with --slurm; rerun without --slurm to report and write it")
    for name in ("lr", "batch_size", "seed"):
        if not options.grid and len(getattr(options, name) or [1]) > 1:
            raise ValueError(f"{_flag(name)} has several values; --grid runs them all")


def _refuse_for_transformers(options: argparse.Namespace, overrides: List[str]) -> None:
    names = ("data", "gpt2", "sentencepiece", "cut", "from_scratch", "slurm")
    if given := [*(_flag(name) for name in names if getattr(options, name)), *overrides]:
        hint = f"it is for a checkpoint of fairseq, and {options.checkpoint} is not a file"
        raise ValueError(f"{given[0]} is given; {hint}")
