"""Score a finetuned model, predict with it, or compute masked-LM perplexity.

fairseq-linformer evaluate checkpoint_best.pt reviews.tsv --text-column review --predictions out.jsonl
fairseq-linformer evaluate checkpoint_best.pt --perplexity data/own/shard0
"""

import argparse
import json
import sys
from typing import Any

from ..data.tasks import TASKS
from .parsers import add_shared, check_taken, check_task_or_file, positive, take

STDOUT = "-"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    model = "fairseq checkpoint, run folder, folder of transformers or `export --onnx`, or name on the hub"
    add("checkpoint", metavar="CHECKPOINT", help=model)
    rows = (
        "folder that `prepare` wrote; file (.tsv or .csv with a header, .json, .jsonl, .parquet or .txt); - for "
        "standard input; or task, such as sst-2, to read from --source"
    )
    add("input", nargs="?", metavar="TASK-OR-FILE", help=rows)
    add("--perplexity", metavar="DATA-BIN", help="compute masked-LM perplexity on this folder instead")
    add("--split", help="split to evaluate (default: valid)")
    add_shared(parser, "--device")
    add("--max-tokens", type=positive, help="maximum tokens per batch (default: 8192, for perplexity 4096)")
    add("--json", metavar="FILE", help="also write the scores to this file, or -")
    _add_rows(parser.add_argument_group("tasks and files"))

    add = parser.add_argument_group("perplexity").add_argument
    add("--seed", type=int, metavar="S", help="seed of the masks (default: 1)")
    blocks = "tokens per block; models of different n are comparable only at the same value (default: the model's n)"
    add("--tokens-per-sample", type=int, metavar="N", help=blocks)
    add("--mask-prob", type=float, metavar="P", help="share of tokens to predict (default: 0.15)")


def _add_rows(group: Any) -> None:
    add_shared(group, "--source")
    formats = "text has an input per line, or a pair separated by a tab (default: by the file name; text for -)"
    group.add_argument("--format", choices=("tsv", "csv", "jsonl", "parquet", "text"), help=formats)
    add_shared(group, "--text-column", "--label-column")
    group.add_argument("--predictions", metavar="FILE", help="write predictions to a .tsv or .jsonl file, or -")
    add_shared(group, "--head", "--dictionary", "--labels", "--tokenizer")
    n = "longest input in tokens, for a model of transformers (default: the model's)"
    group.add_argument("--max-positions", type=int, metavar="N", help=n)
    long = group.add_mutually_exclusive_group()
    add_shared(long, "--truncation", help="part of an input longer than n to keep (default: as in training)")
    pieces = "score longer inputs in pieces of n tokens, S tokens apart, and average their logits (default: truncate)"
    long.add_argument("--stride", type=int, metavar="S", help=pieces)


def run(options: argparse.Namespace) -> str | None:
    if ("input" in options) == ("perplexity" in options):
        raise ValueError("either TASK-OR-FILE or --perplexity DATA-BIN is required, and not both")
    if "input" in options:
        check_task_or_file(options.input)  # before PyTorch is imported, which takes seconds
    import torch

    from ..checkpoints.identify import Kind, identify
    from ..files import check_new_file, write_json

    given = dict(vars(options))
    outputs = [given[name] for name in ("predictions", "json") if name in given]
    if len({*outputs}) < len(outputs):
        raise ValueError(f"--json must be a file other than --predictions, got {outputs[0]}")
    for path in outputs:
        if path != STDOUT:
            check_new_file(path)
    out, model = given.pop("json", None), identify(given.pop("checkpoint"))
    if model.kind is not Kind.ONNX:
        given.setdefault("device", "cuda" if torch.cuda.is_available() else "cpu")
    score, option = (_score_rows, "input") if "input" in given else (_compute_perplexity, "perplexity")
    content, report = score(model, given.pop(option), given)
    content = {"checkpoint": model.path, "on": getattr(options, option), **content}
    if out == STDOUT:
        print(json.dumps(content, indent=1))
    elif out:
        write_json(out, content)
    if STDOUT not in outputs:
        return report
    print(report, file=sys.stderr)
    return None


def _compute_perplexity(model: Any, data: str, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    from ..checkpoints.identify import Kind
    from ..evaluation.perplexity import compute_perplexity, format_perplexity

    model.check_kind(Kind.FAIRSEQ)
    settings = take(given, compute_perplexity)
    check_taken(given, "--perplexity")
    result = compute_perplexity(model.path, data, **settings)
    return result, format_perplexity(result)


def _score_rows(model: Any, name: str, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    from ..checkpoints.identify import Kind
    from ..evaluation.classifier import OnnxClassifier, TransformersClassifier
    from ..evaluation.encoded_rows import is_prepared, read_task
    from ..evaluation.evaluate import evaluate, format_report
    from ..evaluation.example_files import read_file
    from ..evaluation.predict import predict

    open_classifier: Any = OnnxClassifier if model.kind is Kind.ONNX else TransformersClassifier
    read: Any = read_task if name in TASKS else read_file
    if model.kind is Kind.FAIRSEQ:
        from ..evaluation.fairseq_classifier import FairseqClassifier  # the others do without fairseq

        open_classifier = FairseqClassifier
    if name not in TASKS and is_prepared(name):
        if model.kind is not Kind.FAIRSEQ:
            raise ValueError(f"{name} has token IDs of fairseq; evaluate {model.path} on a file, or on a task")
        from ..evaluation.fairseq_classifier import read_prepared_rows

        read = read_prepared_rows
        encoding = ("stride", "truncation", "tokenizer")  # its rows are tokenized and truncated
        check_taken({option: given[option] for option in encoding if option in given}, name)
    settings = take(given, predict) | take(given, evaluate)
    reader_options, model_options = take(given, read), take(given, open_classifier)
    check_taken(given, f"{name} with {model.path}, {model.kind}")
    classifier = open_classifier(model.path, **model_options)
    rows = read(classifier, name, **reader_options, truncated="stride" not in settings)
    result = evaluate(classifier, *rows, **settings)
    return result, format_report(result)
