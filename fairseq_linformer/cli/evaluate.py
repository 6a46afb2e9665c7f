"""``fairseq-linformer evaluate``: scores, predictions and masked-LM perplexity."""

import argparse
import sys
from pathlib import Path
from typing import Any

from .parsers import (
    add_command,
    add_device,
    add_tokenizer,
    add_truncation,
    explicit_options,
    reject_options,
    tokenizer_files,
)

FAIRSEQ_OPTIONS = ("head", "dictionary", "labels", "truncation", "tokenizer")
FILE_OPTIONS = ("format", "text_column", "label_column")
ROW_OPTIONS = ("source", *FILE_OPTIONS, "predictions", "max_positions", "stride", *FAIRSEQ_OPTIONS)
PERPLEXITY_OPTIONS = ("seed", "tokens_per_sample", "mask_prob")


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
        help="folder that `prepare` wrote; file (.tsv or .csv with a header, .jsonl, .parquet or .txt); - for standard "
        "input; or task, such as sst-2, to read from --source",
    )
    data.add_argument("--perplexity", metavar="DATA-BIN", help="compute masked-LM perplexity on this folder instead")
    parser.add_argument("--split", help="split to evaluate (default: valid)")
    add_device(parser, note=" (default: cuda if available)")
    parser.add_argument(
        "--max-tokens", type=int, metavar="T", help="maximum tokens per batch (default: 8192, for perplexity 4096)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the scores to this file")

    rows = parser.add_argument_group("tasks and files")
    rows.add_argument("--source", metavar="hub|PATH", help="hub, or a folder with the official files (default: hub)")
    rows.add_argument(
        "--format",
        choices=("tsv", "csv", "jsonl", "parquet", "text"),
        help="text has an input per line, or a pair separated by a tab (default: by the file name; text for -)",
    )
    inferred = "(default: recognized by name)"
    rows.add_argument("--text-column", action="append", metavar="COLUMN", help=f"text; repeat for pairs {inferred}")
    rows.add_argument("--label-column", metavar="COLUMN", help=f"label {inferred}")
    rows.add_argument("--predictions", metavar="FILE", help="write predictions to a .tsv or .jsonl file, or -")
    rows.add_argument("--head", metavar="NAME", help="classification head (default: the only one)")
    next_to = "next to CHECKPOINT"
    rows.add_argument("--dictionary", metavar="FILE", help=f"fairseq's dict.txt (default: {next_to})")
    rows.add_argument("--labels", metavar="FILE", help=f"dict.txt of the labels (default: label/dict.txt {next_to})")
    add_tokenizer(rows, default=next_to)
    n = "longest input in tokens, for a model of transformers (default: the model's)"
    rows.add_argument("--max-positions", type=int, metavar="N", help=n)
    long = rows.add_mutually_exclusive_group()
    add_truncation(long, None, " (default: as in training)")
    spans = "score longer inputs in spans of n tokens, S tokens apart, and average their logits (default: truncate)"
    long.add_argument("--stride", type=int, metavar="S", help=spans)

    perplexity = parser.add_argument_group("perplexity")
    perplexity.add_argument("--seed", type=int, metavar="S", help="seed of the masks (default: 1)")
    blocks = "tokens per block; models of different n are comparable only at the same value (default: the model's n)"
    perplexity.add_argument("--tokens-per-sample", type=int, metavar="N", help=blocks)
    perplexity.add_argument("--mask-prob", type=float, metavar="P", help="share of tokens to predict (default: 0.15)")
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> str | None:
    from ..checkpoints.files import check_new_file, find_checkpoint
    from ..files import write_json

    if options.max_tokens is not None and options.max_tokens < 1:
        raise ValueError(f"--max-tokens must be at least 1, got {options.max_tokens}")
    outputs = [Path(path) for path in (options.predictions, options.json) if path not in (None, "-")]
    for path in outputs:
        check_new_file(path)
    if len(outputs) == 2 and outputs[0].resolve() == outputs[1].resolve():
        raise ValueError(f"--json must be a file other than --predictions, got {options.json}")
    options.checkpoint = find_checkpoint(options.checkpoint)
    content, report = _compute_perplexity(options) if options.perplexity else _score_rows(options)
    if options.json:
        source = {"checkpoint": options.checkpoint, "on": options.input or options.perplexity}
        write_json(options.json, {**source, **content})
    if options.predictions != "-":
        return report
    print(report, file=sys.stderr)
    return None


def _compute_perplexity(options: argparse.Namespace) -> tuple[dict, str]:
    from ..evaluation.perplexity import compute_perplexity

    reject_options(options, ROW_OPTIONS, "cannot be used with --perplexity")
    settings = explicit_options(options, ("split", "seed", "mask_prob", "max_tokens"))
    result = compute_perplexity(
        options.checkpoint,
        options.perplexity,
        positions=options.tokens_per_sample,
        device=_choose_device(options),
        **settings,
    )
    rate = result.tokens / max(result.seconds, 1e-9)
    report = (
        f"perplexity {result.perplexity:.2f} ({result.bits:.4f} bits per masked token), "
        f"accuracy {100 * result.accuracy:.2f} %: {result.masked:,} of {result.tokens:,} tokens masked, "
        f"in blocks of {result.positions}, {rate:,.0f} tokens/s"
    )
    return vars(result), report


def _score_rows(options: argparse.Namespace) -> tuple[dict, str]:
    from ..evaluation.evaluate import evaluate, format_report

    reject_options(options, PERPLEXITY_OPTIONS, "needs --perplexity")
    classifier = _open_classifier(options)
    total, rows = _open_rows(options, classifier)
    limits = explicit_options(options, ("max_tokens", "stride"))
    result = evaluate(classifier, rows, options.predictions, total=total, **limits)
    return result, format_report(result)


def _open_classifier(options: argparse.Namespace) -> Any:
    from ..checkpoints.files import is_fairseq_checkpoint, is_onnx_folder
    from ..evaluation.classifier import FairseqClassifier, OnnxClassifier, TransformersClassifier

    checkpoint = options.checkpoint
    if is_fairseq_checkpoint(checkpoint):
        reject_options(options, ("max_positions",), f"needs a model of transformers, got {checkpoint}")
        files = explicit_options(options, ("head", "dictionary", "labels", "truncation"))
        return FairseqClassifier(checkpoint, _choose_device(options), tokenizer=tokenizer_files(options), **files)
    reject_options(options, FAIRSEQ_OPTIONS, f"needs a fairseq checkpoint, got {checkpoint}")
    if is_onnx_folder(checkpoint):
        reject_options(options, ("device", "max_positions"), f"does not apply to the ONNX folder {checkpoint}")
        return OnnxClassifier(checkpoint)
    return TransformersClassifier(checkpoint, _choose_device(options), options.max_positions)


def _open_rows(options: argparse.Namespace, classifier: Any) -> tuple[int | None, Any]:
    """The number of rows, or None if unknown, and the rows."""
    from ..data.tasks import TASKS
    from ..evaluation import encoded_rows
    from ..evaluation.example_files import STDIN, read_examples

    name, split, truncated = options.input, options.split or "valid", options.stride is None
    if name in TASKS:
        reject_options(options, FILE_OPTIONS, f"does not apply to {name}, which is a task")
        published = encoded_rows.read_published_rows(TASKS[name], options.source or "hub", split)
        return len(published), encoded_rows.encode_rows(classifier, published, TASKS[name], truncated)
    if encoded_rows.is_prepared(name):
        text_options = ("source", *FILE_OPTIONS, "stride", "truncation", "tokenizer")
        reject_options(options, text_options, f"does not apply to {name}, which is prepared")
        return encoded_rows.read_prepared_rows(classifier, name, split)
    reject_options(options, ("source", "split"), f"does not apply to {name}, which is a file")
    if name != STDIN and not Path(name).is_file():
        tasks = ", ".join(TASKS)
        raise ValueError(f"unknown task or file {name!r}; choose from {tasks}, a prepared folder or a file")
    inputs = classifier.num_inputs if truncated else 1
    examples = read_examples(name, options.format, options.text_column or (), options.label_column, inputs)
    return None, encoded_rows.encode_rows(classifier, examples, truncated=truncated)


def _choose_device(options: argparse.Namespace) -> str:
    import torch

    return options.device or ("cuda" if torch.cuda.is_available() else "cpu")
