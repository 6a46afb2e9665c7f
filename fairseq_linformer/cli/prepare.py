"""Prepare text, tokenizers and tasks for fairseq.

fairseq-linformer prepare pretraining data/own --source train.txt --tokenizer data/spm/spm.model
"""

import argparse
from pathlib import Path

from ..data.own_files import open_own
from ..data.sources import MAX_SHARDS, PRESETS, VALID_SHARE
from ..data.task_sources import open_source
from ..data.tasks import MAX_POSITIONS, OWN, TASKS, TRUNCATIONS
from ..files import check_data_path, check_new_folder
from .parsers import TOKENIZER, add_command, add_shared, positive, take, tokenizer_files

PRETRAINING, SENTENCEPIECE = "pretraining", "sentencepiece"
TEXTS = {
    PRETRAINING: """Prepare text for masked-LM pretraining, from files or the Hugging Face hub. Rerun after a kill: the
    cache of `datasets` (HF_DATASETS_CACHE) keeps finished stages.

    fairseq-linformer prepare pretraining data/own --source train.txt --tokenizer data/spm/spm.model
    fairseq-linformer prepare pretraining data/wiki --source wikipedia --source bookcorpusopen --tokenizer data/gpt2_bpe
    """,
    SENTENCEPIECE: """Train a sentencepiece model on a sample of text.

    fairseq-linformer prepare sentencepiece data/spm --source train.txt --vocab-size 8000""",
    **{
        task.name: f"""Prepare {task.name.upper()}, with {", ".join(task.class_names) or "scores"}. License:
        {task.license}.

        fairseq-linformer prepare {task.name} data/{task.name} --source hub --tokenizer data/spm/spm.model"""
        for task in TASKS.values()
    },
    OWN: """Prepare your own task, with classes or a score. Files are TSV (without quoting) or CSV with a header, JSON
    or parquet, also compressed. `finetune FILE` does the same for its checkpoint.

    fairseq-linformer prepare own data/own --train a.csv --valid b.csv --text-column text --tokenizer spm.model
    """,
}
"""Help texts of the kinds of data."""
SOURCE = (
    "file, folder or glob of text (a blank line between documents), JSON or parquet, also compressed (.gz, .bz2, "
    f".xz, .zst); hub:NAME; or one of {', '.join(PRESETS)}. Repeat for several sources. Settings follow after commas, "
    "such as column=body"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="data", required=True, metavar="DATA")
    for kind, text in TEXTS.items():
        command = add_command(kinds, kind, text)
        command.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
        (_add_text if kind in (PRETRAINING, SENTENCEPIECE) else _add_rows)(command, kind)


def _add_text(parser: argparse.ArgumentParser, kind: str) -> None:
    add = parser.add_argument
    add("--source", action="append", required=True, metavar="SOURCE", help=SOURCE)
    if kind == SENTENCEPIECE:
        add("--vocab-size", type=positive, required=True, metavar="V", help="vocabulary size, <unk> included")
        add("--fold-case", action="store_true", help="treat uppercase letters as lowercase")
        return
    tokenizer = parser.add_mutually_exclusive_group(required=True)
    add_shared(tokenizer, "--tokenizer", help=TOKENIZER)
    # Names of earlier versions, in scripts that compare token IDs with theirs.
    names = ("--sentencepiece-model", "--wordpiece")
    tokenizer.add_argument(*names, dest="tokenizer", type=tokenizer_files, help=argparse.SUPPRESS)
    add("--valid-share", type=float, default=VALID_SHARE, metavar="SHARE", help="share of documents for validation")
    shards = f"number of training shards, at most {MAX_SHARDS}; fairseq reads one per epoch"
    add("--shards", type=int, default=1, metavar="N", help=shards)
    add("--workers", type=positive, metavar="N", help="number of processes (default: one per CPU core)")


def _add_rows(parser: argparse.ArgumentParser, kind: str) -> None:
    add = parser.add_argument
    if kind == OWN:
        train = "training file; its labels, sorted, are the classes, or scores"
        add("--train", required=True, metavar="FILE", help=train)
        add_shared(parser, "--valid", "--text-column", "--label-column", "--regression")
    else:
        add_shared(parser, "--source", default="hub")
    add_shared(parser, "--tokenizer", required=True, help=TOKENIZER)
    n = "n, the longest input in tokens; longer rows are truncated"
    add("--max-positions", type=int, default=MAX_POSITIONS, metavar="N", help=n)
    add_shared(parser, "--truncation", default=TRUNCATIONS[0])
    for split in ("train", "valid"):
        add(f"--{split}-rows", type=positive, metavar="R", help=f"rows of {split} to select at random (default: all)")


def run(options: argparse.Namespace) -> str:
    given = dict(vars(options))
    kind, out, source = given.pop("data"), given.pop("out"), given.pop("source", None)
    check_new_folder(out)
    if kind == SENTENCEPIECE:
        from ..data.sentencepiece_model import prepare_sentencepiece

        return prepare_sentencepiece(out, source, **given)
    check_data_path(out, "OUT")
    tokenizer = given.pop("tokenizer")
    if kind == PRETRAINING:
        from ..data.pretraining import prepare_corpus

        return prepare_corpus(out, source, tokenizer, **given)
    from ..data.prepare_task import prepare_task, summarize_task
    from ..data.tokenizer import load_tokenizer

    if kind == OWN:
        task, files = open_own(**take(given, open_own))
    else:
        task, files = TASKS[kind], open_source(TASKS[kind], source)
    rows = {split: given.pop(f"{split}_rows") for split in ("train", "valid") if f"{split}_rows" in given}
    prepared = prepare_task(task, out, files, load_tokenizer(tokenizer), num_rows=rows, **given)
    return summarize_task(task, out, prepared)
