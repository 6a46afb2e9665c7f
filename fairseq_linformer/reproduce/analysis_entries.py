"""Ledger entries of what ``analyze spectrum`` and ``analyze theorems`` measured, head by head and matrix by matrix."""

from typing import Any, Dict, List

import numpy as np

from ..analysis.result import Spectrum, dimensions
from ..analysis.theorem1 import MEASURED
from .cells import name, of_summary
from .ledger import Entry, Measurement

CUMULATIVE, K_VALUES, K_SQUARES, RANK = "cumulative value at the index", "k for 0.9 of the values", "k for 0.9 of the squares", "rank"
PERPLEXITY = "perplexity on held-out text"
SHARE = ": share that exists"
"""Behind the name of what some heads and draws do not have."""


def once(value: float, unit: str) -> Measurement:
    return Measurement(float(f"{float(value):.6g}"), unit, None, 1)


def spectrum_entry(identifier: str, claim: str, spectra: Dict[str, Spectrum], commit: str, note: str, common: dict) -> Entry:
    """Of each run, layer and head the value at the index with its deviation over sentences, k for 0.9, the rank with its least
    and most; of each E and F its singular values.

    Args:
        spectra: by the title of the run.
        note: what is to be said of the models.
    """
    measured: Dict[str, Measurement] = {}
    for run, spectrum in spectra.items():
        facts, values, squares = spectrum.facts, dimensions(spectrum, 0.9), dimensions(spectrum, 0.9, "squares")
        over = f"mean over {facts['sentences']:,} sentences"
        for (layer, at), heat in np.ndenumerate(spectrum.heat):
            where = dict(run=run, layer=layer + 1, head=at + 1)
            mean, least, most = (float(round(float(r), 3)) for r in spectrum.rank[:, layer, at])
            deviation = spectrum.deviation[layer, at, spectrum.index - 1]
            measured |= {
                name(CUMULATIVE, **where): once(heat, f"share of the sum of singular values, {over}"),
                name("its standard deviation", **where): once(deviation, "share of the sum of singular values, over sentences"),
                name(K_VALUES, **where): once(values[layer, at], f"singular values, of the {over}"),
                name(K_SQUARES, **where): once(squares[layer, at], f"singular values, of the {over}"),
                name(RANK, **where): Measurement(mean, "numerical rank, mean over sentences", [least, most], facts["sentences"])
                if facts["sentences"] > 1 else once(mean, "numerical rank"),
            }  # fmt: skip
        for matrix, numbers in spectrum.numbers()["projections"].items():
            for at, _ in enumerate(numbers["rank"]):
                where = dict(run=run, matrix=matrix, head="all" if len(numbers["rank"]) == 1 else at + 1)
                measured |= {
                    name("singular values", **where): once(numbers["singular_values"], "count"),
                    name("largest", **where): once(numbers["largest"][at], "singular value"),
                    name("smallest", **where): once(numbers["smallest"][at], "singular value"),
                    name(RANK, **where): once(numbers["rank"][at], "numerical rank"),
                    name(K_VALUES, **where): once(numbers["dimension_for"]["0.9"][at], "singular values"),
                }
        checked = f"of a curve, largest of {facts['float64_checked_sentences']} sentences"
        measured[name("float64 difference", run=run)] = once(facts["float64_difference"], checked)
    return Entry(
        identifier=identifier, claim=claim, measured=measured, commit=commit,
        configuration={"runs": {run: _facts(s) for run, s in spectra.items()}, "note": note},
        paper={"value": None, "where": "Figure 1; section 3; it gives curves of RoBERTa-base and large, and no numbers"},
        seconds=round(sum(s.facts["seconds"] for s in spectra.values()), 1),
        curves={name("curve, mean over heads", run=run, layer=i + 1):
                [[k, round(float(v), 5)] for k, v in enumerate(curve, start=1) if k % max(1, len(curve) // 32) == 0]
                for run, s in spectra.items() for i, curve in enumerate(s.layers)},
        **common,
    )  # fmt: skip


def _facts(spectrum: Spectrum) -> Dict[str, Any]:
    """What tells the run from others: contents, not places."""
    facts = spectrum.facts
    kept = ("kind", "n", "index", "sentences", "texts", "short_sentences", "float64_checked_sentences", "torch_threads", "device")
    key = facts["key"]
    return {**{name: facts[name] for name in kept}, "cut": key["cut"], "singular_values": spectrum.curve.shape[-1],
            "model_sha256": key["model"]["files"], "texts_sha256": [sha for source in key["texts"] for sha in source["sha256"]]}  # fmt: skip


def theorem_entries(found: Dict[str, Dict[str, Any]], commit: str, note: str, common: dict) -> List[Entry]:
    """One for theorem 1, one for theorem 2, one for the best of each rank; each with its own seconds.

    Args:
        found: ``theorems.json`` by the title of the heads; those called ``random, ...`` are there for the k that step 2 needs.
    """
    every = {title: numbers for title, numbers in found.items() if not title.startswith("random, ")}
    first: Dict[str, Measurement] = {}
    second: Dict[str, Measurement] = {}
    best: Dict[str, Measurement] = {}

    def add(to: Dict[str, Measurement], what: str, summary: Dict[str, Any], unit: str, share: bool = False, **where: Any) -> None:
        measurement = of_summary(summary, unit)
        if measurement is not None:
            to[name(what, **where)] = measurement
        if share or summary["count"] < summary["of"]:
            to[name(what + SHARE, **where)] = once(summary["count"] / summary["of"], f"share of {summary['of']} heads and draws")

    for heads, numbers in every.items():
        for r in numbers["theorem1"]:
            where = dict(heads=heads, n=r["n"])
            add(first, "stretch", r["stretch"], "||P|| ||w|| / ||P w||, median over w; median over heads", **where)
            for i, k in enumerate(r["k"]):
                add(first, "squared error", r["squared_error"][i], "of ||P w||^2, mean over w, heads and draws", **where, k=k)
                add(first, "expected error", r["expected_error"][i], "of ||P w||^2, mean over w and heads", **where, k=k)
                for j, epsilon in enumerate(r["epsilon"]):
                    for what in MEASURED:
                        add(first, what, r[what][i][j], "probability, mean over heads and draws", **where, k=k, eps=epsilon)
        for r in numbers["theorem2"]["errors"]:
            for candidate, cells in r["candidates"].items():
                for what, summary in cells.items():
                    unit = "share of rows, mean over heads and draws" if "within" in what else "ratio, median over heads and draws"
                    add(second, what, summary, unit, heads=heads, n=r["n"], d=r["d"], k=r["k"], X=candidate)
        for steps in ("step1", "step3"):
            for r in numbers["theorem2"][steps]:
                where = {key: r[key] for key in ("n", "d", "k", "delta")}
                for what in (key for key in r if key not in where and key != "wanted"):
                    add(second, what, r[what], "as theorem2.py has it; median over heads and draws", what.startswith("longest"), heads=heads, **where)
        for r in numbers["rank_k"]:
            for approximation, cells in r["errors"].items():
                for what, summary in cells.items():
                    add(best, what, summary, "relative error, mean over heads", heads=heads, n=r["n"], k=r["k"], S=approximation)
    for heads, numbers in found.items():
        for r in numbers["theorem2"]["needed_k"]:
            for norm in ("frobenius", "spectral"):
                add(second, f"k needed, {norm}", r[norm], "k, median over heads", True, heads=heads, n=r["n"], d=r["d"])
    measured_rows = ("theorem1", "theorem2", "rank_k")

    def entry(identifier: str, claim: str, where: str, part: str, measured: Dict[str, Measurement], of: Dict[str, Dict[str, Any]]) -> Entry:
        shape = {title: {key: value for key, value in numbers.items() if key not in measured_rows} for title, numbers in of.items()}
        for facts in shape.values():
            facts["seconds"] = facts["seconds"][part]
        return Entry(identifier=identifier, claim=claim, paper={"value": None, "where": where}, measured=measured, commit=commit,
                     configuration={"runs": shape, "note": note}, seconds=round(sum(f["seconds"] for f in shape.values()), 3), **common)  # fmt: skip

    return [
        entry("theorem-1", "The probability over R that ||P R^T R w - P w|| <= eps ||P w||, with eps ||P|| ||w|| on the right side, and the lemma's",
              "Theorem 1 and appendix A; proved, not measured", "theorem1", first, every),
        entry("theorem-2", "softmax(Q (E K)^T) F V with E = delta R, F = exp(-delta) R against softmax(Q K^T) V: medians of row errors, and the proof's steps",
              "Theorem 2 and appendix B; proved, not measured", "theorem2", second, found),
        entry("optimal-rank-k", "Approximations of P of rank k against the best one (Eckart-Young)",
              "section 3 names the best one and measures nothing", "rank_k", best, every),
    ]  # fmt: skip
