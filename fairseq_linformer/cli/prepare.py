"""``fairseq-linformer prepare``: data for fairseq's tasks.

    fairseq-linformer prepare qnli data/qnli --source hub --gpt2 data/gpt2_bpe
    fairseq-linformer prepare imdb data/imdb --source aclImdb_v1.tar.gz --sentencepiece data/spm/spm.model --cut head+tail
"""

import argparse
from pathlib import Path

from ..task_data.cut import HOW
from ..task_data.table import TASKS


def add_parser(commands) -> None:
    """Add ``prepare`` and what can be prepared."""
    prepare = commands.add_parser("prepare", help="data for fairseq's tasks")
    things = prepare.add_subparsers(dest="thing", required=True, metavar="WHAT")
    for task in TASKS.values():
        _add_task(things, task)


def _add_task(things, task) -> None:
    what = "pairs of texts" if task.inputs == 2 else "texts"
    classes = ", ".join(task.names) if task.classes else f"a score from {task.score[0]:g} to {task.score[1]:g}"
    says = f"{what}: {classes}"
    thing = things.add_parser(task.name, help=says, description=f"{says}. Licence: {task.licence}.")
    thing.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    thing.add_argument("--source", default="hub", metavar="hub|PATH",
                       help="hub (default), or the official files, a folder or an archive; a folder named hub is ./hub")  # fmt: skip
    tokenizer = thing.add_mutually_exclusive_group(required=True)
    tokenizer.add_argument("--gpt2", type=Path, metavar="FOLDER", help="GPT-2's BPE: encoder.json, vocab.bpe, fairseq's dict.txt")
    tokenizer.add_argument("--sentencepiece", type=Path, metavar="MODEL", help="a sentencepiece model")
    thing.add_argument("--max-positions", type=int, default=512, metavar="N", help="n; longer rows are cut (512 if left out)")
    thing.add_argument("--cut", choices=HOW, default="head", help="what stays of a text that is cut; head if left out")
    thing.add_argument("--max-skipped", type=float, default=0.01, metavar="SHARE",
                       help="of the rows of a split, how many may be skipped because they cannot be used (0.01 if left out)")  # fmt: skip
    thing.set_defaults(run=_task)


def _task(options: argparse.Namespace) -> str:
    from ..corpus.tokenizer import GPT2, SentencePiece
    from ..task_data.manifest import summary
    from ..task_data.prepare import prepare

    task = TASKS[options.thing]
    tokenizer = GPT2(options.gpt2) if options.gpt2 else SentencePiece(options.sentencepiece)
    manifest = prepare(task, options.out, options.source, tokenizer, options.max_positions, options.cut, options.max_skipped)
    return summary(task, options.out, manifest)
