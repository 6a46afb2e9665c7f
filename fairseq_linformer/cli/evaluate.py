"""``fairseq-linformer evaluate``: scores, predictions and masked-LM perplexity."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from .parsers import add_command, add_tokenizer, add_truncation, explicit_options, flag_of, tokenizer_files

FAIRSEQ_OPTIONS = ("head", "dictionary", "labels", "gpt2_bpe", "sentencepiece_model", "tokenizer_json", "truncation")
"""Options for fairseq checkpoints."""
ROW_OPTIONS = (
    "source",
    "split",
    "format",
    "text_column",
    "label_column",
    "predictions",
    "max_tokens",
    "batch_size",
    "max_positions",
    "stride",
    *FAIRSEQ_OPTIONS,
)
"""Options for tasks and files."""
PERPLEXITY_OPTIONS = ("split", "seed", "tokens_per_sample", "mask_prob", "max_tokens")


def add_parser(commands) -> None:
    """Add ``evaluate``."""
    parser = add_command(
        commands,
        "evaluate",
        "score a finetuned model, predict with it, or compute masked-LM perplexity",
        """evaluate runs/finetune/sst-2-base/checkpoints/checkpoint_best.pt data/sst-2
        evaluate checkpoint_best.pt reviews.tsv --text-column review --predictions out.jsonl
        evaluate checkpoint_best.pt --perplexity data/own/shard0""",
    )
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="fairseq checkpoint, folder of transformers or `export --onnx`, or model name on the Hugging Face hub",
    )
    parser.add_argument(
        "input",
        nargs="?",
        metavar="TASK-OR-FILE",
        help="folder that `prepare` wrote; file (.tsv or .csv with a header, .jsonl, .parquet or .txt); - for standard "
        "input; or task, such as sst-2, to read from --source",
    )
    parser.add_argument(
        "--perplexity", metavar="DATA-BIN", help="compute masked-LM perplexity on this folder that `prepare` wrote"
    )
    parser.add_argument("--split", help="split to evaluate (default: valid)")
    parser.add_argument("--device", help="device: cpu, cuda or cuda:N (default: cuda if available)")
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="T",
        help="maximum tokens per batch; only results of int8 graphs depend on it (default: 8192, for perplexity 4096)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the scores to this file")
    rows = parser.add_argument_group("tasks and files")
    rows.add_argument("--source", metavar="hub|PATH", help="hub, or a folder with the official files (default: hub)")
    rows.add_argument(
        "--format",
        metavar="F",
        help="tsv, csv, jsonl, parquet or text, with one input per line or a pair separated by a tab (default: from "
        "the file name; text for standard input)",
    )
    rows.add_argument(
        "--text-column",
        action="append",
        default=[],
        metavar="COLUMN",
        help="column of the text; repeat for pairs (default: recognized by name)",
    )
    rows.add_argument("--label-column", metavar="COLUMN", help="column of the label (default: recognized by name)")
    rows.add_argument(
        "--predictions", metavar="FILE", help="write predictions to this .tsv or .jsonl file, or - for standard output"
    )
    rows.add_argument(
        "--batch-size",
        type=int,
        metavar="B",
        help="maximum rows per batch; only results of int8 graphs depend on it (default: 256)",
    )
    rows.add_argument("--head", metavar="NAME", help="classification head (default: the only one)")
    next_to = "next to CHECKPOINT"
    rows.add_argument("--dictionary", metavar="FILE", help=f"fairseq's dict.txt (default: {next_to})")
    rows.add_argument("--labels", metavar="FILE", help=f"dict.txt of the labels (default: label/dict.txt {next_to})")
    add_tokenizer(rows, default=next_to)
    add_truncation(rows, None, " (default: as in training)")
    rows.add_argument(
        "--max-positions",
        type=int,
        metavar="N",
        help="n, the longest input in tokens; only for a model of transformers (default: the model's)",
    )
    rows.add_argument(
        "--stride",
        type=int,
        metavar="S",
        help="score inputs longer than n in spans of n tokens, S tokens apart, and average their logits (default: "
        "truncate)",
    )
    perplexity = parser.add_argument_group("perplexity")
    perplexity.add_argument("--seed", type=int, metavar="S", help="seed of the masks (default: 1)")
    perplexity.add_argument(
        "--tokens-per-sample",
        type=int,
        metavar="N",
        help="tokens per block; models of different n are comparable only at the same value (default: the model's n)",
    )
    perplexity.add_argument("--mask-prob", type=float, metavar="P", help="share of tokens to predict (default: 0.15)")
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> str | None:
    from ..checkpoints.files import check_new_file

    _reject_unused(options)
    if options.json:
        others = [Path(path).resolve() for path in (options.predictions,) if path not in (None, "-")]
        if str(options.json) == "-":
            raise ValueError("--json must be a file, got -")
        if options.json.resolve() in others:
            raise ValueError(f"--json must be a file other than --predictions, got {options.json}")
        check_new_file(options.json)
    numbers, report = _compute_perplexity(options) if options.perplexity is not None else _score_rows(options)
    if options.json:
        from ..files import write_json

        content = {"checkpoint": options.checkpoint, "on": options.input or options.perplexity, **numbers}
        write_json(options.json, content)
    if options.predictions != "-":
        return report
    print(report, file=sys.stderr)
    return None


def _reject_unused(options: argparse.Namespace) -> None:
    if options.split is not None and not re.fullmatch(r"[\w-]+", options.split):
        raise ValueError(f"--split must be a name, such as valid, got {options.split!r}")
    if options.device == "":
        raise ValueError("--device must be cpu, cuda or cuda:N, got ''")
    if (options.input is None) == (options.perplexity is None):
        raise ValueError("pass either TASK-OR-FILE or --perplexity DATA-BIN")
    allowed: tuple[str, ...]
    if options.perplexity is None:
        allowed, reason = ROW_OPTIONS, "needs --perplexity"
    else:
        allowed, reason = PERPLEXITY_OPTIONS, "cannot be used with --perplexity"
    for name in (*ROW_OPTIONS, *PERPLEXITY_OPTIONS):
        if getattr(options, name) not in (None, []) and name not in allowed:
            raise ValueError(f"{flag_of(name)} {reason}")


def _compute_perplexity(options: argparse.Namespace) -> tuple[dict, str]:
    from ..evaluation.perplexity import compute_perplexity

    settings = explicit_options(options, PERPLEXITY_OPTIONS)
    if "tokens_per_sample" in settings:
        settings["positions"] = settings.pop("tokens_per_sample")
    result = compute_perplexity(options.checkpoint, options.perplexity, device=_device(options), **settings)
    rate = result.tokens / max(result.seconds, 1e-9)
    report = (
        f"perplexity {result.perplexity:.2f} ({result.bits:.4f} bits per masked token), "
        f"accuracy {100 * result.accuracy:.2f} %: {result.masked:,} of {result.tokens:,} tokens masked, "
        f"in blocks of {result.positions}, {rate:,.0f} tokens/s"
    )
    return vars(result), report


def _score_rows(options: argparse.Namespace) -> tuple[dict, str]:
    from ..checkpoints.files import is_fairseq_checkpoint, is_onnx_folder
    from ..evaluation.evaluate import EvaluationData

    columns = tuple(options.text_column), options.label_column
    data = EvaluationData(options.input, options.source, options.split, options.format, *columns)
    if is_fairseq_checkpoint(options.checkpoint):
        from ..evaluation.classifier import FairseqClassifier

        if options.max_positions is not None:
            raise ValueError(
                f"--max-positions needs a model of transformers, got the fairseq checkpoint {options.checkpoint}"
            )
        unused = explicit_options(options, ("gpt2_bpe", "sentencepiece_model", "tokenizer_json", "truncation"))
        if unused and not data.needs_tokenizer:
            raise ValueError(f"{flag_of(next(iter(unused)))} has no effect: {options.input} is already tokenized")
        files = explicit_options(options, ("head", "dictionary", "labels", "truncation"))
        classifier = FairseqClassifier(options.checkpoint, _device(options), **files)
        if classifier.has_default_names:
            warning = f"no label names next to {options.checkpoint}: assuming the task's order; --labels FILE sets them"
            print(warning, file=sys.stderr)
        if data.needs_tokenizer:
            classifier.use_tokenizer(tokenizer_files(options))
    elif is_onnx_folder(options.checkpoint):
        from ..evaluation.onnx_classifier import OnnxClassifier

        if unused := explicit_options(options, (*FAIRSEQ_OPTIONS, "max_positions")):
            raise ValueError(f"{flag_of(next(iter(unused)))} does not apply to the ONNX folder {options.checkpoint}")
        if options.device not in (None, "cpu"):
            raise ValueError(f"--device must be cpu for the ONNX folder {options.checkpoint}, got {options.device}")
        return _evaluate_rows(OnnxClassifier(options.checkpoint), data, options)
    else:
        from ..evaluation.transformers_classifier import TransformersClassifier

        if unused := explicit_options(options, FAIRSEQ_OPTIONS):
            raise ValueError(f"{flag_of(next(iter(unused)))} needs a fairseq checkpoint, got {options.checkpoint}")
        other = TransformersClassifier(options.checkpoint, _device(options), options.max_positions)
        return _evaluate_rows(other, data, options)
    return _evaluate_rows(classifier, data, options)


def _evaluate_rows(classifier: Any, data: Any, options: argparse.Namespace) -> tuple[dict, str]:
    from ..evaluation.evaluate import evaluate
    from ..evaluation.predict import MAX_TOKENS
    from ..evaluation.strided import StridedClassifier

    if options.stride is not None:
        if not data.needs_tokenizer:
            raise ValueError(f"--stride needs text, but {options.input} is already tokenized and truncated")
        if options.truncation is not None:
            raise ValueError("--truncation cannot be used with --stride, which truncates nothing")
        classifier = StridedClassifier(classifier, options.stride, options.max_tokens or MAX_TOKENS)
    result = evaluate(classifier, data, options.predictions, **explicit_options(options, ("max_tokens", "batch_size")))
    return result.as_dict(), result.report()


def _device(options: argparse.Namespace) -> str:
    import torch

    if options.device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=options.device).item()
    except (RuntimeError, AssertionError):
        raise ValueError(f"--device {options.device} is not available") from None
    return options.device
