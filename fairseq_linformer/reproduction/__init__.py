"""The paper's claims and ours: an experiment a file, in ``paper/`` or ``beyond/``. To add one, add a file.

Its docstring has the claims and rules, in Markdown. It defines

    TITLE                          of its page
    WHERE                          the place in the paper; only of an experiment on the paper
    SAYS                           the claim, in a few words
    PARTS                          by scale, the parts that are measured, and the options of `reproduce` that each reads
    run(inputs)                    measure a part: a ``Result``
    verdicts(results)              ``Verdict`` of each claim; of the results of one scale, or of none
    tables(results)                ``page.Table`` of the results of one scale

and it may define

    chart(results)                 ``page.Panel`` of the results of one scale

``Inputs`` and ``Result`` are those of ``result.py``, verdicts those of ``verdict.py``.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from . import beyond, paper


def load_all() -> dict[str, ModuleType]:
    """The experiments by name, such as ``figure-3``; those of the paper first."""
    return {
        found.name.replace("_", "-"): import_module(f"{folder.__name__}.{found.name}")
        for folder in (paper, beyond)
        for found in iter_modules(folder.__path__)
    }
