"""One file per table, figure or theorem of the paper, or claim of this project. To add one, add a file.

Its docstring has the claims and rules, in Markdown. It defines

    TITLE                          of its page
    WHERE                          the place in the paper; only of an experiment on the paper
    SAYS                           the claim, in a few words
    PARTS                          by scale, the parts that are measured, and the options of `reproduce` that each reads
    run(part, scale, inputs)       measure a part: a ``Result``
    verdicts(results)              ``Verdict`` of each claim; of the results of one scale, or of none
    tables(results)                ``display.Table`` of the results of one scale

and it may define

    chart(results)                 ``display.Panel`` of the results of one scale

``Inputs`` and ``Result`` are those of ``result.py``, verdicts those of ``statistics.py``.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def load_all() -> dict[str, ModuleType]:
    """The experiments by name, such as ``figure-3``; those of the paper first."""
    modules = {
        found.name.replace("_", "-"): import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)
    }
    return dict(sorted(modules.items(), key=lambda pair: not hasattr(pair[1], "WHERE")))
