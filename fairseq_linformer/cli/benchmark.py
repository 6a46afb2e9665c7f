"""``fairseq-linformer benchmark``: time and memory against every peer.

    fairseq-linformer benchmark inference OUT                 # Table 3
    fairseq-linformer benchmark scaling OUT                   # Table 1 and Figure 2, top right
    fairseq-linformer benchmark training OUT                  # a step, and a whole fairseq-train process
    fairseq-linformer benchmark report OUT                    # the ledger, from cells that are there, brought from anywhere

Each measures cells that are not in OUT yet, and writes ledger, tables and figures of those that are.
"""

import argparse
import shlex
import subprocess
from pathlib import Path
from typing import Tuple

KINDS = ("inference", "scaling", "training")


def add_parser(commands) -> None:
    """Add ``benchmark`` and its kinds."""
    benchmark = commands.add_parser("benchmark", help="time and memory against every peer")
    kinds = benchmark.add_subparsers(dest="kind", required=True, metavar="WHAT")
    for kind, says in zip(KINDS, ("Table 3: a forward pass, and the largest batch", "time per token over n, all families of Table 1",
                                  "a training step, bytes, and a whole fairseq-train process")):  # fmt: skip
        _add_kind(kinds.add_parser(kind, help=says, description=f"{says}. Killed and started again, it goes on."), kind)
    report = kinds.add_parser("report", help="ledger, tables and figures of cells that were measured")
    _add_folders(report)
    report.set_defaults(run=_report)


def _add_folders(parser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of cells: new, or one where the same was begun")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the ledger (%(default)s)")


def _add_kind(parser, kind: str) -> None:
    _add_folders(parser)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), default="fp32")
    parser.add_argument("--lengths", type=_numbers, metavar="N,N", help="n; those of the paper if left out")
    parser.add_argument("--layers", type=int, default=2 if kind == "scaling" else 12, metavar="L", help="(%(default)s)")
    parser.add_argument("--tokens", type=int, metavar="T", help="of a batch")
    parser.add_argument("--rounds", type=int, default=3, metavar="R", help="interleaved repetitions (%(default)s)")
    parser.add_argument("--warm-up", type=int, default=1, metavar="R", help="rounds before them (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of PyTorch on a CPU (%(default)s)")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no cell that would end later; run again for the rest")
    parser.add_argument("--width", type=int, default=768, metavar="D", help="d, of heads of 64 (%(default)s)")
    if kind == "inference":
        parser.add_argument("--k", type=_numbers, metavar="K,K", help="projected dimensions; those of the paper if left out")
        parser.add_argument("--whole", action="store_true", help="fairseq's own models in place of encoders that differ in attention only; one k")
        parser.add_argument("--memory-gib", type=float, default=16.0, help="in which the largest batches shall fit (%(default)s, a V100's)")
    else:
        parser.add_argument("--k", type=int, default=256, metavar="K", help="(%(default)s)")
    if kind != "training":
        parser.add_argument("--usable-gib", type=float, default=8.0, help="what a model may take here; one that takes more is not run (%(default)s)")
    if kind != "inference":
        parser.add_argument("--models", type=lambda text: tuple(text.split(",")), metavar="NAME,NAME", help="some only")
    if kind == "training":
        parser.add_argument("--finetuning", type=_numbers, metavar="N,N", help="lengths of finetuning (32,64,128), or none")
        parser.add_argument("--part", choices=("steps", "memory", "process"), help="one of the three only")
        parser.add_argument("--fairseq-options", type=shlex.split, default=[], metavar="'--A --B'",
                            help="of process: more options for this plugin's model, such as --compile")  # fmt: skip
    parser.set_defaults(run=_measure)


def _numbers(text: str) -> Tuple[int, ...]:
    if text == "none":
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not numbers separated by commas, such as 512,1024") from None


def _measure(options: argparse.Namespace) -> str:
    import torch

    from ..benchmark.cells import Provenance, measure
    from ..reproduce.ledger import current_commit

    if options.threads < 1:
        raise ValueError(f"threads is {options.threads}; it must be at least 1")
    torch.set_num_threads(options.threads)
    cells = CELLS[options.kind](options)
    words = shlex.join(["fairseq-linformer", "benchmark", options.kind, "OUT", *_given(options)])
    try:
        commit = current_commit()
    except subprocess.CalledProcessError:
        raise ValueError("this is no checkout of git; a measurement says its commit, so run it from one") from None
    left = measure(cells, options.out, Provenance(commit, words), options.minutes)
    said = _report(options)
    return said + (f"\n{len(left)} of {len(cells)} cells are left: the same command goes on" if left else "")


def _given(options: argparse.Namespace):
    """What the command was, but for folders and for what only says when to stop."""
    for name in ("device", "dtype", "lengths", "layers", "tokens", "rounds", "threads", "k", "models", "finetuning", "part", "whole"):
        value = getattr(options, name, None)
        if value is True:
            yield "--whole"
        elif value is not None and value is not False:
            yield from (f"--{name.replace('_', '-')}", (",".join(map(str, value)) or "none") if isinstance(value, tuple) else str(value))


def _common(options: argparse.Namespace) -> dict:
    if options.width < 64 or options.width % 64:
        raise ValueError(f"width is {options.width}; it must be a multiple of 64")
    return dict(device=options.device, dtype=options.dtype, layers=options.layers, rounds=options.rounds, warm_up=options.warm_up,
                embed_dim=options.width, heads=options.width // 64)  # fmt: skip


def _inference(options: argparse.Namespace) -> list:
    from ..benchmark import inference

    if options.whole:
        lengths, ks = options.lengths or inference.LENGTHS, options.k or (256,)
        if len(ks) > 1:
            raise ValueError(f"--k is {','.join(map(str, ks))}; with --whole it must be one number")
        return [inference.WholeInference(n, options.tokens or 4096, *ks, **_common(options)) for n in lengths]
    return inference.rows(options.lengths or inference.LENGTHS, options.k or inference.DIMENSIONS, tokens=options.tokens or 4096,
                          memory_gib=options.memory_gib, usable_gib=options.usable_gib, **_common(options))  # fmt: skip


def _scaling(options: argparse.Namespace) -> list:
    from ..benchmark import scaling

    lengths = options.lengths or scaling.LENGTHS
    some = {} if options.models is None else {"models": options.models}
    cells = scaling.rows(lengths, options.tokens, k=options.k, usable_gib=options.usable_gib, **some, **_common(options))
    if "linformer" in cells[0].models and len(lengths) > 1:
        cells.append(scaling.PerToken((min(lengths), max(lengths)), options.k, options.tokens or max(lengths), **_common(options)))
    return cells


def _training(options: argparse.Namespace) -> list:
    from ..benchmark import training
    from ..benchmark.process import Process
    from ..benchmark.whole import WITH_FAIRSEQ

    common = _common(options)
    models = options.models or WITH_FAIRSEQ
    lengths, tokens = options.lengths or training.PRETRAINING, options.tokens or 2048
    finetuning = training.FINETUNING if options.finetuning is None else options.finetuning
    cells = training.rows(lengths, finetuning, tokens, models=models, k=options.k, **common)
    if options.fairseq_options and options.part != "process":
        raise ValueError(f"--fairseq-options is {shlex.join(options.fairseq_options)}; it is for --part process")
    if options.part in ("steps", "memory"):
        return [cell for cell in cells if cell.memory == (options.part == "memory")]
    trained = tuple(name for name in models if name in WITH_FAIRSEQ)
    del common["warm_up"]
    processes = [Process(n, max(1, tokens // n), trained, options.k, options=tuple(options.fairseq_options), **common) for n in lengths]
    return processes if options.part == "process" else cells + (processes if trained else [])


CELLS = {"inference": _inference, "scaling": _scaling, "training": _training}


def _report(options: argparse.Namespace) -> str:
    from ..reproduce import benchmark_report, benchmarks, ledger

    found = list(benchmarks.entries(options.out))
    if not found:
        raise ValueError(f"{options.out} has no cells of a benchmark")
    written = [ledger.write(entry, options.results) for entry in found]
    return "\n".join(map(str, written + benchmark_report.write(options.results)))
