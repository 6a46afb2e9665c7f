"""``fairseq-linformer evaluate``: a model on a task, on a file, or on text.

    fairseq-linformer evaluate runs/sst-2/checkpoints/checkpoint_best.pt data/sst-2
    fairseq-linformer evaluate runs/sst-2/checkpoints/checkpoint_best.pt reviews.tsv --predictions out.jsonl
    cat reviews.txt | fairseq-linformer evaluate runs/sst-2/checkpoints/checkpoint_best.pt - --predictions -
    fairseq-linformer evaluate textattack/roberta-base-SST-2 sst-2 --source hub
    fairseq-linformer evaluate checkpoints/base/checkpoint_best.pt --perplexity data/own/shard0
"""

import argparse
import json
import sys
from pathlib import Path

# Options by what they are for; None is not given.
_OF_FAIRSEQ = ("head", "dictionary", "labels", "gpt2", "sentencepiece", "cut")
_OF_ROWS = (
    "source", "split", "format", "text", "label", "predictions", "max_tokens", "batch_size", "max_positions",
    *_OF_FAIRSEQ,
)  # fmt: skip
_OF_PERPLEXITY = ("split", "seed", "positions", "mask_prob", "max_tokens")


def add_parser(commands) -> None:
    """Add ``evaluate``."""
    parser = commands.add_parser("evaluate", help="scores and predictions of a finetuned model; perplexity of another")
    parser.add_argument("checkpoint", metavar="CHECKPOINT",
                        help="of fairseq (a file), of transformers (a folder), or a name on the hub")  # fmt: skip
    parser.add_argument("what", nargs="?", metavar="TASK-OR-FILE",
                        help="a folder that prepare wrote, a file (.tsv with a header, .jsonl, .txt), - for standard "
                        "input, or a task such as sst-2 with --source")  # fmt: skip
    parser.add_argument("--perplexity", metavar="DATA-BIN",
                        help="instead: of masked tokens in this folder; --seed and the text fix the masks")  # fmt: skip
    parser.add_argument("--split", help="of the data (valid)")
    parser.add_argument("--device", help="cpu, cuda, ... (a GPU, if there is one)")
    parser.add_argument("--max-tokens", type=int, metavar="T", help="per batch, with padding; does not change results")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    rows = parser.add_argument_group("on a task or a file")
    rows.add_argument("--source", metavar="hub|PATH", help="of a task, as for prepare (hub)")
    rows.add_argument("--format", metavar="F",
                      help="of a file: tsv, jsonl or text, which has one text per line, or two with a tab between "
                      "(by the file's name; text on standard input)")  # fmt: skip
    rows.add_argument("--text", action="append", default=[], metavar="COLUMN",
                      help="with the text; twice for a pair (found by the names that the tasks use)")  # fmt: skip
    rows.add_argument("--label", metavar="COLUMN", help="with the label (found, if there is one)")
    rows.add_argument("--predictions", metavar="FILE", help="write them there, .tsv or .jsonl; - for standard output")
    rows.add_argument("--batch-size", type=int, metavar="B", help="rows per batch, at most; does not change results")
    rows.add_argument("--head", help="which classification head, if a checkpoint has several")
    rows.add_argument("--dictionary", metavar="FILE", help="dict.txt (beside the checkpoint)")
    rows.add_argument("--labels", metavar="FILE", help="dict.txt of the labels (label/dict.txt beside the checkpoint)")
    tokenizer = rows.add_mutually_exclusive_group()
    tokenizer.add_argument("--gpt2", metavar="FOLDER", help="encoder.json and vocab.bpe (beside the checkpoint)")
    tokenizer.add_argument("--sentencepiece", metavar="MODEL", help="(sentencepiece.bpe.model beside the checkpoint)")
    rows.add_argument("--cut", help="the part of a longer text to keep: head or head+tail (as in training)")
    rows.add_argument("--max-positions", type=int, metavar="N", help="of a model of transformers: cut longer texts")
    words = parser.add_argument_group("with --perplexity")
    words.add_argument("--seed", type=int, help="of the masks (1)")
    words.add_argument("--positions", type=int, metavar="N",
                       help="per block of text (the model's n); use one for models of different n")  # fmt: skip
    words.add_argument("--mask-prob", type=float, metavar="P", help="share of the tokens to predict (0.15)")
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace):
    from ..checkpoints.files import check_new_file

    _refuse(options)
    if options.json:
        others = [Path(path).resolve() for path in (options.predictions,) if path not in (None, "-")]
        if str(options.json) == "-" or options.json.resolve() in others:
            raise ValueError(f"--json is {options.json}; it must be a file of its own")
        check_new_file(options.json)
    numbers, report = _perplexity(options) if options.perplexity is not None else _rows(options)
    if options.json:
        from ..files import write_lines

        content = {"checkpoint": options.checkpoint, "on": options.what or options.perplexity, **numbers}
        write_lines(options.json, [json.dumps(content, indent=1)])
    if options.predictions != "-":
        return report
    print(report, file=sys.stderr)


def _refuse(options: argparse.Namespace) -> None:
    if (options.what is None) == (options.perplexity is None):
        raise ValueError("give either TASK-OR-FILE or --perplexity DATA-BIN")
    every = {name: getattr(options, name) for name in (*_OF_ROWS, *_OF_PERPLEXITY)}
    allowed, place = (_OF_ROWS, "for") if options.perplexity is None else (_OF_PERPLEXITY, "not for")
    for name, value in every.items():
        if value not in (None, []) and name not in allowed:
            raise ValueError(f"--{name.replace('_', '-')} is given; it is {place} --perplexity")


def _given(options: argparse.Namespace, *names: str) -> dict:
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _perplexity(options: argparse.Namespace):
    from ..evaluation.perplexity import measure

    found = measure(options.checkpoint, options.perplexity, device=_device(options), **_given(options, *_OF_PERPLEXITY))
    rate = found.tokens / max(found.seconds, 1e-9)
    report = (
        f"perplexity {found.perplexity:.2f} ({found.bits:.4f} bits per masked token), {100 * found.accuracy:.2f} % "
        f"right: {found.masked:,} of {found.tokens:,} masked, in blocks of {found.positions}, {rate:,.0f} tokens/s"
    )
    return vars(found), report


def _rows(options: argparse.Namespace):
    from ..checkpoints.files import is_fairseq
    from ..evaluation.evaluate import What, evaluate

    what = What(options.what, options.source, options.split, options.format, tuple(options.text), options.label)
    if is_fairseq(options.checkpoint):
        from ..evaluation.classifier import FairseqClassifier

        if options.max_positions is not None:
            hint = f"{options.checkpoint} is of fairseq, whose own n counts"
            raise ValueError(f"--max-positions is {options.max_positions}; {hint}")
        if not what.needs_tokenizer and (given := _given(options, "gpt2", "sentencepiece", "cut")):
            raise ValueError(f"--{next(iter(given))} is given; {options.what} is prepared and has tokens, not texts")
        files = _given(options, "head", "dictionary", "labels", "cut")
        classifier = FairseqClassifier(options.checkpoint, _device(options), **files)
        if classifier.names_assumed:
            assumed = "they are taken to be numbered as in their task, unless --labels FILE names them"
            print(f"nothing beside {options.checkpoint} names its classes; {assumed}", file=sys.stderr)
        if what.needs_tokenizer:
            classifier.use_tokenizer(options.gpt2, options.sentencepiece)
    else:
        from ..evaluation.transformers_classifier import TransformersClassifier

        if given := _given(options, *_OF_FAIRSEQ):
            hint = f"it is for a checkpoint of fairseq, and {options.checkpoint} is not a file"
            raise ValueError(f"--{next(iter(given))} is given; {hint}")
        classifier = TransformersClassifier(options.checkpoint, _device(options), options.max_positions)
    found = evaluate(classifier, what, options.predictions, **_given(options, "max_tokens", "batch_size"))
    return found.as_dict(), found.report()


def _device(options: argparse.Namespace) -> str:
    import torch

    if options.device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=options.device).item()
    except (RuntimeError, AssertionError):
        raise ValueError(f"--device is {options.device}; torch has no such device here") from None
    return options.device
