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
        f"Singular values are of single precision; on the first sentences of each run the curve differs from that of double precision by {max(differences):.0e}",
        "at most. The model of n = 512 was grown from that of n = 64 by repeating its position embeddings, and its attention still repeats every 64",
        "positions (the second picture below); one that was trained at 512 from the start may differ.", "",
        *ROBERTA_SAYS,
        f"- **The text matters little**: the values of a head at n = 512 differ by {_between_texts(roberta):.3f} at most between Wikipedia, books and IMDB.", "",
        "## Linformers: their own n x k maps, and E and F", "",
        "![spectra of Linformers](spectrum_linformer.png)", "", *_spectra(linformer), "",
    ]  # fmt: skip
    lines += _head("model", "matrix", "singular values", "largest", "smallest", "rank", "k for 0.9")
    for title, s in linformer.items():
        for name, found in s.numbers()["projections"].items():
            lines.append(_row(title, name, found["singular_values"], f"{found['largest'][0]:.3f}", f"{found['smallest'][0]:.4f}", found["rank"][0],
                              found["dimension_for"]["0.9"][0]))  # fmt: skip
    perplexities = {name: m.value for name, m in entries[1].measured.items() if name.endswith("validation perplexity")}
    lines += ["", *(f"{name}: {value:.1f}." for name, value in perplexities.items()), "", *LINFORMER_SAYS, "", "## Attention of a sentence", "", "![attention of RoBERTa](attention_roberta.png)", "",
              "![attention of a Linformer](attention_linformer.png)", "", ledger.footer(entries[0]), f"Commits: {entries[0].commit}; {entries[1].commit}.", ""]  # fmt: skip
    return "\n".join(lines)


def _between_texts(spectra: Dict[str, Spectrum]) -> float:
    """The largest difference of a head's value in the heat map between spectra of one n."""
    heats = [(s.facts["n"], s.heat) for s in spectra.values()]
    return max([float(abs(one - other).max()) for n, one in heats for m, other in heats if n == m])


def _theorem1(found: Dict[str, Any]) -> List[str]:
    lines = _head("heads", "n", "‖P‖ ‖w‖ / ‖P w‖", "k by the formula", "k", "measured", "bound of the proof", "with eps ‖P‖ ‖w‖",
                  "mean squared error: measured", "by the formula")  # fmt: skip
    for title, numbers in found.items():
        for row in numbers["theorem1"]:
            j = row["epsilon"].index(0.5)
            for i, k in enumerate(row["k"]):
                if k >= row["n"] // 4:
                    lines.append(_row(title, row["n"], f"{row['stretch']['median']:.1f}", f"{(row['stretch']['median'] ** 2 + 1) * 4:,.0f}", k, f"{row['theorem'][i][j]:.2f}", f"{row['bound'][i][j]:.2f}",
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
    lines = _head("heads", "n", "k", "X", "error / ‖P_i‖ ‖V‖_F", "/ ‖P_i‖ ‖V‖_2", "/ ‖P_i V‖", "rows within 0.5 of ‖P_i‖ ‖V‖_F", "of ‖P_i V‖",
                  "rows differ by")  # fmt: skip
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
            cells = ["", "", ""]
            if other is not None:
                cells = [f"{other['rank']:.0f} of {other['wanted']:.0f}", _number(other["longest"], 1), _number(other["longest_random"], 1)]
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


def theorems(found: Dict[str, Dict[str, Any]], entry: Entry, k: int) -> str:
    """results/theorems.md."""
    every, found = found, {title: numbers for title, numbers in found.items() if not title.startswith("random, ")}
    lines = [
        "# The two theorems, in numbers", "",
        "`analyze theorems`: P of random Q, K, V (independent N(0, 1), d = 64) and of all heads of this project's RoBERTa and Linformers (2 layers, 4",
        "heads, d = 32, n = 512, two sentences of Wikipedia). eps = 0.5 in all tables; all in double precision. The definitions, with the",
        "equations they follow, are in `fairseq_linformer/analysis/theorem1.py`, `theorem2.py` and `rank_k.py`.", "",
        *SUMMARY, "",
        "## Theorem 1", "", "![theorem 1, random heads](theorem1.png)", "", "![theorem 1, RoBERTa](theorem1_roberta.png)", "",
        "The share of draws of R (and of columns w of V) for which ‖P RᵀR w - P w‖ <= eps ‖P w‖. ‖P‖ ‖w‖ / ‖P w‖ is the median over",
        "columns and heads, of Frobenius norms. The formula is E ‖P RᵀR w - P w‖² = (‖P‖_F² ‖w‖² + ‖P w‖²) / k, over ‖P w‖².", "",
        *_theorem1(found), "", *THEOREM_1_SAYS, "", "The lemma by itself, for pairs of a row u of P and a column w:", "", *_lemma(found), "",
        "## Theorem 2", "", "![theorem 2, random heads](theorem2.png)", "",
        "Medians over rows and draws of the error of X against P V. \"proof\" is softmax(A Eᵀ) F V with E = delta R, F = exp(-delta) R; \"step 2 alone\" is",
        "P RᵀR V, which needs P; \"F = 0\" is nothing at all. \"rows differ by\" is ‖X - mean row‖ / ‖X‖.", "",
        *_theorem2(found, k), "", *THEOREM_2_SAYS, "",
        "Step by step: \"needed\" is ‖exp(x Eᵀ) - exp(x) Rᵀ‖ / ‖exp(x)‖ and \"printed\" ‖exp(delta x Rᵀ) - exp(delta x) Rᵀ‖ / ‖exp(x)‖, medians over rows; \"all",
        "steps\" is ‖exp(x Eᵀ) F V - exp(x) V‖ / (‖exp(x)‖ ‖V‖_F). Gamma exists where [exp(A Eᵀ) F V, exp(A) V] is of rank 2 d.", "",
        *_steps(found), "", *STEPS_SAY, "",
        "How large k must be for step 2 alone to hold for all n rows at once in 90 % of the draws (10 for the random heads of d = 64, 3 for the others), from a grid of",
        "powers of the root of 2; medians over heads:", "", *_needed(every), "", *NEEDED_SAYS, "",
        "## The best of each rank", "", "![errors against k](rank_k.png)", "",
        "Relative error of the map, ‖S - P‖_F / ‖P‖_F, and of the output, ‖S V - P V‖_F / ‖P V‖_F; means over heads.", "",
        *_best(found), "", *BEST_SAYS, "", ledger.footer(entry), f"Commit {entry.commit}. The last figure is of the Linformer with k = 64.", "",
    ]  # fmt: skip
    return "\n".join(lines)


ROBERTA_SAYS = [
    "What this shows:", "",
    "- **Some heads are of low rank, and some are of full rank.** Heads 1 and 3 of the first layer attend to a neighbour (the first picture",
    "  below): P is all but a shift by one place, a permutation, whose curve is the straight line, 0.25 at a quarter. Theirs is at 0.26",
    "  and 0.27. Heads 2 and 4 are above 0.95. \"A clear long-tail spectrum distribution across each layer, head and task\" is not what",
    "  the two show, and a mean over heads, as on the left of Figure 1, hides them.",
    "- **The higher layer is more skewed** in the mean over heads, as the paper says; of 2 layers, and because the neighbours are in the first.",
    "- **Low rank means a long tail, not a rank**: the numerical rank of a map of 512 x 512 is 400 and more in every head.",
    "- **k for a share of the spectrum grows with n**: for heads 1 and 3 of the first layer as fast as n does (56 of 64, 448 of 512), for the others",
    "  3 to 8 times from n = 64 to 512 (two models; the second was grown from the first). That is not the log(n) of theorem 1 in any head.",
    "- With the squares in place of the values, which is what the error of the best approximation is about, k is far smaller in the broad",
    "  heads (3 for a relative error of the root of 0.1) and as large as before in the neighbours.",
]
LINFORMER_SAYS = [
    "The maps have as many singular values as projected positions, and use them all: of rank 64 and 256, the neighbours' with an almost",
    "straight curve again. E and F are near the windows that they start from (averages over equal windows have equal singular values): the",
    "smallest singular value is at least a third of the largest, and nothing in them says that k could be less. A model trained for longer",
    "than these 1,500 updates, or from another start, may say otherwise.",
]
SUMMARY = [
    "In short:", "",
    "1. **The P̃ and the k of theorem 1's proof do not do what it says.** The step that fails is the lemma as it is printed: the error of an inner",
    "   product is bounded by eps times the product, where Johnson-Lindenstrauss has eps times the two lengths. At n = 2,048, k = 512 the",
    "   proof promises a probability of 1.00 for random heads; the measured one is 0.00.",
    "2. **With the lengths on the right side, ‖P‖ ‖w‖ for ‖P w‖, it holds at once**, with far less k than stated. But P w is many times",
    "   shorter than that where attention is spread and w changes sign. A relative error of eps needs k of (c + 1) / eps^2, c = (‖P‖ ‖w‖ / ‖P w‖)^2,",
    "   and c of random heads grows like n.",
    "3. **The construction in the proof of theorem 2 does not approximate attention.** With delta = 2^-n every query gets the same answer. Its",
    "   error is no smaller than that of the answer 0, at any n and k here, and at fixed k it grows with n. Step 1 of the proof fails for every delta.",
    "4. **What is independent of n is step 2**, Johnson-Lindenstrauss for P RᵀR V in terms of lengths: 1 / sqrt(k) at n = 128, 512 and 2,048. It",
    "   needs P.",
    "5. **None of this refutes that good E and F exist**, which is what theorem 2 claims, or that P̃ of low rank does (for one V rank d is always",
    "   enough). It is the proofs, and the k that they give, which these numbers do not support. And the inequality of theorem 2 is weak: F = 0",
    "   satisfies it.",
]
THEOREM_1_SAYS = [
    "- The bound rises from 0 to 1 between k = n/4 and n at n = 512; what is measured is 0.01 at k = n for random heads. Where a bound is above what is",
    "  measured, the statement is false there.",
    "- The measured squared error is what the formula says, in every row: it decides, not the number of dimensions of the space. The k that it gives",
    "  for eps = 0.5 (in the mean square) is above n for all the random heads, and four times as large when n is.",
    "- Of RoBERTa's heads ‖P‖ ‖w‖ / ‖P w‖ is least, 6.6, where attention is broad, and most, 22.6 = sqrt(n), where it looks at one place: P is then nearly a",
    "  permutation. At k = n, which saves nothing, the theorem holds for four tenths of its columns and draws.",
    "- Small things in the proof that change nothing: exp(A) D_A^-1 divides columns by their sums, where P is a softmax of rows; appendix A says k = log(n)",
    "  once and 5 log(n) / (eps^2 - eps^3) once; with that k the bound is 1 - 2 n^(-1/4), which is 0.58 at n = 512.",
]
THEOREM_2_SAYS = [
    "- \"rows differ by\" is 0.000 for delta = 2^-n: exp(x Eᵀ) is 1 in every place, the softmax 1/k, and the output the mean of the rows of F V,",
    "  whatever is asked. P V itself differs by 0.8. With delta = 1/n, which the proof names too, it is hardly more.",
    "- Over ‖P_i V‖ its error is above 1, where F = 0, no attention at all, has 1. At fixed k = 128 it grows with n in the random heads: 1.2, 2.5, 9.7.",
    "- Over the theorem's right side it is that of F = 0 and 1 / (k ‖P_i‖), which is about sqrt(n) / k where attention is spread: within 0.5 at these n",
    "  with the Frobenius norm, but not independent of n; with the spectral norm, in the random heads, above 0.5 from n = 512 on. F = 0 is nearer in the median",
    "  everywhere, so that to be within eps of that side says little.",
    "- Step 2 alone is 0.09 = 1 / sqrt(k) over ‖P_i‖ ‖V‖_F at every n: this part of the claim is supported.",
]
STEPS_SAY = [
    "- Step 1 needs that the first column goes to 0 with delta. It is about 1 for every small delta: exp(x Eᵀ) goes to 1, and exp(x) Rᵀ does not depend on delta. What the",
    "  proof prints instead is another difference, and does not go to 0 either. Before the softmax, the whole error over ‖exp(x)‖ ‖V‖_F is that of F = 0 or",
    "  somewhat more: the construction is small beside exp(x) V and has nothing to do with it.",
    "- With delta = 2^-n the matrix that Gamma is made with is of rank d + 1 of 2 d, and has no inverse. From delta = 1/n^2 on Gamma exists, and its longest row is shorter",
    "  than d if the 2 d rows are chosen well (by a pivoted QR). But then they are chosen by R, and step 2 is for rows that are fixed before; rows at random make it",
    "  long, up to millions. (With delta = 1 the models' exp(x Eᵀ) is so uneven that the rank is too small in half of the Linformers' heads.)",
]
NEEDED_SAYS = [
    "For step 2 alone k does not grow with n (random, d = 64: n = 512 and 2,048). With the Frobenius norm it does not grow with d either, 16 to 23; with the spectral norm it",
    "grows more slowly than d, from 128 to 362 while d goes from 8 to 64. The stated 9 d log(d) / eps^2 goes from 599 to 9,582, many times what is needed and larger than n in",
    "every row: an upper bound for step 2, whichever norm is meant, that promises nothing at these sizes. Of the whole construction no k <= n was found at which it follows P V.",
]
BEST_SAYS = [
    "- The best map of rank k = n/8 leaves 0.3 to 0.4 of P in the models, at n/2 still 0.1 to 0.2; a mean of heads with none to lose and of neighbours.",
    "- Mean pooling is at two to three times the best error at n/8, and at more at n/2, and the learnt E and F are where mean pooling is: they start as averages, learn",
    "  slowly, and are trained to predict words with their own Q, K and V, not to imitate the attention that these would have without E and F. So this says how far",
    "  a Linformer is from that attention, not how good it is.",
    "- The maps of both random projections are no nearer to P than 0 is, at any k.",
    "- The output of a head has a far better approximation than its map: P V has d = 32 columns, and k = d is enough for any one V. No E and F that are chosen before",
    "  V is seen can use that.",
]
