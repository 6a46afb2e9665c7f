"""What scripts/analysis.sh measured: from its folders to ledger entries, and from those results/spectrum.md and results/theorems.md;
figures are drawn from the folders.

    python -m fairseq_linformer.reproduce.analysis OUT --results results --data "wiki: ..."
"""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any, Dict, Iterable

from ..analysis.figures import draw_spectra
from ..analysis.result import Spectrum
from ..analysis.result import read as read_spectrum
from ..analysis.theorem_figures import draw_rank_k, draw_theorem1, draw_theorem2
from ..analysis.theorems import NUMBERS
from . import ledger
from .analysis_entries import PERPLEXITY, once, spectrum_entry, theorem_entries
from .cells import name
from .demo import last_stats
from .spectrum_text import spectrum as spectrum_text
from .theorems_text import theorems as theorems_text

COMMAND = "scripts/analysis.sh WIKI BOOKS IMDB OUT"
ROBERTA = {
    "roberta-64-wiki": "RoBERTa, n = 64, Wikipedia",
    "roberta-512-wiki": "RoBERTa, n = 512, Wikipedia",
    "roberta-512-books": "RoBERTa, n = 512, books",
    "roberta-512-imdb": "RoBERTa, n = 512, IMDB",
}
LINFORMER = {"linformer-wiki": "Linformer, n = 512, k = 256, Wikipedia"}
THEOREMS = {
    "random": "random",
    "roberta": "RoBERTa",
    "linformer": "Linformer, k = 256",
    "width-8": "random, d = 8",
    "width-16": "random, d = 16",
    "width-32": "random, d = 32",
}
MODELS = {"roberta": "RoBERTa, n = 512", "headwise": "Linformer, headwise, n = 512, k = 256"}
PRETRAINING = "real-text-pretraining-n512.json"
"""The entry of the models that are looked at here; it has what a model without context reaches."""
SHOWN_K = 128
"""At which the report shows the errors of theorem 2, besides the theorem's own k."""


def commit_of(out: Path, names: Iterable[str]) -> str:
    """The commits that runs began with."""
    return "; ".join(sorted({(out / f"{name}.commit").read_text().strip() for name in names}))


def entries_of(out: Path, spectra: Dict[str, Spectrum], theorems: Dict[str, Dict[str, Any]], note: str, common: dict) -> list:
    """Five entries: the spectra of RoBERTa and of the Linformer, theorem 1, theorem 2, the best of each rank."""
    ours, linformer = ({title: spectra[title] for title in names.values()} for names in (ROBERTA, LINFORMER))
    entries = [
        spectrum_entry("spectrum-roberta", "Figure 1 on RoBERTa of 2 layers of 128: normalised cumulative singular values of P", ours,
                       commit_of(out, [f"spectrum-{run}" for run in ROBERTA]), "", common),
        spectrum_entry("spectrum-linformer", "The same of the n x k maps of a Linformer, headwise, and of E and F", linformer,
                       commit_of(out, [f"spectrum-{run}" for run in LINFORMER] + [f"perplexity-{model}" for model in MODELS]), note, common),
        *theorem_entries(theorems, commit_of(out, [f"theorems-{run}" for run in THEOREMS]), note, common),
    ]  # fmt: skip
    for model, title in MODELS.items():
        found = last_stats(out / f"perplexity-{model}.log", "test_ppl")["test_ppl"]
        entries[1].measured[name(PERPLEXITY, model=title)] = once(found, "perplexity")
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder that scripts/analysis.sh filled")
    parser.add_argument("--data", required=True, help="what the texts are, in words")
    parser.add_argument("--note", default="", help="a sentence on the models, to stand in the entries and reports")
    parser.add_argument("--results", type=Path, default=Path("results"), help=f"holds {PRETRAINING} already (%(default)s)")
    args = parser.parse_args()
    logging.getLogger().setLevel(logging.WARNING)
    try:
        pretraining = ledger.read(args.results / PRETRAINING)
        spectra = {title: read_spectrum(args.out / f"spectrum-{run}") for run, title in {**ROBERTA, **LINFORMER}.items()}
        theorems = {title: json.loads((args.out / f"theorems-{run}" / NUMBERS).read_text()) for run, title in THEOREMS.items()}
        entries = entries_of(args.out, spectra, theorems, args.note, ledger.circumstances(args.data, COMMAND))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"analysis: {error}")
    paths = [ledger.write(entry, args.results) for entry in entries]
    print(*paths, sep="\n")
    roberta, linformer, first, second, best = (ledger.read(path) for path in paths)
    (args.results / "spectrum.md").write_text(spectrum_text(roberta, linformer, pretraining))
    (args.results / "theorems.md").write_text(theorems_text(first, second, best, SHOWN_K))
    at_512 = [title for title in ROBERTA.values() if "512" in title]
    draw_spectra(args.results / "spectrum.png", [spectra[title] for title in at_512], at_512)
    draw_spectra(args.results / "spectrum_linformer.png", [spectra[title] for title in LINFORMER.values()], list(LINFORMER.values()))
    random = "random Q, K and V, d = 64"
    of = {title: f"{title}, n = 512, on Wikipedia" for title in ("RoBERTa", THEOREMS["linformer"])}
    draw_theorem1(args.results / "theorem1.png", theorems["random"], random)
    draw_theorem1(args.results / "theorem1_roberta.png", theorems["RoBERTa"], of["RoBERTa"])
    draw_theorem2(args.results / "theorem2.png", theorems["random"], random)
    draw_rank_k(args.results / "rank_k.png", theorems[THEOREMS["linformer"]], of[THEOREMS["linformer"]])


if __name__ == "__main__":
    main()
