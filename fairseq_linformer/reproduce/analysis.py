"""What scripts/analysis.sh measured: from its folders to ledger entries, figures, results/spectrum.md and results/theorems.md.

    python -m fairseq_linformer.reproduce.analysis OUT --results results --data "wiki: ..."
"""

import argparse
import json
import logging
import re
import statistics
import sys
from pathlib import Path
from typing import Any, Dict, List

from ..analysis.figures import draw_spectra
from ..analysis.result import Spectrum, dimensions
from ..analysis.result import read as read_spectrum
from ..analysis.theorem_figures import draw_rank_k, draw_theorem1, draw_theorem2
from ..analysis.theorems import NUMBERS
from . import analysis_text, ledger
from .ledger import Entry, Measurement

COMMAND = "scripts/analysis.sh WIKI BOOKS IMDB OUT"
ROBERTA = {
    "roberta-64-wiki": "RoBERTa, n = 64, Wikipedia",
    "roberta-512-wiki": "RoBERTa, n = 512, Wikipedia",
    "roberta-512-books": "RoBERTa, n = 512, books",
    "roberta-512-imdb": "RoBERTa, n = 512, IMDB",
}
LINFORMER = {
    "linformer-256-wiki": "Linformer, n = 512, k = 256, Wikipedia",
    "linformer-64-wiki": "Linformer, n = 512, k = 64, Wikipedia",
}
TRAINED = [name.removesuffix("-wiki") for name in LINFORMER]
"""Folders of the Linformers' training."""
THEOREMS = {
    "random": "random",
    "roberta": "RoBERTa",
    "linformer-256": "Linformer, k = 256",
    "linformer-64": "Linformer, k = 64",
    "width-8": "random, d = 8",
    "width-16": "random, d = 16",
    "width-32": "random, d = 32",
}
SHOWN_K = 128
"""At which the report shows the errors of theorem 2."""
FIGURE_1 = "Figure 1; section 3"


def over(values, unit: str) -> Measurement:
    """A mean with lowest and highest."""
    values = [float(value) for value in values]
    spread = [round(min(values), 5), round(max(values), 5)] if len(values) > 1 else None
    return Measurement(round(statistics.mean(values), 5), unit, spread, len(values))


def commit_of(out: Path, names) -> str:
    """The commits that the runs began with."""
    return "; ".join(sorted({(out / name).read_text().strip() for name in names}))


def spectrum_entry(out: Path, identifier: str, claim: str, spectra: Dict[str, Spectrum], common: dict, trained=()) -> Entry:
    """For each layer the cumulative value at a quarter of the singular values, over heads; the rank; and k for 0.9.

    Args:
        trained: folders of models that the script trained, whose commits are named too.
    """
    measured: Dict[str, Measurement] = {}
    for name, spectrum in spectra.items():
        found = dimensions(spectrum, 0.9)
        for layer, heat in enumerate(spectrum.heat):
            where = f"{name}, layer {layer + 1}"
            measured[f"{where}: cumulative at {spectrum.index} of {spectrum.curve.shape[-1]}"] = over(heat, "share of the sum of singular values")
            measured[f"{where}: k for 0.9"] = over(found[layer], "singular values")
            measured[f"{where}: rank"] = over(spectrum.rank[0, layer], "numerical rank, mean over sentences")
        for matrix, numbers in spectrum.numbers()["projections"].items():
            measured[f"{name}, {matrix}: rank"] = over(numbers["rank"], "numerical rank")
            measured[f"{name}, {matrix}: k for 0.9"] = over(numbers["dimension_for"]["0.9"], "singular values")
        measured[f"{name}: float64 difference"] = Measurement(float(f"{spectrum.facts['float64_difference']:.2e}"), "of a curve, largest", None, 1)
    facts = {name: {key: s.facts[key] for key in ("model", "n", "index", "sentences", "texts", "short_sentences", "float64_checked_sentences")}
             for name, s in spectra.items()}  # fmt: skip
    return Entry(
        identifier=identifier, claim=claim, paper={"value": None, "where": FIGURE_1 + "; it gives curves of RoBERTa-base and large, and no numbers"},
        measured=measured,
        commit=commit_of(out, [f"spectrum-{key}.commit" for key, title in {**ROBERTA, **LINFORMER}.items() if title in spectra]
                         + [f"{folder}/commit" for folder in trained]),
        configuration={"runs": facts, "threads": 1}, seconds=round(sum(s.facts["seconds"] for s in spectra.values()), 1),
        curves={f"{name}, layer {i + 1}": [[k, round(float(v), 5)] for k, v in enumerate(curve, start=1) if k % max(1, len(curve) // 32) == 0]
                for name, s in spectra.items() for i, curve in enumerate(s.layers)},
        **common,
    )  # fmt: skip


def perplexities(out: Path) -> Dict[str, Measurement]:
    """What the Linformers ended their training with, on the validation split, from fairseq's log."""
    found = {}
    for folder, title in zip(TRAINED, LINFORMER.values()):
        log = out / folder / "train.log"
        values = re.findall(r'"valid_ppl": "([\d.]+)"', log.read_text())
        if not values:
            raise ValueError(f"{log} has no valid_ppl; a training that ended is wanted")
        found[f"{title}: validation perplexity"] = Measurement(float(values[-1]), "perplexity", None, 1)
    return found


def theorem_entries(out: Path, found: Dict[str, Dict[str, Any]], common: dict) -> List[Entry]:
    """One for theorem 1, one for theorem 2, one for the best of each rank."""
    common = {**common, "commit": commit_of(out, [f"theorems-{name}.commit" for name in THEOREMS] + [f"{folder}/commit" for folder in TRAINED]),
              "seconds": round(sum(f["seconds"] for f in found.values()), 1)}  # fmt: skip
    shape = {name: {key: value for key, value in f.items() if key not in ("theorem1", "theorem2", "rank_k", "identity")} for name, f in found.items()}
    first: Dict[str, Measurement] = {}
    second: Dict[str, Measurement] = {}
    best: Dict[str, Measurement] = {}
    for name, numbers in found.items():
        for row in numbers["theorem1"]:
            j = row["epsilon"].index(0.5)
            where = f"{name}, n = {row['n']}"
            spread = [row["stretch"]["least"], row["stretch"]["most"]] if row["heads"] > 1 else None
            first[f"{where}: ||P|| ||w|| / ||P w||"] = Measurement(row["stretch"]["median"], "ratio, median", spread, row["heads"])
            for i, k in enumerate(row["k"]):
                for what in ("theorem", "lengths", "bound", "pair", "pair_lengths", "lemma_bound"):
                    first[f"{where}, k = {k}, eps = 0.5: {what}"] = Measurement(row[what][i][j], "probability", None, 1)
                for what in ("squared_error", "expected_error"):
                    first[f"{where}, k = {k}: {what}"] = Measurement(row[what][i], "of ||P w||^2", None, 1)
        for what in ("step1", "step3", "needed_k"):
            for row in numbers["theorem2"][what]:
                where = ", ".join(f"{key} = {row[key]}" for key in ("n", "d", "k", "delta") if key in row)
                for key, value in row.items():  # None: there is none
                    if key not in ("n", "d", "k", "delta", "epsilon") and value is not None:
                        second[f"{name}, {where}, {what}: {key}"] = Measurement(value, "as theorem2.py has it", None, 1)
        for row in numbers["theorem2"]["errors"]:
            for candidate, values in row["candidates"].items():
                # The report has the others at one k.
                for what, value in ((w, v) for w, v in values.items() if row["k"] == SHOWN_K or w in ("frobenius", "spectral", "true")):
                    second[f"{name}, n = {row['n']}, k = {row['k']}, {candidate}: {what}"] = Measurement(value, "ratio", None, 1)
        for row in numbers["rank_k"]:
            for approximation, values in row["errors"].items():
                for what, value in values.items():
                    best[f"{name}, n = {row['n']}, k = {row['k']}, {approximation}: {what}"] = Measurement(value, "relative error, mean over heads", None, 1)
    return [
        Entry(identifier="theorem-1", claim="The probability over R that ||P R^T R w - P w|| <= eps ||P w||, with eps ||P|| ||w|| on the right "
              "side, and the bound of the proof", paper={"value": None, "where": "Theorem 1 and appendix A; proved, not measured"},
              measured=first, configuration=shape, **common),
        Entry(identifier="theorem-2", claim="softmax(Q (E K)^T) F V with E = delta R, F = exp(-delta) R against softmax(Q K^T) V: medians of row "
              "errors", paper={"value": None, "where": "Theorem 2 and appendix B; proved, not measured"},
              measured=second, configuration=shape, **common),
        Entry(identifier="optimal-rank-k", claim="Approximations of P of rank k against the best one (Eckart-Young)",
              paper={"value": None, "where": "section 3 names the best one and measures nothing"}, measured=best, configuration=shape, **common),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder that scripts/analysis.sh filled")
    parser.add_argument("--data", required=True, help="what the texts are, in words")
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    logging.getLogger().setLevel(logging.WARNING)
    try:
        spectra = {title: read_spectrum(args.out / f"spectrum-{name}") for name, title in {**ROBERTA, **LINFORMER}.items()}
        theorems = {title: json.loads((args.out / f"theorems-{name}" / NUMBERS).read_text()) for name, title in THEOREMS.items()}
        common = ledger.circumstances(args.data, COMMAND)
        ours, linformers = ({title: spectra[title] for title in names.values()} for names in (ROBERTA, LINFORMER))
        entries = [
            spectrum_entry(args.out, "spectrum-roberta", "Figure 1 on RoBERTa of 2 layers of 128: normalised cumulative singular values of P", ours, common),
            spectrum_entry(args.out, "spectrum-linformer", "The same of the n x k maps of Linformers, and of E and F; trained from that RoBERTa "
                           "for 1,500 updates of 2,048 tokens, headwise, the rate from 1e-3 to zero", linformers, common, TRAINED),
            *theorem_entries(args.out, theorems, common),
        ]
        entries[1].measured.update(perplexities(args.out))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"analysis: {error}")
    for entry in entries:
        print(ledger.write(entry, args.results))
    at_512 = {title: s for title, s in ours.items() if "512" in title}
    draw_spectra(args.results / "spectrum.png", list(at_512.values()), list(at_512))
    draw_spectra(args.results / "spectrum_linformer.png", list(linformers.values()), list(linformers))
    draw_theorem1(args.results / "theorem1.png", theorems["random"])
    draw_theorem1(args.results / "theorem1_roberta.png", theorems["RoBERTa"])
    draw_theorem2(args.results / "theorem2.png", theorems["random"])
    draw_rank_k(args.results / "rank_k.png", theorems["Linformer, k = 64"])
    (args.results / "spectrum.md").write_text(analysis_text.spectrum(ours, linformers, entries[:2]))
    (args.results / "theorems.md").write_text(analysis_text.theorems(theorems, entries[2], SHOWN_K))


if __name__ == "__main__":
    main()
