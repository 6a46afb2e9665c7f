"""The measurements that the options of ``fairseq-linformer benchmark`` request.

Each function raises ValueError if an option is out of range, does not apply or has no effect.
"""

import argparse
from typing import Any

from ..benchmark.arguments import num_heads_for
from .parsers import reject_options

PARTS = ("steps", "memory", "process", "shares")
"""Parts of ``training``, for ``--only``."""
PARTS_BY_OPTION = {
    "finetuning_lengths": ("steps", "memory"),
    "rounds": ("steps", "process", "shares"),
    "warmup_rounds": ("steps",),
    "max_update": ("process", "shares"),
    "warmup_updates": ("process", "shares"),
    "fairseq_options": ("process", "shares"),
}
"""Options of ``training`` that apply to some of its parts. ``--fairseq-options`` also needs ``--only``."""


def _default_if_none(value: Any, default: Any) -> Any:
    """``value``, or ``default`` if it is None."""
    return default if value is None else value


def _common(options: argparse.Namespace) -> dict:
    return dict(
        device=options.device,
        dtype=options.dtype,
        layers=options.encoder_layers,
        rounds=_default_if_none(options.rounds, 3),
        embed_dim=options.encoder_embed_dim,
        heads=num_heads_for(options.encoder_embed_dim),
    )


def build_inference_cells(options: argparse.Namespace) -> list:
    """Measurements of ``benchmark inference``."""
    from ..benchmark import inference

    lengths = options.lengths or inference.LENGTHS
    tokens = options.max_tokens or inference.TOKENS_PER_BATCH[options.device]
    common = dict(tokens=tokens, warm_up=_default_if_none(options.warmup_rounds, 1), **_common(options))
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
        memory_gib=_default_if_none(options.gpu_memory_gib, inference.PAPER_MEMORY_GIB),
        usable_gib=_default_if_none(options.max_memory_gib, inference.USABLE_GIB[options.device]),
        **common,
    )


def build_scaling_cells(options: argparse.Namespace) -> list:
    """Measurements of ``benchmark scaling``: of the families, of the time per token, or both."""
    from ..benchmark import inference, scaling

    lengths = options.lengths or scaling.LENGTHS
    tokens = options.max_tokens or max(lengths)
    models = _default_if_none(options.models, tuple(scaling.FAMILIES))
    if "transformer-eager" not in models:
        reject_options(options, ("max_memory_gib",), "needs the model transformer-eager, whose memory it limits")
    common = dict(k=options.projected_dim, warm_up=_default_if_none(options.warmup_rounds, 1), **_common(options))
    families, pertoken = [], []
    if options.only != "pertoken":
        families = scaling.build_cells(
            lengths,
            tokens,
            models=models,
            usable_gib=_default_if_none(options.max_memory_gib, inference.USABLE_GIB[options.device]),
            **common,
        )
    else:
        reject_options(
            options, ("models", "max_memory_gib"), "has no effect with --only pertoken, which only measures Linformers"
        )
    ends = tuple(sorted({min(lengths), max(lengths)}))
    if options.only == "pertoken":
        pertoken = [
            scaling.PerTokenCell(tuple(sorted(options.lengths)) if options.lengths else ends, tokens=tokens, **common)
        ]
    elif options.only is None and "linformer" in models and len(ends) > 1:
        pertoken = [scaling.PerTokenCell(ends, tokens=tokens, **common)]
    return families + pertoken


def build_training_cells(options: argparse.Namespace) -> list:
    """Measurements of ``benchmark training``: training steps, their memory, and ``fairseq-train``."""
    from ..benchmark import training
    from ..benchmark.models import FAIRSEQ_MODELS, PYPI_MODELS, missing_requirement
    from ..benchmark.train_process import ProcessCell, SharesCell

    for name, parts in PARTS_BY_OPTION.items():
        if options.only not in (parts if name == "fairseq_options" else (None, *parts)):
            reject_options(options, (name,), f"needs --only {' or '.join(parts)}")
    common = _common(options)
    lengths = _default_if_none(options.lengths, training.PRETRAINING_LENGTHS)
    if not lengths and options.only in ("process", "shares"):
        raise ValueError(f"--lengths must have a value with --only {options.only}, got none")
    tokens = options.max_tokens or training.TOKENS_PER_STEP[options.device]
    finetuning = _default_if_none(options.finetuning_lengths, training.FINETUNING_LENGTHS)
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
                warm_up=_default_if_none(options.warmup_rounds, 1),
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
                    _default_if_none(options.max_update, 5),
                    warm_up_updates=_default_if_none(options.warmup_updates, 1),
                    options=tuple(options.fairseq_options),
                    **common,
                )
                for n in lengths
            ]
    if not cells:
        raise ValueError("nothing to measure: --lengths is none, and no finetuning steps are requested")
    return cells


def build_finetuning_cells(options: argparse.Namespace) -> list:
    """Measurements of ``benchmark finetuning``."""
    from ..benchmark.models import FAIRSEQ_MODELS
    from ..benchmark.train_process import FinetuningCell
    from ..data.tokenizer_files import DICTIONARY
    from ..evaluation.encoded_rows import is_prepared, read_prepared_task
    from ..models.dictionaries import read_dictionary
    from ..training.data import check_complete, describe_data

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
            _default_if_none(options.max_update, 5),
            warm_up_updates=_default_if_none(options.warmup_updates, 1),
            options=tuple(options.fairseq_options),
            vocabulary=symbols,
            classes=len(task.classes),
            data=f"{task.name}: {describe_data(options.data)}",
            folder=str(options.data),
            **_common(options),
        )
    ]


BUILDERS = {
    "inference": build_inference_cells,
    "scaling": build_scaling_cells,
    "training": build_training_cells,
    "finetuning": build_finetuning_cells,
}
"""Functions from the options of a kind to its measurements."""
