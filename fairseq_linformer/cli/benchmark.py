"""``fairseq-linformer benchmark``: time and memory against every peer.

    fairseq-linformer benchmark inference OUT                 # Table 3
    fairseq-linformer benchmark scaling OUT                   # Table 1 and Figure 2, top right
    fairseq-linformer benchmark training OUT                  # a step, a whole fairseq-train process, and where its time goes
    fairseq-linformer benchmark finetuning OUT --data data/sst-2    # a whole fairseq-train process on real sentences
    fairseq-linformer benchmark report OUT                    # records of the cells in OUT, which may come from another machine

Each measures the cells that are not in OUT yet, and writes a record of all that are to the ledger; `fairseq-linformer report`
makes tables and charts of them.
"""

import argparse
import shlex
import subprocess
from pathlib import Path
from typing import Any, Sequence

from ..benchmark.arguments import heads_of, names, numbers, numbers_or_none, positive

NOT_RECORDED = ("run", "command", "kind", "out", "results", "data", "minutes")
"""Left out of the recorded command: folders, and options that only say when to stop."""
KINDS = ("inference", "scaling", "training", "finetuning")


def add_parser(commands) -> None:
    """Add ``benchmark`` and its kinds."""
    benchmark = commands.add_parser("benchmark", help="time and memory against every peer")
    kinds = benchmark.add_subparsers(dest="kind", required=True, metavar="WHAT")
    for kind, says in zip(KINDS, ("Table 3: a forward pass, and the largest batch", "time per token over n, all families of Table 1",
                                  "a training step, bytes, a whole fairseq-train process, and shares of its time",
                                  "a whole fairseq-train process on a task")):  # fmt: skip
        _add_kind(kinds.add_parser(kind, help=says, description=f"{says}. Killed and started again, it goes on."), kind)
    report = kinds.add_parser("report", help="write records of the cells that were measured")
    _add_folders(report)
    report.set_defaults(run=_report)


def _add_folders(parser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of cells: new, or one where the same was begun")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the ledger (%(default)s)")


def _add_kind(parser, kind: str) -> None:
    _add_folders(parser)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), default="fp32")
    if kind != "finetuning":
        of_training = kind == "training"
        parser.add_argument("--lengths", type=numbers_or_none if of_training else numbers, metavar="N,N", help="n; those of the paper if left out" + "; or none" * of_training)
        parser.add_argument("--tokens", type=positive, metavar="T", help="of a batch (inference 4096, training 2048, both 32768 on cuda; scaling the longest n)")
        parser.add_argument("--warm-up", type=int, metavar="R", help="rounds before those that count (1)")
    parser.add_argument("--layers", type=int, default=2 if kind == "scaling" else 12, metavar="L", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, metavar="R", help="interleaved repetitions (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of PyTorch on a CPU (%(default)s)")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no cell that would end later; run again for the rest")
    parser.add_argument("--width", type=int, default=768, metavar="D", help="d, of heads of 64 (%(default)s)")
    if kind == "inference":
        parser.add_argument("--k", type=numbers, metavar="K,K", help="projected dimensions; those of the paper if left out")
        parser.add_argument("--whole", action="store_true", help="fairseq's own models in place of encoders that differ in attention only; one k")
        parser.add_argument("--memory-gib", type=float, help="in which the largest batches shall fit (16, a V100's)")
    else:
        parser.add_argument("--k", type=int, default=256, metavar="K", help="(%(default)s)")
    if kind in ("inference", "scaling"):
        parser.add_argument("--usable-gib", type=float, help="what a model may take here; one that takes more is not run (8; on cuda 60)")
    if kind == "scaling":
        parser.add_argument("--part", choices=("families", "pertoken"), help="one of the two only")
    if kind != "inference":
        parser.add_argument("--models", type=names, metavar="NAME,NAME", help="some only")
    if kind == "training":
        parser.add_argument("--finetuning", type=numbers_or_none, metavar="N,N", help="lengths of finetuning (32,64,128), or none")
        parser.add_argument("--part", choices=PARTS, help="one of the four only")
    if kind == "finetuning":
        parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="a task as prepare writes it")
        parser.add_argument("--max-positions", type=positive, default=512, metavar="N", help="n of the models (%(default)s)")
        parser.add_argument("--batch-size", type=positive, default=32, metavar="B", help="sentences (%(default)s)")
    if kind in ("training", "finetuning"):
        parser.add_argument("--updates", type=positive, metavar="U", help="of a process (5)")
        parser.add_argument("--warm-up-updates", type=int, metavar="U", help="of them, that do not count (1)")
        parser.add_argument("--fairseq-options", type=shlex.split, default=[], metavar="'--A --B'",
                            help="of processes: more options for this plugin's model, such as --compile")  # fmt: skip
    parser.set_defaults(run=_measure)


def _or(value: Any, otherwise: Any) -> Any:
    """What was given, or what holds if nothing was."""
    return otherwise if value is None else value


def _refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """
    Raises:
        ValueError: one of these was given, which would mean nothing here.
    """
    for name in names:
        if getattr(options, name) not in (None, []):
            raise ValueError(f"--{name.replace('_', '-')} {why}")


def _measure(options: argparse.Namespace) -> str:
    import torch

    from ..benchmark.arguments import words_of
    from ..benchmark.cells import Provenance, measure
    from ..files import check_can_be_written
    from ..machine import current_commit

    if options.threads < 1:
        raise ValueError(f"threads is {options.threads}; it must be at least 1")
    torch.set_num_threads(options.threads)
    cells = CELLS[options.kind](options)
    words = shlex.join(["fairseq-linformer", "benchmark", options.kind, "OUT", *(["--data", "FOLDER"] if options.kind == "finetuning" else []),
                        *words_of(vars(options), but=NOT_RECORDED)])  # fmt: skip
    try:
        commit = current_commit()
    except (OSError, subprocess.CalledProcessError):
        raise ValueError("this is no checkout of git, or git is not installed; a measurement says its commit, so run it from one") from None
    check_can_be_written(options.results)
    left = measure(cells, options.out, Provenance(commit, words), options.minutes)
    said = _report(options)
    return said + (f"\n{len(left)} of {len(cells)} cells are left: the same command goes on" if left else "")


def _common(options: argparse.Namespace) -> dict:
    return dict(device=options.device, dtype=options.dtype, layers=options.layers, rounds=options.rounds, embed_dim=options.width,
                heads=heads_of(options.width))  # fmt: skip


def _inference(options: argparse.Namespace) -> list:
    from ..benchmark import inference

    lengths, common = options.lengths or inference.LENGTHS, dict(tokens=options.tokens or inference.TOKENS[options.device], warm_up=_or(options.warm_up, 1), **_common(options))
    if options.whole:
        _refuse(options, ("memory_gib", "usable_gib"), "is not for --whole, which measures times only and runs every model")
        ks = options.k or (256,)
        if len(ks) > 1:
            raise ValueError(f"--k is {','.join(map(str, ks))}; with --whole it must be one number")
        return [inference.WholeInference(n, k=ks[0], **common) for n in lengths]
    for k in options.k or ():
        if k >= max(lengths):
            raise ValueError(f"k is {k}; an n above it is needed, and there are {', '.join(map(str, lengths))}")
    return inference.rows(lengths, options.k or inference.DIMENSIONS, memory_gib=_or(options.memory_gib, inference.PAPER_MEMORY),
                          usable_gib=_or(options.usable_gib, inference.USABLE[options.device]), **common)  # fmt: skip


def _scaling(options: argparse.Namespace) -> list:
    from ..benchmark import inference, scaling

    lengths, tokens = options.lengths or scaling.LENGTHS, options.tokens or max(options.lengths or scaling.LENGTHS)
    models = _or(options.models, tuple(scaling.families()))
    common = dict(k=options.k, warm_up=_or(options.warm_up, 1), **_common(options))
    families, pertoken = [], []
    if options.part != "pertoken":
        families = scaling.rows(lengths, tokens, models=models, usable_gib=_or(options.usable_gib, inference.USABLE[options.device]), **common)
    else:
        _refuse(options, ("models", "usable_gib"), "is not for --part pertoken, which runs the Linformer alone")
    ends = tuple(sorted({min(lengths), max(lengths)}))
    if options.part == "pertoken":
        pertoken = [scaling.PerToken(tuple(sorted(options.lengths)) if options.lengths else ends, tokens=tokens, **common)]
    elif options.part is None and "linformer" in models and len(ends) > 1:
        pertoken = [scaling.PerToken(ends, tokens=tokens, **common)]
    return families + pertoken


PARTS = ("steps", "memory", "process", "shares")
OF_PARTS = {"finetuning": ("steps", "memory"), "warm_up": ("steps",), "updates": ("process", "shares"), "warm_up_updates": ("process", "shares"),
            "fairseq_options": ("process", "shares")}  # fmt: skip
"""Options of ``training`` that only some of its parts have. Options of fairseq make a process another one, so they want a part."""


def _training(options: argparse.Namespace) -> list:
    from ..benchmark import training
    from ..benchmark.models import OF_INDEX, WITH_FAIRSEQ, why_not
    from ..benchmark.train_process import Process, Shares

    for name, parts in OF_PARTS.items():
        if options.part not in (parts if name == "fairseq_options" else (None, *parts)):
            _refuse(options, (name,), f"is for --part {' or '.join(parts)}")
    common, lengths, tokens = _common(options), _or(options.lengths, training.PRETRAINING), options.tokens or training.TOKENS[options.device]
    finetuning = _or(options.finetuning, training.FINETUNING)
    models, peers, cells = options.models or WITH_FAIRSEQ, tuple(name for name in OF_INDEX if why_not(name) is None), []
    if options.part in (None, "steps", "memory"):
        for some in [models] + [("ours", *peers)] * (options.models is None and bool(peers)):  # the peers have cells of their own
            cells += training.rows(lengths, finetuning, tokens, models=some, k=options.k, warm_up=_or(options.warm_up, 1), **common)
        cells = [cell for cell in cells if options.part in (None, "memory" if cell.memory else "steps")]
    trained = models if options.part in ("process", "shares") else tuple(name for name in models if name in WITH_FAIRSEQ)
    if not trained:
        _refuse(options, ("updates", "warm_up_updates"), f"is for processes of fairseq-train, which trains none of {', '.join(models)}")
    if not lengths:
        _refuse(options, ("updates", "warm_up_updates", "fairseq_options"), "is for processes of fairseq-train, which want a length; --lengths is none")
    for kind in (Process, Shares):
        if trained and options.part in (None, kind.kind):
            cells += [kind(n, max(1, tokens // n), trained, options.k, _or(options.updates, 5), warm_up_updates=_or(options.warm_up_updates, 1),
                           options=tuple(options.fairseq_options), **common) for n in lengths]  # fmt: skip
    if not cells:
        raise ValueError("--lengths is none; without a length there are steps of finetuning only, and none of those is asked for")
    return cells


def _finetuning(options: argparse.Namespace) -> list:
    from ..benchmark.models import WITH_FAIRSEQ
    from ..benchmark.train_process import Finetuning
    from ..evaluation.classifier import DICTIONARY
    from ..evaluation.rows import is_prepared, prepared_task
    from ..finetuning.data import check_whole, described

    task = prepared_task(options.data) if is_prepared(options.data) else None
    if task is None or not task.classes:
        raise ValueError(f"--data is {options.data}; a folder with classes is wanted, as `fairseq-linformer prepare sst-2` writes it")
    check_whole(task, options.data)
    symbols = len((options.data / "input0" / DICTIONARY).read_text(encoding="utf-8").splitlines()) + 5  # <s>, <pad>, </s>, <unk>, <mask>
    return [Finetuning(options.max_positions, options.batch_size, options.models or WITH_FAIRSEQ, options.k, _or(options.updates, 5),
                       warm_up_updates=_or(options.warm_up_updates, 1), options=tuple(options.fairseq_options), vocabulary=symbols,
                       classes=len(task.classes), data=f"{task.name}: {described(options.data)}", folder=str(options.data), **_common(options))]  # fmt: skip


CELLS = {"inference": _inference, "scaling": _scaling, "training": _training, "finetuning": _finetuning}


def _report(options: argparse.Namespace) -> str:
    from ..reproduction.cells import failures_in, records_in
    from ..reproduction.records import grow

    found, failures = records_in(options.out), failures_in(options.out)
    if not found:
        raise ValueError(f"{options.out} has no cells of a benchmark" + f" with a number: {'; '.join(failures)}" * bool(failures))
    lines = [str(grow(record, options.results)) for record in found]
    return "\n".join(lines + [f"not measured: {failure}" for failure in failures])
