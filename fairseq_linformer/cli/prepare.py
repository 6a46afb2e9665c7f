"""``fairseq-linformer prepare``: text, tokenizers and tasks in fairseq's formats."""

import argparse
from pathlib import Path

from ..data.options import MAX_SKIPPED, CorpusOptions
from ..data.sources import PRESETS
from ..data.tasks import TASKS
from ..data.truncation import MAX_POSITIONS, TRUNCATIONS
from .parsers import add_command, add_subcommands, add_tokenizer, add_truncation, tokenizer_files

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
        "prepare pretraining data/own --source train.txt --sentencepiece-model data/spm/spm.model",
    )
    subcommands = add_subcommands(prepare, "data")
    _add_pretraining(subcommands)
    _add_sentencepiece(subcommands)
    for task in TASKS.values():
        _add_task(subcommands, task)


def _add_pretraining(subcommands) -> None:
    parser = add_command(
        subcommands,
        "pretraining",
        "prepare text for masked-LM pretraining, from files or the Hugging Face hub",
        """prepare pretraining data/own --source train.txt --sentencepiece-model data/spm/spm.model
        prepare pretraining data/pretraining --source wikipedia --source bookcorpusopen --gpt2-bpe data/gpt2_bpe""",
        description="Rerun to resume.",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write or to resume")
    parser.add_argument("--source", action="append", required=True, metavar="SOURCE", help=SOURCE)
    add_tokenizer(parser, required=True)
    defaults = CorpusOptions
    parser.add_argument(
        "--valid-share",
        type=float,
        default=defaults.valid_share,
        metavar="SHARE",
        help="share of documents in the validation split",
    )
    parser.add_argument(
        "--shards",
        type=int,
        default=defaults.shards,
        metavar="N",
        help="number of training shards; fairseq reads one per epoch",
    )
    parser.add_argument(
        "--unique-paragraphs",
        action="store_true",
        help="also drop duplicate paragraphs; duplicate documents are always dropped",
    )
    parser.add_argument(
        "--chunk-mib",
        type=float,
        default=defaults.chunk_mib,
        metavar="MIB",
        help="size of the chunks that a process reads, in MiB",
    )
    parser.add_argument(
        "--max-skipped",
        type=float,
        default=MAX_SKIPPED,
        metavar="SHARE",
        help="maximum share of documents of a source that may be skipped as unusable",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="number of processes (default: one per CPU core)")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--part", type=_parse_part, metavar="I/N", help="tokenize part I of N, with one part per machine")
    part.add_argument("--merge", action="store_true", help="merge the parts when all are tokenized")
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


def _parse_part(text: str) -> tuple[int, int]:
    i, slash, n = text.partition("/")
    if not (slash and (i + n).isascii() and i.isdigit() and n.isdigit()):
        raise argparse.ArgumentTypeError(f"must be I/N, such as 3/8, got {text!r}")
    return int(i), int(n)


def _pretraining(options: argparse.Namespace) -> str:
    from ..data.pretraining import prepare_corpus

    names = ("valid_share", "shards", "unique_paragraphs", "chunk_mib", "max_skipped")
    tokenizer = {
        "gpt2": options.gpt2_bpe,
        "sentencepiece": options.sentencepiece_model,
        "tokenizer_json": options.tokenizer_json,
    }
    corpus = CorpusOptions(tuple(options.source), **tokenizer, **{name: getattr(options, name) for name in names})
    return prepare_corpus(options.out, corpus, options.workers, options.part, options.merge)


def _sentencepiece(options: argparse.Namespace) -> str:
    from ..data.sentencepiece_training import prepare_sentencepiece

    sample = (options.sample_mib, options.model_type, options.fold_case)
    return prepare_sentencepiece(options.out, options.source, options.vocab_size, *sample)


def _add_task(subcommands, task) -> None:
    inputs = "sentence pairs" if task.num_inputs == 2 else "sentences"
    if task.classes:
        labels = f"the classes {', '.join(task.class_names)}"
    else:
        labels = f"scores from {task.score_range[0]:g} to {task.score_range[1]:g}"
    example = f"prepare {task.name} data/{task.name} --source hub --sentencepiece-model data/spm/spm.model"
    description = f"License: {task.license}."
    parser = add_command(
        subcommands, task.name, f"prepare {task.name.upper()}: {inputs} with {labels}", example, description=description
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument(
        "--source", default="hub", metavar="hub|PATH", help="hub, or the official files in a folder or archive"
    )
    add_tokenizer(parser, required=True)
    parser.add_argument(
        "--max-positions",
        type=int,
        default=MAX_POSITIONS,
        metavar="N",
        help="n, the longest input in tokens; longer rows are truncated",
    )
    add_truncation(parser, TRUNCATIONS[0])
    parser.add_argument(
        "--max-skipped",
        type=float,
        default=MAX_SKIPPED,
        metavar="SHARE",
        help="maximum share of rows of a split that may be skipped as unusable",
    )
    for split in ("train", "valid"):
        parser.add_argument(
            f"--{split}-rows", type=int, metavar="R", help=f"rows of {split} to select at random (default: all)"
        )
    parser.set_defaults(run=_task)


def _task(options: argparse.Namespace) -> str:
    from ..data.prepare_task import prepare_task
    from ..data.task_manifest import summarize_task
    from ..data.tokenizer import load_tokenizer

    task = TASKS[options.data]
    files = tokenizer_files(options)
    assert files is not None  # one of the options is required
    tokenizer = load_tokenizer(files)
    limits = (options.max_positions, options.truncation, options.max_skipped)
    num_rows = {split: rows for split in ("train", "valid") if (rows := getattr(options, f"{split}_rows")) is not None}
    manifest = prepare_task(task, options.out, options.source, tokenizer, *limits, num_rows)
    return summarize_task(task, options.out, manifest)
