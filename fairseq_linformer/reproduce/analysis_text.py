"""The words and tables of results/spectrum.md and results/theorems.md. Numbers are put in; what is said about them was read off
them, and ``scripts/analysis.sh`` says it again of other numbers without looking: read it with them."""

from typing import Any, Dict, List, Optional

from ..analysis.result import Spectrum, dimensions
from . import ledger
from .ledger import Entry


def _row(*cells: Any) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _head(*cells: str) -> List[str]:
    return [_row(*cells), "|" + "---|" * len(cells)]


def _number(value: Optional[float], digits: int = 2) -> str:
    return "none" if value is None else f"{value:.{digits}f}"


def _range(values, digits: int = 2) -> str:
    low, high = float(min(values)), float(max(values))
    return f"{low:.{digits}f}" if low == high else f"{low:.{digits}f} to {high:.{digits}f}"


def _spectra(spectra: Dict[str, Spectrum]) -> List[str]:
    lines = _head("model and text", "sentences", "layer", "cumulative value at index", "mean over heads", "heads", "k for 0.9 of the values, by head",
                  "k for 0.9 of the squares", "rank, mean by head")  # fmt: skip
    for title, s in spectra.items():
        values, squares = dimensions(s, 0.9), dimensions(s, 0.9, "squares")
        for layer, heat in enumerate(s.heat):
            lines.append(_row(title, f"{s.facts['sentences']:,}", layer + 1, f"{s.index} of {s.curve.shape[-1]}", f"{heat.mean():.3f}", _range(heat, 3),
                              "/".join(map(str, values[layer])), "/".join(map(str, squares[layer])),
                              "/".join(f"{rank:.0f}" for rank in s.rank[0, layer])))  # fmt: skip
    return lines


def spectrum(roberta: Dict[str, Spectrum], linformer: Dict[str, Spectrum], entries: List[Entry]) -> str:
    """results/spectrum.md."""
    differences = [s.facts["float64_difference"] for s in {**roberta, **linformer}.values()]
    lines = [
        "# The spectrum of attention: Figure 1 of the paper on models of this project", "",
        "The paper takes the context mapping matrices P of RoBERTa-base and large (n = 512), and plots the cumulative singular values,",
        "normalised by their sum and averaged over 10,000 sentences. Here it is RoBERTa of 2 layers of 128, 4 heads, trained on Wikipedia at",
        "n = 64 and 512 ([real_text.md](real_text.md)), and Linformers trained from the second. roberta-base and roberta-large were not",
        "measured: the command takes them (`analyze spectrum roberta-base ...`), but they cannot be had on this machine.", "",
        "![spectra of RoBERTa](spectrum.png)", "", *_spectra(roberta), "",
        "Text is packed to sentences of exactly n tokens, IMDB has a review in each (longer ones cut, shorter ones skipped). No token is masked.",
        f"Singular values are of single precision; on the first sentences of each run the curve differs from that of double precision by {max(differences):.0e} at most.", "",
        *ROBERTA_SAYS, "",
        "## Linformers: their own n x k maps, and E and F", "",
        "![spectra of Linformers](spectrum_linformer.png)", "", *_spectra(linformer), "",
    ]  # fmt: skip
    lines += _head("model", "matrix", "singular values", "largest", "smallest", "rank", "k for 0.9")
    for title, s in linformer.items():
        for name, found in s.numbers()["projections"].items():
            lines.append(_row(title, name, found["singular_values"], f"{found['largest'][0]:.3f}", f"{found['smallest'][0]:.4f}", found["rank"][0],
                              found["dimension_for"]["0.9"][0]))  # fmt: skip
    lines += ["", *LINFORMER_SAYS, "", "## Attention of a sentence", "", "![attention of RoBERTa](attention_roberta.png)", "",
              "![attention of a Linformer](attention_linformer.png)", "", ledger.footer(entries[0]), f"Commits: {entries[0].commit}; {entries[1].commit}.", ""]  # fmt: skip
    return "\n".join(lines)


def _theorem1(found: Dict[str, Any]) -> List[str]:
    lines = _head("heads", "n", "P as long as, times", "k", "measured", "bound of the proof", "with eps ‖P‖ ‖w‖", "mean squared error: measured", "by the formula")
    for title, numbers in found.items():
        for row in numbers["theorem1"]:
            j = row["epsilon"].index(0.5)
            for i, k in enumerate(row["k"]):
                if k >= row["n"] // 4:
                    lines.append(_row(title, row["n"], f"{row['stretch']['median']:.1f}", k, f"{row['theorem'][i][j]:.2f}", f"{row['bound'][i][j]:.2f}",
                                      f"{row['lengths'][i][j]:.2f}", f"{row['squared_error'][i]:.3g}", f"{row['expected_error'][i]:.3g}"))  # fmt: skip
    return lines


def _lemma(found: Dict[str, Any]) -> List[str]:
    lines = _head("heads", "n", "k", "lemma promises", "printed: within eps of the product", "of lengths: within eps of ‖u‖ ‖w‖")
    for title, numbers in found.items():
        row = numbers["theorem1"][-1]
        j = row["epsilon"].index(0.5)
        for k in (64, 128, 256):
            if k in row["k"]:
                i = row["k"].index(k)
                lines.append(_row(title, row["n"], k, *(f"{row[what][i][j]:.3f}" for what in ("lemma_bound", "pair", "pair_lengths"))))
    return lines


def _theorem2(found: Dict[str, Any], k: int) -> List[str]:
    lines = _head("heads", "n", "k", "X", "error / ‖P_i‖ ‖V‖_F", "/ ‖P_i‖ ‖V‖_2", "/ ‖P_i V‖", "rows within 0.5 of ‖P_i‖ ‖V‖_F", "of ‖P_i V‖", "rows differ by")
    for title, numbers in found.items():
        for row in numbers["theorem2"]["errors"]:
            if row["k"] != k:
                continue
            for name, values in row["candidates"].items():
                cells = [_number(values.get(what), 3) if what in values else "" for what in
                         ("frobenius", "spectral", "true", "frobenius within eps", "true within eps", "same rows")]  # fmt: skip
                lines.append(_row(title, row["n"], k, name, *cells))
    return lines


def _steps(found: Dict[str, Any]) -> List[str]:
    lines = _head("heads", "n", "k", "delta", "needed", "printed", "all steps", "rank of 2 d", "longest row of Gamma, rows chosen", "at random")
    for title, numbers in found.items():
        three = {(row["n"], row["delta"]): row for row in numbers["theorem2"]["step3"]}
        for row in numbers["theorem2"]["step1"]:
            other = three.get((row["n"], row["delta"]))
            cells = ["", "", ""] if other is None else [f"{other['rank']:.0f} of {other['wanted']:.0f}", _number(other["longest"], 1), _number(other["longest_random"], 1)]
            lines.append(_row(title, row["n"], row["k"], row["delta"], *(f"{row[what]:.3g}" for what in ("needed", "printed", "whole")), *cells))
    return lines


def _needed(found: Dict[str, Any]) -> List[str]:
    lines = _head("heads", "n", "d", "k needed, ‖V‖_F", "k needed, ‖V‖_2", "9 d log(d) / eps^2")
    for title, numbers in found.items():
        for row in numbers["theorem2"]["needed_k"]:
            cells = (f"{row[norm]:.0f}" if row[norm] is not None else f"over {row['n']}" for norm in ("frobenius", "spectral"))
            lines.append(_row(title, row["n"], row["d"], *cells, f"{row['stated']:,.0f}"))
    return lines


def _best(found: Dict[str, Any], ks=(16, 64, 256)) -> List[str]:
    names = list(dict.fromkeys(name for numbers in found.values() for row in numbers["rank_k"] for name in row["errors"]))
    lines = _head("heads", "n", "k", *names)
    for title, numbers in found.items():
        for row in numbers["rank_k"]:
            if row["k"] in ks and row["n"] == max(r["n"] for r in numbers["rank_k"]):
                cells = []
                for name in names:
                    values = row["errors"].get(name, {})
                    cells.append(" / ".join(f"{values[what]:.2f}" if what in values else "-" for what in ("map", "output")) if values else "")
                lines.append(_row(title, row["n"], row["k"], *cells))
    return lines


def theorems(found: Dict[str, Dict[str, Any]], entry: Entry) -> str:
    """results/theorems.md."""
    random = {title: numbers for title, numbers in found.items() if title == "random"}
    lines = [
        "# The two theorems, in numbers", "",
        "`analyze theorems`: P of random Q, K, V (independent N(0, 1), d = 64) and of all heads of this project's RoBERTa and Linformers (2 layers, 4",
        "heads, d = 32, n = 512, two sentences of Wikipedia). eps = 0.5 in all tables; all in double precision. The definitions, with the",
        "equations they follow, are in `fairseq_linformer/analysis/theorem1.py`, `theorem2.py` and `rank_k.py`.", "",
        *SUMMARY, "",
        "## Theorem 1", "", "![theorem 1, random heads](theorem1.png)", "", "![theorem 1, RoBERTa](theorem1_roberta.png)", "",
        "The share of draws of R (and of columns w of V) for which ‖P RᵀR w - P w‖ <= eps ‖P w‖. \"P as long as, times\" is the median of",
        "‖P‖_F ‖w‖ / ‖P w‖. The formula is E ‖P RᵀR w - P w‖² = (‖P‖_F² ‖w‖² + ‖P w‖²) / k, over ‖P w‖².", "",
        *_theorem1(found), "", *THEOREM_1_SAYS, "", "The lemma by itself, for pairs of a row u of P and a column w:", "", *_lemma(found), "",
        "## Theorem 2", "", "![theorem 2, random heads](theorem2.png)", "",
        "Medians over rows and draws of the error of X against P V. \"proof\" is softmax(A Eᵀ) F V with E = delta R, F = exp(-delta) R; \"step 2 alone\" is",
        "P RᵀR V, which needs P; \"F = 0\" is nothing at all. \"rows differ by\" is ‖X - mean row‖ / ‖X‖.", "",
        *_theorem2(found, 128), "", *THEOREM_2_SAYS, "",
        "Step by step: \"needed\" is ‖exp(x Eᵀ) - exp(x) Rᵀ‖ / ‖exp(x)‖ and \"printed\" ‖exp(delta x Rᵀ) - exp(delta x) Rᵀ‖ / ‖exp(x)‖, medians over rows; \"all",
        "steps\" is ‖exp(x Eᵀ) F V - exp(x) V‖ / (‖exp(x)‖ ‖V‖_F). Gamma exists where [exp(A Eᵀ) F V, exp(A) V] is of rank 2 d.", "",
        *_steps(found), "", *STEPS_SAY, "",
        "How large k must be for step 2 alone to hold for all n rows at once, in nine draws of ten:", "", *_needed(found), "", *NEEDED_SAYS, "",
        "## The best of each rank", "", "![errors against k](rank_k.png)", "",
        "Relative error of the map, ‖S - P‖_F / ‖P‖_F, and of the output, ‖S V - P V‖_F / ‖P V‖_F; means over heads.", "",
        *_best(found), "", *BEST_SAYS, "", ledger.footer(entry), f"Commit {entry.commit}. The figure of theorem 2 is of {', '.join(random)} heads, the last one of the Linformer with k = 64.", "",
    ]  # fmt: skip
    return "\n".join(lines)


ROBERTA_SAYS: List[str] = []
LINFORMER_SAYS: List[str] = []
SUMMARY: List[str] = []
THEOREM_1_SAYS: List[str] = []
THEOREM_2_SAYS: List[str] = []
STEPS_SAY: List[str] = []
NEEDED_SAYS: List[str] = []
BEST_SAYS: List[str] = []
