"""results/theorems.md, of ledger entries alone. What is concluded from it stands in docs/analysis.md, written by hand."""

import math
from typing import List

from ..analysis import theorem1, theorem2
from ..analysis.rank_k import BEST
from . import ledger
from .analysis_entries import SHARE
from .cells import between, count, groups, head, number, row, spread
from .ledger import Entry

EPSILON = 0.5
PROOF, PROOF_N, STEP_2, NOTHING = "proof, delta = 2^-n", "proof, delta = 1/n", "step 2 alone", "F = 0"


def theorems(first: Entry, second: Entry, best: Entry, k: int) -> str:
    """results/theorems.md.

    Args:
        k: at which the candidates of theorem 2 are shown, besides the theorem's own.
    """
    runs = second.configuration["runs"]
    lines = [
        "# The two theorems, in numbers", "",
        "`analyze theorems`: P of random Q, K, V (independent N(0, 1), d = 64) and of all heads of this project's RoBERTa and of a Linformer (2",
        "layers, 4 heads, d = 32, n = 512, two sentences of Wikipedia; [real_text.md](real_text.md)). eps = 0.5 in all tables; other eps, and",
        "lowest and highest over heads and draws of R, are in the entries. All in double precision. Definitions, with the equations they follow",
        "and what is missing in the proofs, are in `fairseq_linformer/analysis/theorem1.py`, `theorem2.py` and `rank_k.py`; what the numbers say",
        "is in [docs/analysis.md](../docs/analysis.md).", "",
        "Draws of R, for theorem 1 / for theorem 2: " + "; ".join(f"{title}: {f['draws']} / {f['draws_theorem2']}" for title, f in runs.items()) + ".", "",
        "## Theorem 1", "", "![theorem 1, random heads](theorem1.png)", "", "![theorem 1, RoBERTa](theorem1_roberta.png)", "",
        "The share of columns w of V, heads and draws for which ‖P RᵀR w - P w‖ <= eps ‖P w‖. ‖P‖ ‖w‖ / ‖P w‖ (Frobenius) is the median over w,",
        "then over heads (lowest to highest head). The formula is E ‖P RᵀR w - P w‖² = (‖P‖_F² ‖w‖² + ‖P w‖²) / k, over ‖P w‖², a mean over w; the k",
        "it asks for is that with which the mean is eps². The theorem's k is 5 log(n) / (eps² - eps³).", "",
        *_theorem1(first), "", *_theorem1_said(first), "",
        "The lemma by itself, for pairs of a row u of P and a column w, and for the length of R w:", "", *_lemma(first), "", *_lemma_said(first), "",
        "## Theorem 2", "", "![theorem 2, random heads](theorem2.png)", "",
        "Errors of X against P V: the median over rows, then over heads and draws. \"proof\" is softmax(A Eᵀ) F V with E = delta R,",
        "F = exp(-delta) R; \"step 2 alone\" is P RᵀR V, which needs P; \"F = 0\" is nothing at all. At the theorem's own k,",
        "min{9 d log(d) / eps², 5 log(n) / eps²} with 1 for Theta:", "",
        *_own_k(second), "", f"At k = {k}; \"rows differ by\" is ‖X - mean row‖ / ‖X‖:", "", *_theorem2(second, k), "", *_theorem2_said(second, k), "",
        "Step by step: \"needed\" is ‖exp(x Eᵀ) - exp(x) Rᵀ‖ / ‖exp(x)‖ and \"printed\" ‖exp(delta x Rᵀ) - exp(delta x) Rᵀ‖ / ‖exp(x)‖, medians over",
        "rows; \"all steps\" is ‖exp(x Eᵀ) F V - exp(x) V‖ / (‖exp(x)‖ ‖V‖_F); \"sums\" is the sum of exp(x Eᵀ) over that of exp(x). Gamma exists where",
        "[exp(A Eᵀ) F V, exp(A) V] is of rank 2 d; a star where the columns are those of the limit of small delta (see `gamma_columns`). Its longest",
        "row is a median over the heads and draws where it exists.", "",
        *_steps(second), "",
        "How large k must be for step 2 alone to hold for all n rows at once in 90 % of the draws (of so few draws: in all), from a grid of powers",
        "of the root of 2; medians over the heads where one is found (\"over n\" where there is none):", "", *_needed(second), "",
        "A step of the grid is a factor of 1.41. A union bound over n rows lets k grow like log(n), "
        + _log_growth(second) + ": below the grid, so that a growth like log(n) can neither be seen nor be excluded here.", "",
        "## The best of each rank", "", "![errors against k](rank_k.png)", "",
        "Relative error of the map, ‖S - P‖_F / ‖P‖_F, and of the output, ‖S V - P V‖_F / ‖P V‖_F; means over heads. The figure is of the Linformer.", "",
        *_best(best), "", *_best_said(best), "", ledger.footer(second), "", f"Commit {second.commit}. {second.configuration['note']}".rstrip(), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _theorem1(entry: Entry) -> List[str]:
    stretches = {(w["heads"], w["n"]): cells["stretch"] for w, cells in groups(entry, "heads", "n")}
    errors = {(w["heads"], w["n"], w["k"]): cells for w, cells in groups(entry, "heads", "n", "k")}
    lines = head("heads", "n", "‖P‖ ‖w‖ / ‖P w‖", "k of the theorem", "k by the formula", "k", "measured", "bound of the proof", "with eps ‖P‖ ‖w‖",
                 "mean squared error: measured", "by the formula")  # fmt: skip
    for w, cells in groups(entry, "heads", "n", "k", "eps"):
        n, k, of = int(w["n"]), int(w["k"]), errors[w["heads"], w["n"], w["k"]]
        if float(w["eps"]) == EPSILON and 4 * k >= n:
            lines.append(row(w["heads"], n, spread(stretches[w["heads"], w["n"]], ".1f"), f"{theorem1.stated_k(n, EPSILON):.0f}",
                             f"{k * of['expected error'].value / EPSILON**2:,.0f}", k, number(cells["theorem"]),
                             f"{theorem1.theorem_bound(n, k, EPSILON):.2f}", number(cells["lengths"]), number(of["squared error"], ".3g"),
                             number(of["expected error"], ".3g")))  # fmt: skip
    return lines


def _theorem1_said(entry: Entry) -> List[str]:
    below, below_lengths, off = [], [], []
    for w, cells in groups(entry, "heads", "n", "k", "eps"):
        bound = theorem1.theorem_bound(int(w["n"]), int(w["k"]), float(w["eps"]))
        if bound > 0:
            below.append(cells["theorem"].value < bound)
            below_lengths.append(cells["lengths"].value < bound)
    for _, cells in groups(entry, "heads", "n", "k"):
        off.append(abs(cells["squared error"].value / cells["expected error"].value - 1))
    return [
        f"- Of the rows (heads, n, k, eps) where the bound of the proof is above 0, the measured probability is below it in {count(below)}; with lengths",
        f"  on the right side in {count(below_lengths)}.",
        f"- The mean squared error is {100 * max(off):.1f} % at most from the formula.",
    ]


def _lemma(entry: Entry) -> List[str]:
    longest = {w["heads"]: int(w["n"]) for w, _ in groups(entry, "heads", "n")}  # n rises
    lines = head("heads", "n", "k", "promised for a product", "printed: within eps of it", "of lengths: within eps of ‖u‖ ‖w‖", "promised for a length",
                 "‖R w‖ <= (1 + eps) ‖w‖")  # fmt: skip
    for w, cells in groups(entry, "heads", "n", "k", "eps"):
        k = int(w["k"])
        if float(w["eps"]) == EPSILON and int(w["n"]) == longest[w["heads"]] and k in (64, 128, 256):
            pair, pair_lengths, norms = (number(cells[what], ".3f") for what in ("pair", "pair_lengths", "norms"))
            promised = f"{theorem1.lemma_bound(k, EPSILON):.3f}", f"{theorem1.norm_bound(k, EPSILON):.3f}"
            lines.append(row(w["heads"], w["n"], k, promised[0], pair, pair_lengths, promised[1], norms))
    return lines


def _lemma_said(entry: Entry) -> List[str]:
    promised = {"pair": theorem1.lemma_bound, "pair_lengths": theorem1.lemma_bound, "norms": theorem1.norm_bound}
    short = {what: [] for what in promised}
    for w, cells in groups(entry, "heads", "n", "k", "eps"):
        for what, bound in promised.items():
            if (least := bound(int(w["k"]), float(w["eps"]))) > 0:
                short[what].append(cells[what].value < least)
    return [f"Of the rows (heads, n, k, eps) for which the lemma promises anything, it holds less often than promised in {count(short['pair'])} as printed, in "
            f"{count(short['pair_lengths'])} with lengths, and for the length of R w in {count(short['norms'])}."]  # fmt: skip


def _own(w) -> int:
    return math.ceil(theorem2.stated_k(int(w["n"]), int(w["d"]), EPSILON).k)


def _own_k(entry: Entry) -> List[str]:
    lines = head("heads", "n", "d", "9 d log(d) / eps²", "5 log(n) / eps²", "k", "X", "error / ‖P_i‖ ‖V‖_2", "rows within 0.5 of it",
                 "/ ‖P_i‖ ‖V‖_F", "/ ‖P_i V‖")  # fmt: skip
    for w, cells in groups(entry, "heads", "n", "d", "k", "X"):
        if int(w["k"]) == _own(w) and w["X"] in (PROOF, PROOF_N, STEP_2, NOTHING):
            stated = theorem2.stated_k(int(w["n"]), int(w["d"]), EPSILON)
            lines.append(row(w["heads"], w["n"], w["d"], f"{stated.of_d:,.0f}", f"{stated.of_n:,.1f}", w["k"], w["X"], spread(cells["spectral"], ".3f"),
                             number(cells["spectral within eps"], ".3f"), number(cells["frobenius"], ".3f"), number(cells["true"], ".3f")))  # fmt: skip
    return lines


def _theorem2(entry: Entry, k: int) -> List[str]:
    lines = head("heads", "n", "X", "error / ‖P_i‖ ‖V‖_F", "/ ‖P_i‖ ‖V‖_2", "/ ‖P_i V‖", "rows within 0.5 of ‖P_i‖ ‖V‖_F", "of ‖P_i‖ ‖V‖_2",
                 "of ‖P_i V‖", "rows differ by")  # fmt: skip
    for w, cells in groups(entry, "heads", "n", "d", "k", "X"):
        if int(w["k"]) == k:
            lines.append(row(w["heads"], w["n"], w["X"], *(number(cells.get(what), ".3f") for what in (
                "frobenius", "spectral", "true", "frobenius within eps", "spectral within eps", "true within eps", "same rows"))))  # fmt: skip
    return lines


def _theorem2_said(entry: Entry, k: int) -> List[str]:
    by = {(w["heads"], w["n"], w["k"], w["X"]): cells for w, cells in groups(entry, "heads", "n", "d", "k", "X")}
    lines = []
    for proof in (PROOF, PROOF_N):
        places = [at[:3] for at in by if at[3] == proof]
        for norm, words in (("spectral", "‖P_i‖ ‖V‖_2"), ("frobenius", "‖P_i‖ ‖V‖_F"), ("true", "‖P_i V‖")):
            nearer = [at for at in places if by[(*at, proof)][norm].value < by[(*at, NOTHING)][norm].value]
            which = "; ".join("{}, n = {}, k = {} ({:.5f} to {:.5f})".format(*at, *(by[(*at, X)][norm].value for X in (proof, NOTHING))) for at in nearer)
            where = f": {which}" if which else ""
            lines.append(f"- {proof}: over {words} nearer to P V than 0 is in {len(nearer)} of {len(places)} rows (heads, n, k){where}.")
    random = [(int(n), cells) for (heads, n, k_, X), cells in by.items() if heads == "random" and int(k_) == k and X == PROOF]
    true, spectral = (", ".join(number(cells[norm]) for _, cells in random) for norm in ("true", "spectral"))
    lines.append(f"- Random heads, k = {k}: the error of \"{PROOF}\" over ‖P_i V‖ is {true} and over ‖P_i‖ ‖V‖_2 {spectral} at n = "
                 + ", ".join(f"{n:,}" for n, _ in random) + ".")  # fmt: skip
    step = [cells["frobenius"].value for (_, _, k_, X), cells in by.items() if int(k_) == k and X == STEP_2]
    lines.append(f"- Step 2 alone, k = {k}, a row in the median: {between(step, '.3f')} over ‖P_i‖ ‖V‖_F in the median over heads, at every n; 1 / sqrt(k) is "
                 f"{1 / math.sqrt(k):.3f}.")  # fmt: skip
    return lines


def _steps(entry: Entry) -> List[str]:
    lines = head("heads", "n", "k", "delta", "needed", "printed", "all steps", "sums", "rank of 2 d", "Gamma exists in",
                 "longest row, rows chosen", "at random")  # fmt: skip
    for w, cells in groups(entry, "heads", "n", "d", "k", "delta"):
        gamma = [""] * 4
        if "rank" in cells:
            star = "*" if cells["limit"].value else ""
            gamma = [f"{cells['rank'].value:.0f} of {2 * int(w['d'])}{star}", f"{100 * cells['longest' + SHARE].value:.0f} %",
                     number(cells.get("longest"), ".1f") or "none", number(cells.get("longest_random"), ".1f") or "none"]  # fmt: skip
        lines.append(row(w["heads"], w["n"], w["k"], w["delta"], *(number(cells.get(what), ".3g") or "above 1e308" for what in ("needed", "printed", "whole")),
                         number(cells.get("sums"), ".3g") or "above 1e308", *gamma))  # fmt: skip
    return lines


def _needed(entry: Entry) -> List[str]:
    lines = head("heads", "n", "d", "k needed, ‖V‖_F", "k needed, ‖V‖_2", "9 d log(d) / eps²", "5 log(n) / eps²", "the theorem's, the smaller")
    for w, cells in groups(entry, "heads", "n", "d"):
        stated = theorem2.stated_k(int(w["n"]), int(w["d"]), EPSILON)
        needed = []
        for norm in ("frobenius", "spectral"):
            share = cells[f"k needed, {norm}{SHARE}"].value
            k = number(cells.get(f"k needed, {norm}"), ".0f") or "over n"
            needed.append(k if share in (0, 1) else f"{k} (in {100 * share:.0f} % of heads)")
        lines.append(row(w["heads"], w["n"], w["d"], *needed, f"{stated.of_d:,.0f}", f"{stated.of_n:,.0f}", f"{stated.k:,.0f}"))
    return lines


def _log_growth(entry: Entry) -> str:
    """By how much log(n) grows over the n where the random heads have a k with the spectral norm."""
    found = [int(w["n"]) for w, cells in groups(entry, "heads", "n", "d") if w["heads"] == "random" and "k needed, spectral" in cells]
    if len(found) < 2:
        return "which needs two lengths to be seen"
    return f"by a factor of {math.log(max(found)) / math.log(min(found)):.2f} from n = {min(found):,} to {max(found):,}"


def _best(entry: Entry, ks=(16, 64, 256)) -> List[str]:
    found = groups(entry, "heads", "n", "k", "S")
    names = list(dict.fromkeys(w["S"] for w, _ in found))
    cells_of = {(w["heads"], int(w["n"]), int(w["k"]), w["S"]): cells for w, cells in found}
    lines = head("heads", "n", "k", *names)
    longest = {heads: n for heads, n, _, _ in cells_of}  # n rises
    for heads, n, k in dict.fromkeys((heads, n, k) for heads, n, k, _ in cells_of if k in ks and n == longest[heads]):
        cells = (cells_of.get((heads, n, k, name), {}) for name in names)
        lines.append(row(heads, n, k, *(" / ".join(number(cell.get(what)) or "-" for what in ("map", "output")) if cell else "" for cell in cells)))
    return lines


def _best_said(entry: Entry) -> List[str]:
    by = {(w["heads"], int(w["n"]), int(w["k"]), w["S"]): cells for w, cells in groups(entry, "heads", "n", "k", "S")}
    lines = []
    for part in (8, 2):
        best = {at[:3]: cells["map"].value for at, cells in by.items() if at[3] == BEST and at[1] == part * at[2]}
        if best:
            times = [by[(*at, "mean pooling")]["map"].value / value for at, value in best.items()]
            lines.append(f"- At k = n/{part} the best map leaves {between(best.values())} of P, and mean pooling's error is {between(times)} times that.")
    for name in ("theorem 1, P R^T R", "theorem 2, delta = 2^-n"):
        nearer = [at for at, cells in by.items() if at[3] == name and cells["map"].value < 1]
        rows = sum(at[3] == name for at in by)
        which = "; ".join(f"{heads}, n = {n}, k = {k} ({by[heads, n, k, s]['map'].value:.3f})" for heads, n, k, s in nearer)
        lines.append(f"- The map of \"{name}\" is nearer to P than 0 is in {len(nearer)} of {rows} rows (heads, n, k){': ' + which if which else ''}.")
    return lines
