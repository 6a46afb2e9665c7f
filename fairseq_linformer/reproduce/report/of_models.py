"""Tables of what was trained, finetuned or counted, an entry or a list of them at a time."""

import re
from typing import Dict, List, Optional, Sequence

from ..ledger import Entry, Measurement
from .tables import Table

MISSING = "**not measured**"
LEVELS = {"context_free": "without context", "unigram": "by the frequency of each token alone",
          "valid_context_free": "without context, on the validation split"}  # fmt: skip
"""What is measured of a text, beside the models in the entries from before ``reproduce``."""
COUNTED = ("operations-", "parameters-")
"""Entries of which every number stands in one table."""


def trained(entry: Entry) -> List[Table]:
    """Models of a training experiment: perplexity at the end, with its spread, and over that of RoBERTa; levels last."""
    names = [m[1] for name in entry.measured if (m := re.fullmatch(r"(.+): perplexity", name)) and ", seed " not in name]
    levels: Dict[str, float] = {}
    if names:
        of = {name: entry.measured[f"{name}: perplexity"] for name in names}
        levels = {"without context" + (m[1] or "").replace(" ", ", "): 2**bits.value for name, bits in entry.measured.items()
                  if (m := re.fullmatch(r"plateau( n=\d+)?: bits", name))}  # fmt: skip
    else:  # entries from before `reproduce`
        every = {name.removesuffix("_perplexity"): m for name, m in entry.measured.items() if m.unit == "perplexity"}
        of = {name: m for name, m in every.items() if name not in LEVELS}
        levels = {said: every[name].value for name, said in LEVELS.items() if name in every}
    rows = [[name, *cells(m, 2), _over(m.value, _base(of, name))] for name, m in of.items()]
    rows += [[said, f"{level:.2f}", "", "", _over(level, of.get("roberta"))] for said, level in levels.items()]
    heads = ["model", "perplexity", "lowest to highest", "runs", "over RoBERTa's"]
    what = "validation perplexity at the end" if names else "perplexity at the end, on held-out text"
    return [Table(heads, rows, f"{entry.identifier}: {what}")] if of else []


def _base(of: Dict[str, Measurement], name: str) -> Optional[Measurement]:
    """The RoBERTa of the same n where there is one, else the only one."""
    n = re.search(r"\bn=\d+$", name)
    return of.get(f"roberta {n[0]}" if n else "", of.get("roberta"))


def _over(value: float, base: Optional[Measurement]) -> str:
    return f"{value / base.value:.3f}" if base else ""


def cells(m: Optional[Measurement], digits: int) -> List[str]:
    """Value, spread and repetitions."""
    if m is None:
        return [MISSING, "", ""]
    return [f"{m.value:.{digits}f}", "" if m.spread is None else f"{m.spread[0]:.{digits}f} to {m.spread[1]:.{digits}f}", str(m.repetitions)]


def finetuned(entries: Sequence[Entry], caption: str) -> List[Table]:
    """A row for each task and model."""
    rows = [[e.configuration["task"], e.claim.split(": ", 1)[-1].split("; scores")[0], *cells(e.measured.get("valid accuracy"), 2),
             f"{f1.value:.3f}" if (f1 := e.measured.get("valid f1")) else "", cells(e.measured.get("valid majority"), 2)[0]] for e in entries]  # fmt: skip
    heads = ["task", "model", "accuracy, %", "lowest to highest", "seeds", "F1", "most frequent class, %"]
    return [Table(heads, rows, caption)] if rows else []


def counted(entry: Entry) -> List[Table]:
    """Every number of an entry, with its unit."""
    rows = [[name, f"{m.value:,.10g}", m.unit] for name, m in entry.measured.items()]
    return [Table(["what", "value", "unit"], rows, f"{entry.identifier}: {entry.claim}")]


def of_entries(found: Sequence[Entry]) -> List[Table]:
    """The tables of entries that none of the paper's tables is of."""
    others = ("spectrum-", "theorem-", "benchmark-", "finetuning-")
    tables = [table for entry in found if not entry.identifier.startswith(others)
              for table in (counted(entry) if entry.identifier.startswith(COUNTED) else trained(entry))]  # fmt: skip
    return tables + finetuned([e for e in found if e.identifier.startswith("finetuning-")], "Finetuned before, at other sizes and with other recipes")
