"""results/spectrum.md, of ledger entries alone. What is concluded from it stands in docs/analysis.md, written by hand."""

from typing import Dict, List

from . import ledger
from .analysis_entries import CUMULATIVE, K_SQUARES, K_VALUES, PERPLEXITY, RANK
from .cells import between, count, groups, head, number, row
from .ledger import Entry, Measurement

CONTEXT_FREE = "context_free_perplexity"


def spectrum(roberta: Entry, linformer: Entry, pretraining: Entry) -> str:
    """results/spectrum.md.

    Args:
        pretraining: what a model without context has, of the same text.
    """
    lines = [
        "# The spectrum of attention: Figure 1 of the paper on models of this project", "",
        "The paper takes the context mapping matrices P of RoBERTa-base and large (n = 512), and plots the cumulative singular values,",
        "normalised by their sum and averaged over 10,000 sentences. Here it is RoBERTa of 2 layers of 128, 4 heads, trained on Wikipedia at",
        "n = 64 and 512, and a Linformer ([real_text.md](real_text.md)). roberta-base and roberta-large were not measured: the command takes",
        "them (`analyze spectrum roberta-base ...`), but they could not be had here. What these numbers say, and what they do not, is in",
        "[docs/analysis.md](../docs/analysis.md).", "",
        "![spectra of RoBERTa](spectrum.png)", "",
        "Left: a curve for each layer, the mean over heads; right: each head at the dotted line, on Wikipedia.", "",
        *_spectra(roberta), "", "By head:", "", *_heads(roberta), "", *_texts(roberta), "", *_said(roberta), "",
        "## A Linformer: its own n x k maps, and E and F", "", *_models(roberta, linformer, pretraining), "",
        "![spectra of a Linformer](spectrum_linformer.png)", "", *_spectra(linformer), "", "By head:", "", *_heads(linformer), "",
        *_matrices(linformer), "",
        "## Attention of a sentence", "", "RoBERTa, n = 64, of a short sentence:", "", "![attention of RoBERTa, n = 64](attention_roberta.png)", "",
        "RoBERTa, n = 512, of 512 tokens of Wikipedia:", "", "![attention of RoBERTa, n = 512](attention_roberta_512.png)", "",
        "The Linformer, of the same; columns are projected positions:", "", "![attention of a Linformer](attention_linformer.png)", "",
        ledger.footer(roberta), "",
        f"RoBERTa at commit {roberta.commit}; the Linformer at commit {linformer.commit}. {linformer.configuration['note']}".rstrip(), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _by_layer(entry: Entry) -> Dict[tuple, List[Dict[str, Measurement]]]:
    layers: Dict[tuple, List[Dict[str, Measurement]]] = {}
    for where, cells in groups(entry, "run", "layer", "head"):
        layers.setdefault((where["run"], where["layer"]), []).append(cells)
    return layers


def _spectra(entry: Entry) -> List[str]:
    lines = head("model and text", "sentences", "layer", "cumulative value at index", "mean over heads", "lowest to highest head")
    for (run, layer), heads in _by_layer(entry).items():
        facts = entry.configuration["runs"][run]
        values = [cells[CUMULATIVE].value for cells in heads]
        index = f"{facts['index']} of {facts['singular_values']}"
        lines.append(row(run, f"{facts['sentences']:,}", layer, index, f"{sum(values) / len(values):.3f}", between(values, ".3f")))
    return lines


def _heads(entry: Entry) -> List[str]:
    lines = head("model and text", "layer", "cumulative value", K_VALUES, K_SQUARES, "rank, mean", "rank, least")
    for (run, layer), heads in _by_layer(entry).items():
        lowest = [cells[RANK].value if cells[RANK].spread is None else cells[RANK].spread[0] for cells in heads]
        lines.append(row(run, layer, *("/".join(number(cells[what], form) for cells in heads)
                                       for what, form in ((CUMULATIVE, ".2f"), (K_VALUES, ".0f"), (K_SQUARES, ".0f"), (RANK, ".0f"))),
                         "/".join(f"{value:.0f}" for value in lowest)))  # fmt: skip
    return lines


def _texts(entry: Entry) -> List[str]:
    """How texts became sentences, and how exact singular values are."""
    lines = ["No token is masked. A text became sentences so:", ""]
    for run, facts in entry.configuration["runs"].items():
        counts = facts["texts"]
        how = ("paragraphs follow each other and are cut every n tokens" if facts["cut"] == "packed" else
               f"one of each text: {counts['cut']:,} longer than n were cut, {counts['short']:,} shorter ones {facts['short_sentences']}")  # fmt: skip
        lines.append(f"- {run}: {facts['sentences']:,} sentences of {facts['n']} tokens from {counts['texts']:,} texts; {how}.")
    differences = [cells["float64 difference"].value for _, cells in groups(entry, "run") if "float64 difference" in cells]
    return [*lines, "", "Singular values are of single precision; of the first sentences of each run the curve differs from that of double precision by "
            f"{max(differences):.0e} at most."]  # fmt: skip


def _said(entry: Entry) -> List[str]:
    """What is computed from the entry."""
    heads = groups(entry, "run", "layer", "head")
    facts = entry.configuration["runs"]
    runs = {run: {(w["layer"], w["head"]): c for w, c in heads if w["run"] == run} for run in facts}
    shortest = min(facts, key=lambda run: facts[run]["n"])
    longest = max(facts, key=lambda run: facts[run]["n"])
    low, high = facts[shortest]["n"], facts[longest]["n"]
    lines = []
    if high > low:
        growth = sorted(cells[K_VALUES].value / runs[shortest][at][K_VALUES].value for at, cells in runs[longest].items())
        lines.append(f"- From n = {low} to {high}, {high / low:.4g} times, k for 0.9 of the values grows {between(growth)} times by head (two models: "
                     f"{shortest}; {longest}).")  # fmt: skip
    same = [run for run in facts if facts[run]["n"] == high]
    apart = max(abs(one[CUMULATIVE].value - runs[other][at][CUMULATIVE].value) for run in same for other in same for at, one in runs[run].items())
    lines.append(f"- Between the texts at n = {high} the value of a head differs by {apart:.3f} at most.")
    ranks = [cells[RANK].value for run in same for cells in runs[run].values()]
    lines.append(f"- The numerical rank of a map of {high} x {high} is {between(ranks, '.0f')} in the mean over sentences, by head and text.")
    sums = {(run, layer): sum(cells[CUMULATIVE].value for cells in heads) for (run, layer), heads in _by_layer(entry).items()}
    skewed = [sums[run, "2"] > sums[run, "1"] for run in facts]
    lines.append(f"- In the mean over heads the second layer is more skewed than the first in {count(skewed)} runs.")
    return lines


def _models(roberta: Entry, linformer: Entry, pretraining: Entry) -> List[str]:
    lines = [f"{pretraining.claim}. The models that are looked at here, measured again:", "", *head("model", PERPLEXITY)]
    for entry in (linformer, roberta):
        lines += [row(where["model"], number(cells[PERPLEXITY])) for where, cells in groups(entry, "model")]
    return [*lines, row("without context", number(pretraining.measured[CONTEXT_FREE], ".1f"))]


def _matrices(entry: Entry) -> List[str]:
    lines = head("model", "matrix", "head", "singular values", "largest", "smallest", "rank", "k for 0.9")
    for where, cells in groups(entry, "run", "matrix", "head"):
        lines.append(row(where["run"], where["matrix"], where["head"], number(cells["singular values"], ".0f"), number(cells["largest"], ".3f"),
                         number(cells["smallest"], ".4f"), number(cells[RANK], ".0f"), number(cells[K_VALUES], ".0f")))  # fmt: skip
    return lines
