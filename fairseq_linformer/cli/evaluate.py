"""``fairseq-linformer evaluate``: scores, predictions and masked-LM perplexity."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .parsers import (
    add_command,
    add_shared,
    check_options,
    check_task_or_file,
    explicit_options,
    positive,
    tokenizer_files,
)

STDOUT = "-"
_ROWS, _TEXT = ("predictions", "max_positions", "head", "dictionary", "labels"), ("stride", "truncation", "tokenizer")
INPUTS: dict[str, Sequence[str]] = {
    "the text of --perplexity": ("split", "seed", "tokens_per_sample", "mask_prob"),
    "a task": ("source", "split", *_TEXT, *_ROWS),
    "prepared data": ("split", *_ROWS),
    "a file": ("format", "text_column", "label_column", *_TEXT, *_ROWS),
}
MODELS: dict[str, Sequence[str]] = {
    "a fairseq checkpoint": ("head", "dictionary", "labels", "truncation", "tokenizer", "device"),
    "a model of transformers": ("max_positions", "device"),
    "an ONNX folder": (),
}
"""Options, by what they apply to."""


def add_parser(commands) -> None:
    """Add ``evaluate``."""
    parser = add_command(
        commands,
        "evaluate",
        "score a finetuned model, predict with it, or compute masked-LM perplexity",
        """evaluate runs/finetune/sst-2-base data/sst-2
        evaluate checkpoint_best.pt reviews.tsv --text-column review --predictions out.jsonl
        evaluate checkpoint_best.pt --perplexity data/own/shard0""",
    )
    model = "fairseq checkpoint, run folder, folder of transformers or `export --onnx`, or name on the hub"
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=model)
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument(
        "input",
        nargs="?",
        metavar="TASK-OR-FILE",
        help="folder that `prepare` wrote; file (.tsv or .csv with a header, .json, .jsonl, .parquet or .txt); - for "
        "standard input; or task, such as sst-2, to read from --source",
    )
    data.add_argument("--perplexity", metavar="DATA-BIN", help="compute masked-LM perplexity on this folder instead")
    parser.add_argument("--split", help="split to evaluate (default: valid)")
    add_shared(parser, "--device")
    parser.add_argument(
        "--max-tokens", type=positive, metavar="T", help="maximum tokens per batch (default: 8192, for perplexity 4096)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the scores to this file, or -")

    rows = parser.add_argument_group("tasks and files")
    add_shared(rows, "--source")
    rows.add_argument(
        "--format",
        choices=("tsv", "csv", "jsonl", "parquet", "text"),
        help="text has an input per line, or a pair separated by a tab (default: by the file name; text for -)",
    )
    add_shared(rows, "--text-column", "--label-column")
    rows.add_argument("--predictions", metavar="FILE", help="write predictions to a .tsv or .jsonl file, or -")
    add_shared(rows, "--head", "--dictionary", "--labels", "--tokenizer")
    n = "longest input in tokens, for a model of transformers (default: the model's)"
    rows.add_argument("--max-positions", type=int, metavar="N", help=n)
    long = rows.add_mutually_exclusive_group()
    add_shared(long, "--truncation", help="part of an input longer than n to keep (default: as in training)")
    spans = "score longer inputs in spans of n tokens, S tokens apart, and average their logits (default: truncate)"
    long.add_argument("--stride", type=int, metavar="S", help=spans)

    perplexity = parser.add_argument_group("perplexity")
    perplexity.add_argument("--seed", type=int, metavar="S", help="seed of the masks (default: 1)")
    blocks = "tokens per block; models of different n are comparable only at the same value (default: the model's n)"
    perplexity.add_argument("--tokens-per-sample", type=int, metavar="N", help=blocks)
    perplexity.add_argument("--mask-prob", type=float, metavar="P", help="share of tokens to predict (default: 0.15)")
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> str | None:
    if options.input:
        check_task_or_file(options.input)  # before PyTorch is imported, which takes seconds
    from ..checkpoints.files import check_new_file
    from ..checkpoints.identify import identify
    from ..files import write_json

    outputs = [path for path in (options.predictions, options.json) if path is not None]
    for path in outputs:
        if path != STDOUT:
            check_new_file(path)
    if len({Path(path).resolve() for path in outputs}) < len(outputs):
        raise ValueError(f"--json must be a file other than --predictions, got {options.json}")
    model = identify(options.checkpoint)
    content, report = _compute_perplexity(options, model) if options.perplexity else _score_rows(options, model)
    content = {"checkpoint": model.path, "on": options.input or options.perplexity, **content}
    if options.json == STDOUT:
        print(json.dumps(content, indent=1))
    elif options.json:
        write_json(options.json, content)
    if STDOUT not in outputs:
        return report
    print(report, file=sys.stderr)
    return None


def _compute_perplexity(options: argparse.Namespace, model: Any) -> tuple[dict, str]:
    from ..checkpoints.identify import Kind
    from ..evaluation.perplexity import compute_perplexity

    check_options(options, INPUTS, "the text of --perplexity", options.perplexity)
    model.check_kind(Kind.FAIRSEQ)
    settings = explicit_options(options, (*INPUTS["the text of --perplexity"], "max_tokens"))
    result = compute_perplexity(model.path, options.perplexity, device=_choose_device(options), **settings)
    rate = result["tokens"] / max(result["seconds"], 1e-9)
    report = (
        f"perplexity {result['perplexity']:.2f} ({result['bits']:.4f} bits per masked token), "
        f"accuracy {100 * result['accuracy']:.2f} %: {result['masked']:,} of {result['tokens']:,} tokens masked, "
        f"in blocks of {result['positions']}, {rate:,.0f} tokens/s"
    )
    return result, report


def _score_rows(options: argparse.Namespace, model: Any) -> tuple[dict, str]:
    from ..checkpoints.identify import Kind
    from ..data.tasks import TASKS
    from ..evaluation.encoded_rows import encode_examples, is_prepared, read_published_rows
    from ..evaluation.evaluate import evaluate, format_report
    from ..evaluation.example_files import STDIN, read_examples

    name, split, truncated, total = options.input, options.split or "valid", options.stride is None, None
    kind = "a task" if name in TASKS else "prepared data" if is_prepared(name) else "a file"
    if kind == "a file" and name != STDIN and not Path(name).is_file():
        raise ValueError(f"{name} must be a file, or a folder that `prepare` wrote for a task")
    check_options(options, INPUTS, kind, name)
    if kind == "prepared data" and model.kind is not Kind.FAIRSEQ:
        tokens = f"{name} has fairseq's token IDs, which {model.path} cannot read"
        raise ValueError(f"{tokens}; pass the task with --source, or a file")
    classifier = _open_classifier(options, model)
    if kind == "a task":
        published = read_published_rows(TASKS[name], options.source or "hub", split)
        total, rows = len(published), encode_examples(classifier, published, TASKS[name], truncated)
    elif kind == "prepared data":
        from ..evaluation.fairseq_classifier import read_prepared_rows

        total, rows = read_prepared_rows(classifier, name, split)
    else:
        inputs, columns = classifier.num_inputs if truncated else 1, (options.text_column or (), options.label_column)
        examples = read_examples(name, options.format, *columns, inputs, classifier.columns)
        rows = encode_examples(classifier, examples, truncated=truncated)
    limits = explicit_options(options, ("max_tokens", "stride"))
    result = evaluate(classifier, rows, options.predictions, total=total, **limits)
    return result, format_report(result)


def _open_classifier(options: argparse.Namespace, model: Any) -> Any:
    from ..checkpoints.identify import Kind

    kind, path = model
    check_options(options, MODELS, kind, path)
    if kind is Kind.FAIRSEQ:
        from ..evaluation.fairseq_classifier import FairseqClassifier  # the others do without fairseq

        files = explicit_options(options, ("head", "dictionary", "labels", "truncation"))
        return FairseqClassifier(path, _choose_device(options), tokenizer=tokenizer_files(options), **files)
    from ..evaluation.classifier import OnnxClassifier, TransformersClassifier

    if kind is Kind.ONNX:
        return OnnxClassifier(path)
    return TransformersClassifier(path, _choose_device(options), options.max_positions)


def _choose_device(options: argparse.Namespace) -> str:
    import torch

    return options.device or ("cuda" if torch.cuda.is_available() else "cpu")
