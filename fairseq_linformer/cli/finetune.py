"""``fairseq-linformer finetune``: a pretrained checkpoint on a task, judged on its development set.

    fairseq-linformer finetune sst-2 runs/n512-k256-layerwise/checkpoints/checkpoint_last.pt --gpt2 data/gpt2_bpe
    fairseq-linformer finetune qqp checkpoint_best.pt --data data/qqp --lr 2e-5 --seed 3
    fairseq-linformer finetune sst-2 checkpoint_best.pt --grid                      # rates x seeds, here, one after the other
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
    parser = commands.add_parser("finetune", help="a pretrained checkpoint on a task: train, keep the best, score it", allow_abbrev=False,
                                 description="KEY=VALUE overrides configs/finetune; with --slurm any other --OPTION=VALUE goes to sbatch.")  # fmt: skip
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="of fairseq, a file: ours, the authors' or RoBERTa's; of transformers, a folder or a name on the hub")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="more options of fairseq-hydra-train")
    parser.add_argument("--runs", default="runs", metavar="FOLDER", help="takes the run folders (%(default)s)")
    parser.add_argument("--name", help="of the run folder (finetune/TASK-CHECKPOINT)")
    parser.add_argument("--device", choices=("cpu", "gpu"), help="(a GPU, if there is one, and with --slurm)")
    data = parser.add_argument_group("data")
    data.add_argument("--data", metavar="FOLDER", help="as prepare writes it; prepared there if it is not there (data/TASK)")
    data.add_argument("--source", metavar="hub|PATH", help="to prepare it from, as for prepare (hub)")
    tokenizer = data.add_mutually_exclusive_group()
    tokenizer.add_argument("--gpt2", metavar="FOLDER", help="to prepare it with (what lies beside the checkpoint)")
    tokenizer.add_argument("--sentencepiece", metavar="MODEL", help="to prepare it with (what lies beside the checkpoint)")
    data.add_argument("--cut", choices=HOW, help="to prepare it: what stays of a longer text (head)")
    recipe = parser.add_argument_group("recipe: RoBERTa's")
    recipe.add_argument("--max-positions", type=int, metavar="N", help="n (that of the checkpoint; at another it is resized first)")
    recipe.add_argument("--epochs", type=int, metavar="E", help="(10)")
    recipe.add_argument("--lr", type=_list(float), metavar="LR", help="peak, after 6 %% of the updates (1e-5); in a grid several, such as 1e-5,2e-5,3e-5")
    recipe.add_argument("--batch-size", type=_list(int), metavar="B", help="(32); in a grid several")
    recipe.add_argument("--seed", type=_list(int), metavar="S", help="(1); in a grid several, 1,2,3,4,5")
    recipe.add_argument("--from-scratch", action="store_true", help="the same model without what it learnt in pretraining")
    grid = parser.add_argument_group("grid")
    grid.add_argument("--grid", action="store_true", help="every rate, batch and seed; the median over the seeds of the best. The same command goes on")
    grid.add_argument("--slurm", action="store_true", help="as an array of Slurm; afterwards the same command without it reports")
    grid.add_argument("--dry-run", action="store_true", help="with --slurm: check, and print what would be submitted")
    parser.add_argument("--ledger", type=Path, metavar="FOLDER", help="write an entry of the ledger there, such as results")
    parser.set_defaults(run=_finetune, takes_more=True)


def _list(kind: Callable) -> Callable[[str], List]:
    def values(text: str) -> List:
        try:
            return [kind(part) for part in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {'a number' if kind is float else 'a whole number'}, or several with commas between") from None

    return values


def _finetune(options: argparse.Namespace) -> str:
    import torch

    from ..checkpoints.files import is_fairseq
    from ..finetuning import recipe
    from ..finetuning.finetune import Job, default_name, finetune, submit

    task, words = TASKS[options.task], [*options.overrides, *options.more]
    overrides, to_sbatch = [word for word in words if not word.startswith("-")], [word for word in words if word.startswith("-")]
    _check(options, overrides, to_sbatch)
    default = (recipe.GRID_LRS, (recipe.BATCH_SIZE,), recipe.GRID_SEEDS) if options.grid else ((recipe.LR,), (recipe.BATCH_SIZE,), (recipe.SEED,))
    chosen = [given or usual for given, usual in zip((options.lr, options.batch_size, options.seed), default)]
    recipes = recipe.grid(*chosen, epochs=recipe.EPOCHS if options.epochs is None else options.epochs)
    name = options.name or default_name(task, options.checkpoint, options.from_scratch) + "-grid" * options.grid
    device = options.device or ("gpu" if options.slurm else _begun_on(Path(options.runs) / name)) or ("gpu" if torch.cuda.is_available() else "cpu")
    if options.ledger:
        from ..reproduction.records import check_ledger

        check_ledger(options.ledger)
    if not is_fairseq(options.checkpoint):
        from ..finetuning.with_transformers import finetune_transformers

        _refuse_for_transformers(options, overrides)
        results = finetune_transformers(task, options.checkpoint, recipes, options.runs, name, options.source or "hub", device, options.max_positions)
    else:
        prepare = {key: getattr(options, key) for key in ("source", "gpt2", "sentencepiece", "cut")}
        job = Job(task, options.checkpoint, recipes, name, options.data or f"data/{task.name}", options.runs, options.max_positions, options.from_scratch,
                  device, tuple(overrides), prepare)  # fmt: skip
        if options.slurm:
            return submit(job, to_sbatch, options.dry_run)
        results = finetune(job)
    said = _report(task, results, Path(options.runs) / name, recipes)
    if options.ledger:
        from ..reproduction.finetuning_records import record_of
        from ..reproduction.records import put

        record = record_of(task, results, name.split("/")[-1], _command(options, overrides))
        said.append(f"ledger: {put(record, options.ledger)}")
    return "\n".join(said)


def _begun_on(folder: Path) -> Optional[str]:
    """The device of a run, or of the first of a grid: what a cluster's GPUs have trained may be reported where there is none."""
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
        lines = [*table(task, settings(task, results)), f"of it the run of seed {result['recipe']['seed']}:"]
    lines += [f"{task.name} {split}: {', '.join(headline(result, split))}; {result['splits'][split]['rows']:,} rows" for split in result["splits"]]
    return [*lines, f"the checkpoint of the {'last' if task.valid_is_test else 'best'} epoch: {folder / result['checkpoint']}"]


def _command(options: argparse.Namespace, overrides: List[str]) -> str:
    """What makes it again; of paths only their last part."""
    words = ["fairseq-linformer", "finetune", options.task, _place(options.checkpoint), *overrides]
    for name in ("data", "source", "gpt2", "sentencepiece"):
        if given := getattr(options, name):
            words += [f"--{name}", _place(given)]
    for name in ("cut", "max_positions", "epochs", "lr", "batch_size", "seed", "device"):
        if (given := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", ",".join(map(repr, given)) if isinstance(given, list) else str(given)]
    return shlex.join(words + [f"--{name.replace('_', '-')}" for name in ("from_scratch", "grid") if getattr(options, name)])


def _place(path: str) -> str:
    return Path(path).absolute().name if Path(path).exists() else path


def _check(options: argparse.Namespace, overrides: List[str], to_sbatch: List[str]) -> None:
    from ..finetuning.recipe import check_overrides

    if wrong := [word for word in overrides if "=" not in word]:
        raise ValueError(f"{wrong[0]} is no override; KEY=VALUE is wanted")
    check_overrides(overrides)
    if to_sbatch and not options.slurm:
        raise ValueError(f"{to_sbatch[0]} is no option; with --slurm it would go to sbatch")
    if options.slurm and not options.grid:
        raise ValueError("--slurm is given without --grid; it runs a grid as an array, `fairseq-linformer submit --config=configs/finetune/base.yaml` a single job")
    if options.dry_run and not options.slurm:
        raise ValueError("--dry-run is given without --slurm")
    if options.slurm and options.ledger:
        raise ValueError("--ledger is given with --slurm; the same command without --slurm reports, and writes it")
    for name in ("lr", "batch_size", "seed"):
        if not options.grid and len(getattr(options, name) or [1]) > 1:
            raise ValueError(f"--{name.replace('_', '-')} has several values; --grid runs them all")


def _refuse_for_transformers(options: argparse.Namespace, overrides: List[str]) -> None:
    given = [f"--{name.replace('_', '-')}" for name in ("data", "gpt2", "sentencepiece", "cut", "from_scratch", "slurm") if getattr(options, name)]
    if given or overrides:
        raise ValueError(f"{(given + overrides)[0]} is given; it is for a checkpoint of fairseq, and {options.checkpoint} is not a file")
