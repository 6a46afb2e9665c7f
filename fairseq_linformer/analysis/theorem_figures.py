"""Figures of the theorems, readable in black and white: curves differ in dashes and markers.

n positions, k projected dimension
"""

from typing import Any

import numpy as np

from .figures import DASHES, new_figure, save_figure, shades, style_axes
from .rank_k import BEST, BEST_OUTPUT, LEARNED

MARKERS = "os^Dv*P"


def draw_theorem1(path, results: dict[str, Any]) -> None:
    """Probability against k for each n: measured (lines with markers), the proof's bound (dotted, the same shade), and
    the theorem's k for each eps (a vertical line in that shade, if at most n).

    Args:
        results: from ``theorems.measure_theorems``.
    """
    rows = results["theorem1"]
    figure = new_figure(max(6.5, 4.2 * len(rows)), 4.2)
    for i, (ax, row) in enumerate(zip(figure.subplots(1, len(rows), squeeze=False, sharey=True)[0], rows)):
        for j, (epsilon, color) in enumerate(zip(row["epsilon"], shades(len(row["epsilon"])))):
            curves = {name: [summaries[j]["value"] for summaries in row[name]] for name in ("theorem", "lengths")}
            bound = np.array(row["bound"])[:, j]
            marked = dict(color=color, marker=MARKERS[j])
            lines = (
                ("measured", curves["theorem"], dict(marked, markersize=5, linewidth=1.6)),
                ("with eps ||P|| ||w||", curves["lengths"], dict(marked, markersize=3, linewidth=1, linestyle="--")),
                ("bound of the proof", bound, dict(color=color, linewidth=2.5, alpha=0.6, linestyle=":")),
            )
            for label, probabilities, style in lines:
                ax.plot(row["k"], probabilities, label=f"{label}, eps = {epsilon}", **style)
            if row["stated_k"][j] <= row["n"]:
                style = dict(color=color, linewidth=0.9, linestyle=(0, (1, 3)))
                ax.axvline(row["stated_k"][j], label=f"k of the theorem, eps = {epsilon}", **style)
        ax.set(
            title=f"n = {row['n']}, d = {row['d']}, {row['heads']} head{'s' * (row['heads'] > 1)}",
            xscale="log",
            xlabel="k",
            ylim=(-0.03, 1.03),
        )
        _plain_ticks(ax, row["k"])
        if i == 0:
            ax.set_ylabel("probability that ||P R'R w - P w|| <= eps ||P w||", fontsize=8)
    _save(figure, path, results, legend_axes=figure.axes, legend_size=7)


def draw_theorem2(path, results: dict[str, Any]) -> None:
    """Median row error of each candidate against k at the largest n and, if there are several n, against n at the
    largest common k."""
    rows = results["theorem2"]["errors"]
    lengths = sorted({row["n"] for row in rows})
    common_ks = [k for k in {row["k"] for row in rows} if lengths == sorted({r["n"] for r in rows if r["k"] == k})]
    series = [("k", [row for row in rows if row["n"] == lengths[-1]], f"n = {lengths[-1]}")]
    if len(lengths) > 1 and common_ks:
        series.append(("n", [row for row in rows if row["k"] == max(common_ks)], f"k = {max(common_ks)}"))
    norms = (
        ("spectral", "error / ||softmax(x)|| ||V||_2 (theorem)"),
        ("frobenius", "error / ||softmax(x)|| ||V||_F (theorem)"),
        ("true", "error / ||softmax(x) V|| (relative)"),
    )
    figure = new_figure(13.5, 3.9 * len(series) + 0.5)
    for axes, (x, points, subtitle) in zip(figure.subplots(len(series), len(norms), squeeze=False), series):
        for ax, (norm, label) in zip(axes, norms):
            names = [name for name in points[0]["candidates"] if norm in points[0]["candidates"][name]]
            for i, (name, color) in enumerate(zip(names, shades(len(names)))):
                values = [point["candidates"][name][norm]["value"] for point in points]
                ax.plot(
                    [point[x] for point in points],
                    values,
                    color=color,
                    marker=MARKERS[i],
                    markersize=5,
                    linestyle=DASHES[i % len(DASHES)],
                    label=name,
                )
            ax.axhline(results["epsilon"], color="0.6", linewidth=0.8, linestyle=":")
            ax.set(title=subtitle, xscale="log", yscale="log", xlabel=x, ylabel=label)
            # without the theorem's own k, which is between two powers of two
            _plain_ticks(ax, [point[x] for point in points if point[x].bit_count() == 1])
    _save(figure, path, results, legend_axes=figure.axes[:1])


def draw_rank_k(path, results: dict[str, Any]) -> None:
    """Relative errors of the map and of the output against k, at the largest n, for each approximation of rank k."""
    n = max(row["n"] for row in results["rank_k"])
    rows = [row for row in results["rank_k"] if row["n"] == n]
    names = list(dict.fromkeys(name for row in rows for name in row["errors"]))
    figure = new_figure(9.4, 4.4)
    for ax, (kind, label) in zip(
        figure.subplots(1, 2), (("map", "||S - P|| / ||P||"), ("output", "||S V - P V|| / ||P V||"))
    ):
        for i, (name, color) in enumerate(zip(names, shades(len(names)))):
            points = [
                (row["k"], row["errors"][name][kind]["value"]) for row in rows if kind in row["errors"].get(name, {})
            ]
            # a logarithmic axis has no 0
            points = [(k, value) for k, value in points if value is not None and value > 1e-6]
            ax.plot(
                *zip(*points) if points else ([], []),
                color=color,
                marker=MARKERS[i % len(MARKERS)],
                markersize=9 if name == LEARNED else 5,
                linestyle=DASHES[i % len(DASHES)],
                linewidth=2.4 if name in (BEST, BEST_OUTPUT) else 1.4,
                label=name,
            )
        ax.set(title=f"{label}, n = {n}", xscale="log", yscale="log", xlabel="k")
        _plain_ticks(ax, [row["k"] for row in rows])
    _save(figure, path, results, legend_axes=figure.axes[1:])


def _save(figure, path, results: dict[str, Any], legend_axes, legend_size: int = 8) -> None:
    """Add a title and one legend below all axes, and write the file."""
    if results["heads"] == "random":
        title = f"random Q, K and V, seed {results['seed']}"
    else:
        sentences = results["sentences"]
        title = f"{results['heads']} on {results['text']}, {sentences} sentence{'s' * (sentences > 1)}"
    figure.suptitle(title, fontsize=10)
    lines = {label: line for ax in legend_axes for line, label in zip(*ax.get_legend_handles_labels())}
    figure.legend(
        lines.values(), lines.keys(), frameon=False, fontsize=legend_size, loc="outside lower center", ncols=3
    )
    save_figure(figure, path)


def _plain_ticks(ax, ticks) -> None:
    """Label a logarithmic axis with plain numbers, not powers of ten."""
    ax.set_xticks(ticks, [str(t) for t in ticks])
    if ax.get_yscale() == "log":
        low, high = ax.get_ylim()
        y_ticks = [m * 10.0**e for e in range(-6, 4) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
        y_ticks = y_ticks if len(y_ticks) <= 7 else [tick for tick in y_ticks if f"{tick:e}".startswith("1")]
        ax.set_yticks(y_ticks, [f"{tick:g}" for tick in y_ticks])
    ax.tick_params(axis="x", labelsize=7)
    ax.minorticks_off()
    style_axes(ax, 10)
