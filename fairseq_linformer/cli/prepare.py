"""``fairseq-linformer prepare``: data for fairseq's tasks.

    fairseq-linformer prepare pretraining data/pretraining --source wikipedia --gpt2 data/gpt2_bpe --shards 10
    fairseq-linformer prepare sentencepiece data/spm --source wikipedia --vocab-size 32000
    fairseq-linformer prepare qnli data/qnli --source hub --gpt2 data/gpt2_bpe
    fairseq-linformer prepare imdb data/imdb --source aclImdb_v1.tar.gz --sentencepiece spm.model --cut head+tail
"""

import argparse
from pathlib import Path
from typing import Tuple

from ..corpus.options import MAX_SKIPPED, Options
from ..corpus.sources import PRESETS
from ..task_data.cut import HOW, MAX_POSITIONS
from ..task_data.table import TASKS


def add_parser(commands) -> None:
    """Add ``prepare`` and what can be prepared."""
    prepare = commands.add_parser("prepare", help="data for fairseq's tasks")
    things = prepare.add_subparsers(dest="thing", required=True, metavar="WHAT")
    _add_pretraining(things)
    _add_sentencepiece(things)
    for task in TASKS.values():
        _add_task(things, task)


SOURCE = (
    "a file, a folder or a pattern (text with a blank line between documents, JSON lines or parquet; .gz, .bz2, .xz "
    f"and .zst too), hub:NAME, or one of {', '.join(PRESETS)}; repeat it for several. Keys follow after commas, such "
    "as column=body: see fairseq_linformer/corpus/sources.py"
)


def _add_pretraining(things) -> None:
    description = "Text for masked_lm. If it is killed, rerun it to resume."
    thing = things.add_parser("pretraining", help="text for masked_lm, from files and the hub", description=description)
    thing.add_argument("out", type=Path, metavar="OUT", help="folder: new, or one where the same was begun")
    thing.add_argument("--source", action="append", required=True, metavar="SOURCE", help=SOURCE)
    _add_tokenizer(thing)
    thing.add_argument("--valid-share", type=float, default=Options.valid_share, metavar="SHARE",
                       help="of the documents, for validation (%(default)s)")  # fmt: skip
    thing.add_argument("--shards", type=int, default=Options.shards,
                       help="folders that train is dealt out to; an epoch of fairseq is one (%(default)s)")  # fmt: skip
    thing.add_argument("--unique-paragraphs", action="store_true",
                       help="drop repeated paragraphs too; repeated documents are always dropped")  # fmt: skip
    thing.add_argument("--chunk-mib", type=float, default=Options.chunk_mib, metavar="MIB",
                       help="of a file of text, read by a process at once (%(default)s)")  # fmt: skip
    thing.add_argument("--max-skipped", type=float, default=MAX_SKIPPED, metavar="SHARE",
                       help="of the documents, how many may be skipped as no text (%(default)s)")  # fmt: skip
    thing.add_argument("--workers", type=int, metavar="N", help="processes (as many as there are processors)")
    only = thing.add_mutually_exclusive_group()
    only.add_argument("--part", type=_part, metavar="I/N",
                      help="tokenise every N-th chunk from the I-th on; the rest is for other machines")  # fmt: skip
    only.add_argument("--merge", action="store_true", help="put together what all parts have tokenised")
    thing.set_defaults(run=_pretraining)


def _add_sentencepiece(things) -> None:
    thing = things.add_parser("sentencepiece", help="a sentencepiece model, trained on a sample")
    thing.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    thing.add_argument("--source", action="append", required=True, metavar="SOURCE", help=SOURCE)
    thing.add_argument("--vocab-size", type=int, required=True, metavar="V", help="pieces, <unk> included")
    thing.add_argument("--sample-mib", type=float, default=32, metavar="MIB", help="of training text (%(default)s)")
    thing.add_argument("--model-type", choices=("bpe", "unigram"), default="bpe")
    thing.add_argument("--fold-case", action="store_true", help="take upper case for lower case")
    thing.set_defaults(run=_sentencepiece)


def _add_tokenizer(thing) -> None:
    tokenizer = thing.add_mutually_exclusive_group(required=True)
    tokenizer.add_argument("--gpt2", metavar="FOLDER", help="GPT-2's BPE: encoder.json, vocab.bpe and dict.txt")
    tokenizer.add_argument("--sentencepiece", metavar="MODEL", help="a sentencepiece model")


def _part(text: str) -> Tuple[int, int]:
    i, slash, n = text.partition("/")
    if not (slash and (i + n).isascii() and i.isdigit() and n.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N, such as 3/8")
    return int(i), int(n)


def _pretraining(options: argparse.Namespace) -> str:
    from ..corpus.pretraining import prepare

    names = ("gpt2", "sentencepiece", "valid_share", "shards", "unique_paragraphs", "chunk_mib", "max_skipped")
    what = Options(tuple(options.source), **{name: getattr(options, name) for name in names})
    return prepare(options.out, what, options.workers, options.part, options.merge)


def _sentencepiece(options: argparse.Namespace) -> str:
    from ..corpus.sample import train

    sample = (options.sample_mib, options.model_type, options.fold_case)
    return train(options.out, options.source, options.vocab_size, *sample)


def _add_task(things, task) -> None:
    what = "pairs of texts" if task.inputs == 2 else "texts"
    classes = ", ".join(task.names) if task.classes else f"a score from {task.score[0]:g} to {task.score[1]:g}"
    says = f"{what}: {classes}"
    thing = things.add_parser(task.name, help=says, description=f"{says}. Licence: {task.licence}.")
    thing.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    thing.add_argument("--source", default="hub", metavar="hub|PATH",
                       help="hub (default), or the official files, a folder or an archive")  # fmt: skip
    _add_tokenizer(thing)
    thing.add_argument("--max-positions", type=int, default=MAX_POSITIONS, metavar="N",
                       help="n; longer rows are cut (%(default)s)")  # fmt: skip
    thing.add_argument("--cut", choices=HOW, default=HOW[0], help="the part of a longer text to keep (%(default)s)")
    thing.add_argument("--max-skipped", type=float, default=MAX_SKIPPED, metavar="SHARE",
                       help="of the rows of a split, how many may be skipped as unusable (%(default)s)")  # fmt: skip
    thing.set_defaults(run=_task)


def _task(options: argparse.Namespace) -> str:
    from ..corpus.tokenizer import load_tokenizer
    from ..task_data.manifest import summary
    from ..task_data.prepare import prepare

    task = TASKS[options.thing]
    tokenizer = load_tokenizer(options.gpt2, options.sentencepiece)
    limits = (options.max_positions, options.cut, options.max_skipped)
    manifest = prepare(task, options.out, options.source, tokenizer, *limits)
    return summary(task, options.out, manifest)
