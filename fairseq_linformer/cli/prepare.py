"""``fairseq-linformer prepare``: text, tokenizers and tasks in fairseq's formats."""

import argparse
from pathlib import Path

from ..data.sources import MAX_SHARDS, PRESETS, VALID_SHARE
from ..data.task_sources import HELD_OUT_SHARE, TaskFiles, open_own, open_source
from ..data.tasks import OWN, TASKS, Task
from ..data.tokenizer_files import TokenizerFiles
from ..data.truncation import MAX_POSITIONS, TRUNCATIONS
from ..files import check_data_path, check_new_folder
from .parsers import add_columns, add_command, add_subcommands, add_tokenizer, add_truncation, tokenizer_files

SOURCE = (
    "file, folder or glob of text (a blank line between documents), JSON lines or parquet, also compressed (.gz, .bz2, "
    f".xz, .zst); hub:NAME; or one of {', '.join(PRESETS)}. Repeat for several sources. Settings follow after commas, "
    "such as column=body"
)


def add_parser(commands) -> None:
    """Add ``prepare`` and its subcommands."""
    prepare = add_command(
        commands,
        "prepare",
        "prepare text, tokenizers and tasks for fairseq",
        "prepare pretraining data/own --source train.txt --tokenizer data/spm/spm.model",
    )
    subcommands = add_subcommands(prepare, "data")
    _add_pretraining(subcommands)
    _add_sentencepiece(subcommands)
    for task in TASKS.values():
        _add_task(subcommands, task)
    _add_own(subcommands)


def _add_pretraining(subcommands) -> None:
    parser = add_command(
        subcommands,
        "pretraining",
        "prepare text for masked-LM pretraining, from files or the Hugging Face hub",
        """prepare pretraining data/own --source train.txt --tokenizer data/spm/spm.model
        prepare pretraining data/pretraining --source wikipedia --source bookcorpusopen --tokenizer data/gpt2_bpe""",
        description="Rerun after a kill: the cache of `datasets` (HF_DATASETS_CACHE) keeps finished stages.",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument("--source", action="append", required=True, metavar="SOURCE", help=SOURCE)
    add_tokenizer(parser)
    # Names of earlier versions, in scripts that compare token IDs with theirs.
    parser.add_argument("--sentencepiece-model", "--wordpiece", dest="tokenizer", help=argparse.SUPPRESS)
    parser.add_argument(
        "--valid-share",
        type=float,
        default=VALID_SHARE,
        metavar="SHARE",
        help="share of documents in the validation split",
    )
    parser.add_argument(
        "--shards",
        type=int,
        default=1,
        metavar="N",
        help=f"number of training shards, at most {MAX_SHARDS}; fairseq reads one per epoch",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="number of processes (default: one per CPU core)")
    parser.set_defaults(run=_pretraining)


def _add_sentencepiece(subcommands) -> None:
    parser = add_command(
        subcommands,
        "sentencepiece",
        "train a sentencepiece model on a sample of text",
        "prepare sentencepiece data/spm --source train.txt --vocab-size 8000",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument("--source", action="append", required=True, metavar="SOURCE", help=SOURCE)
    parser.add_argument("--vocab-size", type=int, required=True, metavar="V", help="vocabulary size, <unk> included")
    parser.add_argument(
        "--sample-mib", type=float, default=32, metavar="MIB", help="size of the training sample, in MiB"
    )
    parser.add_argument("--model-type", choices=("bpe", "unigram"), default="bpe", help="sentencepiece model type")
    parser.add_argument("--fold-case", action="store_true", help="treat uppercase letters as lowercase")
    parser.set_defaults(run=_sentencepiece)


def _pretraining(options: argparse.Namespace) -> str:
    from ..data.pretraining import prepare_corpus

    _check_out(options.out)
    files = _required_tokenizer(options)
    return prepare_corpus(options.out, options.source, files, options.valid_share, options.shards, options.workers)


def _required_tokenizer(options: argparse.Namespace) -> TokenizerFiles:
    files = tokenizer_files(options)
    return files or options.parser.error("the following arguments are required: --tokenizer")


def _sentencepiece(options: argparse.Namespace) -> str:
    from ..data.sentencepiece_model import prepare_sentencepiece

    check_new_folder(options.out)
    sample = (options.sample_mib, options.model_type, options.fold_case)
    return prepare_sentencepiece(options.out, options.source, options.vocab_size, *sample)


def _add_task(subcommands, task: Task) -> None:
    inputs = "sentence pairs" if task.num_inputs == 2 else "sentences"
    if task.score_range:
        labels = f"scores from {task.score_range[0]:g} to {task.score_range[1]:g}"
    else:
        labels = f"the classes {', '.join(task.class_names)}"
    parser = add_command(
        subcommands,
        task.name,
        f"prepare {task.name.upper()}: {inputs} with {labels}",
        f"prepare {task.name} data/{task.name} --source hub --tokenizer data/spm/spm.model",
        description=f"License: {task.license}.",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument("--source", default="hub", metavar="hub|PATH", help="hub, or a folder with the official files")
    _add_rows(parser)
    parser.set_defaults(run=_task)


def _add_own(subcommands) -> None:
    parser = add_command(
        subcommands,
        OWN,
        "prepare your own task of text classification",
        "prepare own data/own --train a.csv --valid b.csv --text-column text --label-column label --tokenizer M",
        description="Files are TSV (without quoting) or CSV with a header, JSON lines or parquet. `finetune FILE` does "
        "the same for its checkpoint.",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument(
        "--train", required=True, metavar="FILE", help="training file; its labels, sorted, are the classes"
    )
    held_out = f"validation file (default: {100 * HELD_OUT_SHARE:g} % of the training rows, by the hash of their text)"
    parser.add_argument("--valid", metavar="FILE", help=held_out)
    add_columns(parser)
    _add_rows(parser)
    parser.set_defaults(run=_own)


def _add_rows(parser) -> None:
    """Add the options of all tasks."""
    add_tokenizer(parser, required=True)
    parser.add_argument(
        "--max-positions",
        type=int,
        default=MAX_POSITIONS,
        metavar="N",
        help="n, the longest input in tokens; longer rows are truncated",
    )
    add_truncation(parser, TRUNCATIONS[0])
    for split in ("train", "valid"):
        parser.add_argument(
            f"--{split}-rows", type=int, metavar="R", help=f"rows of {split} to select at random (default: all)"
        )


def _task(options: argparse.Namespace) -> str:
    _check_out(options.out)
    task = TASKS[options.data]
    return _prepare(task, open_source(task, options.source), options)


def _own(options: argparse.Namespace) -> str:
    _check_out(options.out)
    return _prepare(*open_own(options.train, options.valid, options.text_column or (), options.label_column), options)


def _check_out(out: Path) -> None:
    check_new_folder(out)
    check_data_path(out, "OUT")


def _prepare(task: Task, source: TaskFiles, options: argparse.Namespace) -> str:
    from ..data.prepare_task import prepare_task, summarize_task
    from ..data.tokenizer import load_tokenizer

    num_rows = {split: rows for split in ("train", "valid") if (rows := getattr(options, f"{split}_rows")) is not None}
    limits = (options.max_positions, options.truncation, num_rows)
    manifest = prepare_task(task, options.out, source, load_tokenizer(_required_tokenizer(options)), *limits)
    return summarize_task(task, options.out, manifest)
