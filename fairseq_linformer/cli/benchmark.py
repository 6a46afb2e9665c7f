"""``fairseq-linformer benchmark``: time and memory, compared with other models.

Each kind runs the measurements that are not in OUT yet and writes records, from which ``fairseq-linformer report``
builds tables.
"""

import argparse
import shlex
from pathlib import Path
from typing import Any

from ..benchmark.arguments import num_heads_for, parse_ints, parse_ints_or_none, parse_names, parse_positive_int
from .parsers import add_command, add_minutes, add_replace, add_results, add_subcommands, reject_options

NOT_RECORDED = ("run", "command", "kind", "out", "results", "data", "minutes", "replace")
"""Options that are omitted from the recorded command: folders and the time budget."""
MAX_TOKENS = {"inference": "4096, on cuda 32768", "training": "2048, on cuda 32768", "scaling": "the longest n"}
"""Defaults of ``--max-tokens``, for help texts."""
MODELS = {
    "scaling": "recurrent, transformer-eager, transformer-sdpa, bigbird, longformer, reformer, nystromformer, fnet, "
    "modernbert, linformer (default: all)",
    "training": "ours, roberta, authors, linformer, linformer-pytorch, ours-modules, transformer-eager, "
    "transformer-sdpa (default: the first three, and the next two if installed)",
    "finetuning": "ours, roberta, authors (default: all)",
}
"""Values and defaults of ``--models``, for help texts."""
KINDS = {
    "inference": "time a forward pass and find the largest batch (Table 3)",
    "scaling": "measure time per token over n, for the model families of Table 1",
    "training": "measure training steps, their memory, and whole fairseq-train processes",
    "finetuning": "measure whole fairseq-train processes on a task",
}


def add_parser(commands) -> None:
    """Add ``benchmark`` and its kinds."""
    benchmark = add_command(
        commands,
        "benchmark",
        "measure time and memory, and compare with other models",
        "benchmark inference OUT --minutes 9",
    )
    kinds = add_subcommands(benchmark, "kind")
    for kind, help in KINDS.items():
        example = f"benchmark {kind} OUT" + " --data data/sst-2" * (kind == "finetuning")
        _add_kind(add_command(kinds, kind, help, example, description="Rerun to resume."), kind)
    report = add_command(kinds, "report", "write records of measurements from another machine", "benchmark report OUT")
    _add_folders(report, "folder with the measurements")
    report.set_defaults(run=_report)


def _add_folders(parser, help: str) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help=help)
    add_results(parser)
    add_replace(parser)


def _add_kind(parser, kind: str) -> None:
    _add_folders(parser, "folder to write measurements to, or to resume")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="device to measure on")
    parser.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), default="fp32", help="floating-point type")
    if kind != "finetuning":
        or_none = ", or none" * (kind == "training")
        parser.add_argument(
            "--lengths",
            type=parse_ints_or_none if or_none else parse_ints,
            metavar="N,N",
            help=f"values of n, separated by commas{or_none} (default: the paper's)",
        )
        parser.add_argument(
            "--max-tokens", type=parse_positive_int, metavar="T", help=f"tokens per batch (default: {MAX_TOKENS[kind]})"
        )
        parser.add_argument(
            "--warmup-rounds", type=int, metavar="R", help="rounds before the measured ones (default: 1)"
        )
    layers = 2 if kind == "scaling" else 12
    parser.add_argument("--encoder-layers", type=int, default=layers, metavar="L", help="number of encoder layers")
    parser.add_argument(
        "--rounds", type=int, metavar="R", help="measured rounds, in which models take turns (default: 3)"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="number of CPU threads")
    add_minutes(parser, "no measurement but the first starts if it is predicted to exceed it")
    parser.add_argument(
        "--encoder-embed-dim", type=int, default=768, metavar="D", help="encoder embedding dimension, 64 per head"
    )
    if kind == "inference":
        parser.add_argument(
            "--projected-dim",
            type=parse_ints,
            metavar="K,K",
            help="values of k, separated by commas (default: the paper's)",
        )
        parser.add_argument(
            "--whole-models",
            action="store_true",
            help="time fairseq's own models instead of encoders that differ only in attention; takes a single k",
        )
        parser.add_argument(
            "--gpu-memory-gib",
            type=float,
            metavar="GIB",
            help="memory that the largest batch must fit into, in GiB (default: 16, a V100's)",
        )
    else:
        parser.add_argument("--projected-dim", type=int, default=256, metavar="K", help="k, the projected dimension")
    if kind in ("inference", "scaling"):
        limited = "attention weights of transformer-eager" if kind == "scaling" else "memory that a model may use"
        parser.add_argument(
            "--max-memory-gib",
            type=float,
            metavar="GIB",
            help=f"{limited}, in GiB; what is larger is skipped (default: 8, on cuda 60)",
        )
    if kind == "scaling":
        parser.add_argument("--only", choices=("families", "pertoken"), help="run one of the two parts (default: both)")
    if kind != "inference":
        parser.add_argument(
            "--models",
            type=parse_names,
            metavar="NAME,NAME",
            help=f"models to measure, separated by commas: {MODELS[kind]}",
        )
    if kind == "training":
        parser.add_argument(
            "--finetuning-lengths",
            type=parse_ints_or_none,
            metavar="N,N",
            help="input lengths of finetuning steps, separated by commas, or none (default: 32,64,128)",
        )
        parser.add_argument("--only", choices=PARTS, help="run one of the four parts (default: all)")
    if kind == "finetuning":
        parser.add_argument(
            "--data", type=Path, required=True, metavar="FOLDER", help="folder of a task that `prepare` wrote"
        )
        parser.add_argument(
            "--max-positions", type=parse_positive_int, default=512, metavar="N", help="n, the longest input in tokens"
        )
        parser.add_argument(
            "--batch-size", type=parse_positive_int, default=32, metavar="B", help="sentences per batch"
        )
    if kind in ("training", "finetuning"):
        parser.add_argument(
            "--max-update", type=parse_positive_int, metavar="U", help="updates per process (default: 5)"
        )
        parser.add_argument(
            "--warmup-updates", type=int, metavar="U", help="updates of a process before the measured ones (default: 1)"
        )
        parser.add_argument(
            "--fairseq-options",
            type=shlex.split,
            default=[],
            metavar="OPTIONS",
            help="further options of fairseq-train for this plugin's model, such as --fairseq-options='--compile'",
        )
    parser.set_defaults(run=_measure)


def _or(value: Any, default: Any) -> Any:
    """``value``, or ``default`` if it is None."""
    return default if value is None else value


def _measure(options: argparse.Namespace) -> str:
    import torch

    from ..benchmark.arguments import format_options
    from ..benchmark.cells import Provenance, measure_cells
    from ..files import check_can_be_written
    from ..machine import clean_commit

    if options.threads < 1:
        raise ValueError(f"--threads must be at least 1, got {options.threads}")
    torch.set_num_threads(options.threads)
    cells = CELLS[options.kind](options)
    words = shlex.join(
        [
            "fairseq-linformer",
            "benchmark",
            options.kind,
            "OUT",
            *(["--data", "FOLDER"] if options.kind == "finetuning" else []),
            *format_options(vars(options), exclude=NOT_RECORDED),
        ]
    )
    commit = clean_commit()
    options.results = Path(options.results)
    check_can_be_written(options.results)
    _check_replace(options)
    remaining = measure_cells(cells, options.out, Provenance(commit, words), options.minutes)
    text = f"{len(remaining)} of {len(cells)} measurements remain; rerun to resume"
    if remaining and options.replace is not None:
        return f"{text}; records are replaced when all are measured"
    return _report(options) + f"\n{text}" * bool(remaining)


def _check_replace(options: argparse.Namespace) -> None:
    """Raise ValueError if OUT has the measurements of a record to replace."""
    from ..reproduction.cells import records_in
    from ..reproduction.superseded import check_new

    if options.replace is not None:
        for record in records_in(options.out):
            check_new(record, options.replace, options.results, f"a new OUT, got {options.out}")


def _common(options: argparse.Namespace) -> dict:
    return dict(
        device=options.device,
        dtype=options.dtype,
        layers=options.encoder_layers,
        rounds=_or(options.rounds, 3),
        embed_dim=options.encoder_embed_dim,
        heads=num_heads_for(options.encoder_embed_dim),
    )


def _inference(options: argparse.Namespace) -> list:
    from ..benchmark import inference

    lengths = options.lengths or inference.LENGTHS
    tokens = options.max_tokens or inference.TOKENS_PER_BATCH[options.device]
    common = dict(tokens=tokens, warm_up=_or(options.warmup_rounds, 1), **_common(options))
    if options.whole_models:
        reject_options(
            options, ("gpu_memory_gib", "max_memory_gib"), "has no effect with --whole-models, which only measures time"
        )
        ks = options.projected_dim or (256,)
        if len(ks) > 1:
            raise ValueError(f"--projected-dim must be a single k with --whole-models, got {','.join(map(str, ks))}")
        return [inference.WholeModelCell(n, k=ks[0], **common) for n in lengths]
    for k in options.projected_dim or ():
        if k >= max(lengths):
            raise ValueError(f"--projected-dim must be less than the longest n ({max(lengths)}), got {k}")
    return inference.build_cells(
        lengths,
        options.projected_dim or inference.PROJECTED_DIMS,
        memory_gib=_or(options.gpu_memory_gib, inference.PAPER_MEMORY_GIB),
        usable_gib=_or(options.max_memory_gib, inference.USABLE_GIB[options.device]),
        **common,
    )


def _scaling(options: argparse.Namespace) -> list:
    from ..benchmark import inference, scaling

    lengths = options.lengths or scaling.LENGTHS
    tokens = options.max_tokens or max(lengths)
    models = _or(options.models, tuple(scaling.FAMILIES))
    if "transformer-eager" not in models:
        reject_options(options, ("max_memory_gib",), "needs the model transformer-eager, whose memory it limits")
    common = dict(k=options.projected_dim, warm_up=_or(options.warmup_rounds, 1), **_common(options))
    families, pertoken = [], []
    if options.only != "pertoken":
        families = scaling.build_cells(
            lengths,
            tokens,
            models=models,
            usable_gib=_or(options.max_memory_gib, inference.USABLE_GIB[options.device]),
            **common,
        )
    else:
        reject_options(
            options, ("models", "max_memory_gib"), "has no effect with --only pertoken, which runs the Linformer alone"
        )
    ends = tuple(sorted({min(lengths), max(lengths)}))
    if options.only == "pertoken":
        pertoken = [
            scaling.PerTokenCell(tuple(sorted(options.lengths)) if options.lengths else ends, tokens=tokens, **common)
        ]
    elif options.only is None and "linformer" in models and len(ends) > 1:
        pertoken = [scaling.PerTokenCell(ends, tokens=tokens, **common)]
    return families + pertoken


PARTS = ("steps", "memory", "process", "shares")
PARTS_WITH_OPTION = {
    "finetuning_lengths": ("steps", "memory"),
    "rounds": ("steps", "process", "shares"),
    "warmup_rounds": ("steps",),
    "max_update": ("process", "shares"),
    "warmup_updates": ("process", "shares"),
    "fairseq_options": ("process", "shares"),
}
"""Options of ``training`` that apply to some of its parts. ``--fairseq-options`` also needs ``--only``."""


def _training(options: argparse.Namespace) -> list:
    from ..benchmark import training
    from ..benchmark.models import FAIRSEQ_MODELS, PYPI_MODELS, missing_requirement
    from ..benchmark.train_process import ProcessCell, SharesCell

    for name, parts in PARTS_WITH_OPTION.items():
        if options.only not in (parts if name == "fairseq_options" else (None, *parts)):
            reject_options(options, (name,), f"needs --only {' or '.join(parts)}")
    common = _common(options)
    lengths = _or(options.lengths, training.PRETRAINING_LENGTHS)
    if not lengths and options.only in ("process", "shares"):
        raise ValueError(f"--lengths must have a value with --only {options.only}, got none")
    tokens = options.max_tokens or training.TOKENS_PER_STEP[options.device]
    finetuning = _or(options.finetuning_lengths, training.FINETUNING_LENGTHS)
    models = options.models or FAIRSEQ_MODELS
    peers = tuple(name for name in PYPI_MODELS if missing_requirement(name) is None)
    cells: list[Any] = []
    if options.only in (None, "steps", "memory"):
        groups = [models]
        if options.models is None and peers:
            groups.append(("ours", *peers))  # the peers have cells of their own
        for names in groups:
            cells += training.build_cells(
                lengths,
                finetuning,
                tokens,
                models=names,
                k=options.projected_dim,
                warm_up=_or(options.warmup_rounds, 1),
                **common,
            )
        cells = [cell for cell in cells if options.only in (None, "memory" if cell.memory else "steps")]
    trained = models
    if options.only not in ("process", "shares"):
        trained = tuple(name for name in models if name in FAIRSEQ_MODELS)
    if not trained:
        reject_options(
            options,
            ("max_update", "warmup_updates"),
            f"has no effect: fairseq-train trains none of {', '.join(models)}",
        )
    if not lengths:
        reject_options(
            options,
            ("max_update", "warmup_updates", "fairseq_options"),
            "has no effect with --lengths none: fairseq-train needs a length",
        )
    for kind in (ProcessCell, SharesCell):
        if trained and options.only in (None, kind.kind):
            cells += [
                kind(
                    n,
                    max(1, tokens // n),
                    trained,
                    options.projected_dim,
                    _or(options.max_update, 5),
                    warm_up_updates=_or(options.warmup_updates, 1),
                    options=tuple(options.fairseq_options),
                    **common,
                )
                for n in lengths
            ]
    if not cells:
        raise ValueError("nothing to measure: --lengths is none, and no finetuning steps are requested")
    return cells


def _finetuning(options: argparse.Namespace) -> list:
    from ..benchmark.models import FAIRSEQ_MODELS
    from ..benchmark.train_process import FinetuningCell
    from ..evaluation.classifier import DICTIONARY
    from ..evaluation.encoded_rows import is_prepared, read_prepared_task
    from ..finetuning.data import check_complete, describe_data
    from ..models.dictionaries import read_dictionary

    task = read_prepared_task(options.data) if is_prepared(options.data) else None
    if task is None or not task.classes:
        raise ValueError(
            f"--data must be a task with classes that `fairseq-linformer prepare` wrote, got {options.data}"
        )
    check_complete(task, options.data)
    symbols = len(read_dictionary(options.data / "input0" / DICTIONARY)) + 1  # <mask>
    return [
        FinetuningCell(
            options.max_positions,
            options.batch_size,
            options.models or FAIRSEQ_MODELS,
            options.projected_dim,
            _or(options.max_update, 5),
            warm_up_updates=_or(options.warmup_updates, 1),
            options=tuple(options.fairseq_options),
            vocabulary=symbols,
            classes=len(task.classes),
            data=f"{task.name}: {describe_data(options.data)}",
            folder=str(options.data),
            **_common(options),
        )
    ]


CELLS = {"inference": _inference, "scaling": _scaling, "training": _training, "finetuning": _finetuning}


def _report(options: argparse.Namespace) -> str:
    from ..reproduction.cells import failures_in, records_in
    from ..reproduction.superseded import put_cells

    found, failures = records_in(options.out), failures_in(options.out)
    if not found:
        raise ValueError(f"{options.out} has no successful measurement" + f": {'; '.join(failures)}" * bool(failures))
    lines = [str(put_cells(record, Path(options.results), options.replace)) for record in found]
    return "\n".join(lines + [f"not measured: {failure}" for failure in failures])
