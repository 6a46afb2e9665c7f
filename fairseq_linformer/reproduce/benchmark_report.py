"""Tables and figures of the benchmarks, from the ledger alone: results/benchmark.md and pictures beside it."""

from pathlib import Path
from typing import List, Optional, Sequence

from ..benchmark.fairseq_train import PARTS, REST
from ..files import atomic
from . import benchmark_bars, curves, ledger, paper
from .benchmark_bars import MISSING, setting, told
from .benchmarks import lengths_of
from .ledger import Entry, Measurement

NAME = "benchmark.md"


def write(results: Path) -> List[Path]:
    """Write the report of all ``benchmark-*.json`` in a folder, and its figures.

    Raises:
        ValueError: there is no such entry, or one is damaged.
    """
    found = [ledger.read(path) for path in sorted(Path(results).glob("benchmark-*.json"))]
    if not found:
        raise ValueError(f"{results} has no entries of a benchmark; benchmark inference, scaling and training write them")
    written = [Path(results) / NAME]
    with atomic(written[0]) as file:
        file.write(text(found))
    for entry in found:
        draw = FIGURES.get(entry.identifier.split("-")[1])
        if draw and len(lengths_of(entry)) > 1:
            path = Path(results) / f"{entry.identifier}.png"
            figure = curves.new_figure()
            draw(figure.subplots(), entry)
            with atomic(path, "wb") as file:
                figure.savefig(file, format="png")
            written.append(path)
    return written


def text(found: Sequence[Entry]) -> str:
    """All of it in Markdown."""
    lines = ["# Time and memory", "", "Medians of interleaved rounds, lowest to highest in brackets; \"equal\" where 1 lies between them.", ""]
    lines += benchmark_bars.lines(found)
    for entry in found:
        lines += [f"## {entry.identifier.removeprefix('benchmark-')}", "", entry.claim + ".", "", *_circumstances(entry)]
        lines += TABLES.get(entry.identifier.split("-")[1], _plain)(entry)
        lines += ["", ledger.footer(entry), f"Commit {entry.commit}.", ""]
    return "\n".join(lines)


def _circumstances(entry: Entry) -> List[str]:
    """How large and on what, by which clock, and what could not be measured."""
    c = entry.configuration
    width = f", width {c['embed_dim']}" if "embed_dim" in c else ""
    clock = f"; {c['clock']} clock" if "clock" in c else ""
    peak = f"; utilisation is of {_peaks(entry)} operations a second, from {c['peak_from']}" if _has_utilisation(entry) else ""
    lines = [f"{setting(entry)}{width}{clock}{peak}.", ""]
    if c.get("peak_from") == "a matrix product" and any("utilisation" in name and m.value > 1 for name, m in entry.measured.items()):
        lines += ["A utilisation above 1 says that the peak was taken while others used the machine: those of this entry are no shares.", ""]
    cold = [f"{cell['n']:,}" for cell in c.get("cells", {}).values() if "n" in cell and cell.get("warm_up") == 0]
    lines += [f"Without a round to warm up: n = {' and '.join(cold)}.", ""] if cold else []
    counted = [f"{', '.join(cell['counted'])} at n = {cell['n']:,}" for cell in c.get("cells", {}).values() if cell.get("counted")]
    lines += [f"Bytes counted from tensors, where the GPU has no room to be asked: {'; '.join(counted)}.", ""] if counted else []
    failed = [f"- {cell}: {name}: {why}" for cell, models in c.get("failed", {}).items() for name, why in models.items()]
    return lines + (["Could not be measured:", "", *failed, ""] if failed else [])


def _peaks(entry: Entry) -> str:
    """What a cell's utilisation is a share of: lowest and highest where it was measured anew; one for all in entries from before cells had theirs."""
    c = entry.configuration
    peaks = [cell["peak_operations_per_second"] for cell in c["cells"].values() if "peak_operations_per_second" in cell] or [c["peak_operations_per_second"]]
    return " to ".join(dict.fromkeys(f"{peak / 1e12:.3g}e12" for peak in (min(peaks), max(peaks))))


def _has_utilisation(entry: Entry) -> bool:
    return "peak_from" in entry.configuration and any("utilisation" in name for name in entry.measured)


def _table_3(entry: Entry) -> List[str]:
    """Every k of the paper's at every n that was measured, and those that were measured beside them."""
    cells_of = entry.configuration["cells"].values()
    dimensions = sorted({*paper.TABLE_3_DIMENSIONS, *(k for cell in cells_of for k in cell["dimensions"])})
    lines = []
    for title, half, suffix in (("Time saved", paper.TABLE_3_TIME, ""), ("Memory saved (largest batches)", paper.TABLE_3_MEMORY, ", largest batch")):
        for base in ("eager", "sdpa"):
            columns = " | ".join(f"k = {k} (paper)" for k in dimensions)
            lines += [f"{title}, against `{base}`:", "", f"| n | {columns} |", "|---|" + "---|" * len(dimensions)]
            for n in lengths_of(entry):
                cells = []
                for k in dimensions:
                    theirs = paper.table_3(half, n, k)
                    m = entry.measured.get(f"n={n} k={k}: {base} / linformer{suffix}")
                    of_paper = "" if theirs is None else f" ({theirs:g})"
                    cells.append("-" if theirs is None and m is None else _or_does_not_fit(entry, m, n, k, base, suffix) + of_paper)
                lines.append(f"| {n:,} | " + " | ".join(cells) + " |")
            lines.append("")
    return lines[:-1]


def _or_does_not_fit(entry: Entry, m: Optional[Measurement], n: int, k: int, base: str, suffix: str) -> str:
    """Where the Transformer does not fit at all: the ratio of bytes a sentence, marked."""
    each = entry.measured.get(f"n={n} k={k}: {base} / linformer, bytes a sentence")
    if m is None and suffix and each is not None:
        return f"does not fit; {each.value:.3g} x the bytes"
    if m is None and each is not None and f"n={n}: seconds of {base}" not in entry.measured:
        return "does not fit"
    return told(m)


def _plain(entry: Entry) -> List[str]:
    rows = [f"| {name} | {told(m, 'ratio' in m.unit)} | {m.unit} |" for name, m in entry.measured.items()]
    return ["| | median | unit |", "|---|---|---|", *rows]


FAMILIES = {"recurrent": ("recurrent",), "transformer": ("transformer-eager", "transformer-sdpa"), "sparse": ("bigbird", "longformer"),
            "reformer": ("reformer",), "linformer": ("linformer",)}  # fmt: skip
"""A row of Table 1: the models that stand for it."""


def _table_1(entry: Entry) -> List[str]:
    """Side by side with the paper's; families that came later have none there."""
    rows = [(family, model) for family, models in FAMILIES.items() for model in models]
    rows += [("later", name) for name in entry.configuration["models"] if name not in (model for _, model in rows)]
    lines = ["Table 1: the paper's complexity of a layer, and the exponent of n in its time, measured: one more than that in the time of a token. As many tokens "
             "for each n, so that a longer n has fewer sentences at once: a recurrent model, which takes its n steps one after the other, loses by that.", "",
             "| family | model | complexity (paper) | exponent, all lengths | exponent, longer half |", "|---|---|---|---|---|"]  # fmt: skip
    for family, model in rows:
        found = [entry.measured.get(f"{model}: {what}") for what in ("exponent", "exponent of the longer half")]
        of_paper = paper.TABLE_1[family].per_layer if family in paper.TABLE_1 else "-"
        lines.append(f"| {family} | {model} | {of_paper} | " + " | ".join(MISSING if m is None else f"{1 + m.value:.2f}" for m in found) + " |")
    return [*lines, "", *_plain(entry)]


def _shares(entry: Entry) -> List[str]:
    """A table for each n, a column for each model."""
    lines = []
    for n in lengths_of(entry):
        models = [name for name in entry.configuration["models"] if f"n={n}: whole of {name}" in entry.measured]
        lines += [f"n = {n:,}, shares of an update in percent:", "", f"| | {' | '.join(models)} |", "|---|" + "---|" * len(models)]
        for part in (*PARTS, REST):
            found = [entry.measured[f"n={n}: {part} of {name}"] for name in models]
            lines.append(f"| {part} | " + " | ".join(f"{100 * m.value:.2f}" for m in found) + " |")
        lines += ["| seconds of an update | " + " | ".join(told(entry.measured[f"n={n}: whole of {name}"], ratio=False) for name in models) + " |", ""]
    return lines[:-1]


TABLES = {"inference": _table_3, "scaling": _table_1, "shares": _shares}


def _draw_inference(axes, entry: Entry) -> None:
    dimensions = sorted({k for cell in entry.configuration["cells"].values() for k in cell["dimensions"]})
    for i, k in enumerate(dimensions):
        for base, style in (("eager", "o--"), ("sdpa", "s-")):
            points = [(n, m.value) for n in lengths_of(entry) if (m := entry.measured.get(f"n={n} k={k}: {base} / linformer"))]
            if points:
                axes.plot(*zip(*points), style, color=f"C{i}", label=f"k = {k}, {base}")
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="n", ylabel="Transformer's time / Linformer's")
    axes.legend(frameon=False, fontsize=7)


def _draw_scaling(axes, entry: Entry) -> None:
    for name in entry.configuration["models"]:
        points = [(n, m.value) for n in lengths_of(entry) if (m := entry.measured.get(f"n={n}: {name}"))]
        if points:
            axes.plot(*zip(*points), "o-", label=name, linewidth=2 if name == "linformer" else 1)
    axes.set(xscale="log", yscale="log", xlabel="n", ylabel="microseconds a token")
    axes.legend(frameon=False, fontsize=7)


def _draw_training(axes, entry: Entry) -> None:
    for i, name in enumerate(entry.configuration["models"]):
        for what, style in (("pretraining", "o-"), ("finetuning", "s--")):
            points = [(n, m.value) for n in lengths_of(entry) if (m := entry.measured.get(f"{what} n={n}: {name}"))]
            if points:
                axes.plot(*zip(*points), style, color=f"C{i}", label=f"{name}, {what}")
    axes.set(xscale="log", xlabel="n", ylabel="tokens a second")
    axes.legend(frameon=False, fontsize=7)


FIGURES = {"inference": _draw_inference, "scaling": _draw_scaling, "training": _draw_training}
