"""``fairseq-linformer prepare``: text, tokenizers and tasks in fairseq's formats."""

import argparse
from pathlib import Path

from ..data.own_files import open_own
from ..data.sources import MAX_SHARDS, PRESETS, VALID_SHARE
from ..data.task_sources import open_source
from ..data.tasks import MAX_POSITIONS, OWN, TASKS, TRUNCATIONS, Task
from ..data.tokenizer_files import open_tokenizer_files
from ..files import check_data_path, check_new_folder
from .parsers import TOKENIZER, add_command, add_shared, add_subcommands, positive

SOURCE = (
    "file, folder or glob of text (a blank line between documents), JSON or parquet, also compressed (.gz, .bz2, "
    f".xz, .zst); hub:NAME; or one of {', '.join(PRESETS)}. Repeat for several sources. Settings follow after commas, "
    "such as column=body"
)
OUT = "folder to write, new or empty"


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
    _add_text(parser)
    tokenizer = parser.add_mutually_exclusive_group(required=True)
    add_shared(tokenizer, "--tokenizer", help=TOKENIZER)
    # Names of earlier versions, in scripts that compare token IDs with theirs.
    tokenizer.add_argument("--sentencepiece-model", "--wordpiece", dest="tokenizer", help=argparse.SUPPRESS)
    add = parser.add_argument
    share = "share of documents in the validation split"
    add("--valid-share", type=float, default=VALID_SHARE, metavar="SHARE", help=share)
    shards = f"number of training shards, at most {MAX_SHARDS}; fairseq reads one per epoch"
    add("--shards", type=int, default=1, metavar="N", help=shards)
    add("--workers", type=positive, metavar="N", help="number of processes (default: one per CPU core)")
    parser.set_defaults(run=_pretraining)


def _add_text(parser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help=OUT)
    parser.add_argument("--source", action="append", required=True, metavar="SOURCE", help=SOURCE)


def _pretraining(options: argparse.Namespace) -> str:
    from ..data.pretraining import prepare_corpus

    _check_out(options.out)
    files = open_tokenizer_files(options.tokenizer)
    return prepare_corpus(options.out, options.source, files, options.valid_share, options.shards, options.workers)


def _add_sentencepiece(subcommands) -> None:
    parser = add_command(
        subcommands,
        "sentencepiece",
        "train a sentencepiece model on a sample of text",
        "prepare sentencepiece data/spm --source train.txt --vocab-size 8000",
    )
    _add_text(parser)
    add = parser.add_argument
    add("--vocab-size", type=positive, required=True, metavar="V", help="vocabulary size, <unk> included")
    add("--sample-mib", type=float, default=32, metavar="MIB", help="size of the training sample, in MiB")
    add("--model-type", choices=("bpe", "unigram"), default="bpe", help="sentencepiece model type")
    add("--fold-case", action="store_true", help="treat uppercase letters as lowercase")
    parser.set_defaults(run=_sentencepiece)


def _sentencepiece(options: argparse.Namespace) -> str:
    from ..data.sentencepiece_model import prepare_sentencepiece

    check_new_folder(options.out)
    sample = (options.sample_mib, options.model_type, options.fold_case)
    return prepare_sentencepiece(options.out, options.source, options.vocab_size, *sample)


def _add_task(subcommands, task: Task) -> None:
    parser = add_command(
        subcommands,
        task.name,
        f"prepare {task.name.upper()}, with {'scores' if task.score_range else ', '.join(task.class_names)}",
        f"prepare {task.name} data/{task.name} --source hub --tokenizer data/spm/spm.model",
        description=f"License: {task.license}.",
    )
    add_shared(parser, "--source", default="hub")
    _add_rows(parser)


def _add_own(subcommands) -> None:
    parser = add_command(
        subcommands,
        OWN,
        "prepare your own task, with classes or a score",
        "prepare own data/own --train a.csv --valid b.csv --text-column text --label-column label --tokenizer M",
        description="Files are TSV (without quoting) or CSV with a header, JSON or parquet, also compressed. `finetune "
        "FILE` does the same for its checkpoint.",
    )
    add = parser.add_argument
    add("--train", required=True, metavar="FILE", help="training file; its labels, sorted, are the classes, or scores")
    add_shared(parser, "--valid", "--text-column", "--label-column", "--regression")
    _add_rows(parser)


def _add_rows(parser) -> None:
    """Add the options of all tasks."""
    parser.add_argument("out", type=Path, metavar="OUT", help=OUT)
    add_shared(parser, "--tokenizer", required=True, help=TOKENIZER)
    n = "n, the longest input in tokens; longer rows are truncated"
    parser.add_argument("--max-positions", type=int, default=MAX_POSITIONS, metavar="N", help=n)
    add_shared(parser, "--truncation", default=TRUNCATIONS[0])
    for split in ("train", "valid"):
        rows = f"rows of {split} to select at random (default: all)"
        parser.add_argument(f"--{split}-rows", type=positive, metavar="R", help=rows)
    parser.set_defaults(run=_prepare)


def _prepare(options: argparse.Namespace) -> str:
    from ..data.prepare_task import prepare_task, summarize_task
    from ..data.tokenizer import load_tokenizer

    _check_out(options.out)
    if options.data == OWN:
        columns = options.text_column or (), options.label_column, options.regression
        task, source = open_own(options.train, options.valid, *columns)
    else:
        task = TASKS[options.data]
        source = open_source(task, options.source)
    num_rows = {split: rows for split in ("train", "valid") if (rows := getattr(options, f"{split}_rows")) is not None}
    tokenizer = load_tokenizer(open_tokenizer_files(options.tokenizer))
    limits = (options.max_positions, options.truncation, num_rows)
    return summarize_task(task, options.out, prepare_task(task, options.out, source, tokenizer, *limits))


def _check_out(out: Path) -> None:
    check_new_folder(out)
    check_data_path(out, "OUT")
