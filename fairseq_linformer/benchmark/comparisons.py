"""What the command ``benchmark`` and the experiment ``speed`` measure."""

from collections.abc import Sequence
from functools import partial

from .measure import Setup, inference, make_cases, training
from .processes import processes
from .rows import Row


def list_measurements(
    kind: str,
    setup: Setup,
    models: Sequence[str],
    lengths: Sequence[int],
    ks: Sequence[int],
    tokens: int,
    windows: Sequence[int] = (0,),
    positions: int | None = None,
    data: str = "",
) -> list["partial[list[Row]]"]:
    """A measurement per length, in which the models take turns; for ``measure_once``.

    Args:
        kind: ``inference``, ``training`` or ``processes``.
        ks, windows: as for ``make_cases``.
        tokens: tokens per batch; one sentence at least.
        positions: n of the models, if they are finetuned on shorter inputs.
        data: folder of the task that ``processes`` train on.

    Raises:
        ValueError: a model cannot have these sizes.
    """
    groups = [make_cases(models, n, ks, windows, positions) for n in lengths]
    for cases in groups:
        for case in cases:
            setup.config(case)
    if kind == "processes":
        run = partial(processes, setup=setup, data=data)
        return [partial(run, cases=cases, batch=max(1, tokens // cases[0].n)) for cases in groups]
    run = partial(inference, memory=True) if kind == "inference" else partial(training)
    return [partial(run, cases=cases, tokens=tokens, setup=setup) for cases in groups]
