"""The rules of claims about trained models, over entries ``EXPERIMENT-SCALE`` of ``fairseq-linformer reproduce``."""

import re
from dataclasses import replace
from functools import partial
from typing import Callable, List, Sequence

from .comparison import Asked, about, at_most, entry_of, in_order, of_training, ratio
from .judges import Judge
from .ledger import Entry
from .verdict import Verdict, not_measured

NEARLY, SAME = 1.05, 1.1
"""Times a perplexity: "nearly on par", "almost matches"; and "about the same", more or less."""
Rule = Callable[[Entry], Asked]


def trained(experiment: str, rule: Rule) -> Judge:
    """A judge of the entry of an experiment: ``rule`` gives the models it is about and what is asked of them."""
    return partial(_trained, experiment, rule)


def _trained(experiment: str, rule: Rule, entries: Sequence[Entry], scale: str) -> Verdict:
    entry = entry_of(entries, experiment, scale)
    return not_measured(f"{experiment}-{scale}") if entry is None else of_training(entry, rule(entry))


def numbered(entry: Entry, letter: str) -> List[str]:
    """``k=4``, ``k=8``, ... of an entry, rising."""
    found = {int(m[1]) for name in entry.measured if (m := re.fullmatch(rf"{letter}=(\d+): perplexity", name))}
    return [f"{letter}={number}" for number in sorted(found)]


def k_orders(entry: Entry) -> Asked:
    """No larger k has a higher perplexity."""
    names = numbered(entry, "k")
    return Asked(names, in_order(entry, names))


def k_and_roberta_order(entry: Entry) -> Asked:
    """Nor has RoBERTa."""
    names = numbered(entry, "k")
    return Asked(names, in_order(entry, [*names, "roberta"]))


def quarter_is_near(entry: Entry) -> Asked:
    """k = n / 4 within ``NEARLY`` of RoBERTa."""
    name = f"k={entry.configuration['n'] // 4}"
    return Asked([name], [at_most(entry, name, "roberta", NEARLY)])


def shared_are_near(entry: Entry) -> Asked:
    """Each sharing within ``NEARLY`` of none."""
    names = ["headwise", "key-value", "layerwise"]
    return Asked(["none", *names], [at_most(entry, name, "none", NEARLY) for name in names])


def lengths_are_same(entry: Entry) -> Asked:
    """Each longer n within ``SAME`` of the shortest, either way; a RoBERTa of each n is the control, and what is told beside."""
    names = numbered(entry, "n")
    controls = {name: "roberta" if name == names[0] else f"roberta {name}" for name in names}
    beside = [f"{r.told}; no part of the verdict" for name, control in controls.items() if (r := ratio(entry, name, control))]
    return Asked(names, [about(entry, name, names[0], SAME) for name in names[1:]], tuple(controls.values()) or ("roberta",), beside)


def average_is_best(entry: Entry) -> Asked:
    """Below normal, at either rate; the default of today is told beside, which came later."""
    asked, r = first_is_best("average", "normal", "normal at the full rate")(entry), ratio(entry, "staggered", "average")
    return replace(asked, beside=[f"{r.told}; no part of the verdict"] if r else [])


def first_is_best(*names: str) -> Rule:
    """The first has at most the perplexity of each other."""
    return lambda entry: Asked(list(names), [at_most(entry, names[0], other) for other in names[1:]])
