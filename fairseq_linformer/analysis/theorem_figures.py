"""Figures of the theorems, readable in black and white: what is compared differs in dashes and markers.

    n positions, k the projected dimension
"""

from typing import Any, Dict, Optional

import numpy as np

from .figures import DASHES, new_figure, save, shades, style
from .rank_k import BEST, BEST_OUTPUT, LEARNED

MARKERS = "os^Dv*P"


def draw_theorem1(path, found: Dict[str, Any], title: Optional[str] = None) -> None:
    """For each n the probability against k: measured (lines with markers), the proof's bound (the same shade, thin),
    and the k that the theorem gives for each eps (a vertical line of that shade, where it is n at most).

    Args:
        found: what ``theorems.run`` returns.
        title: what the heads are; None for what ``found`` says.
    """
    rows = found["theorem1"]
    figure = new_figure(max(6.5, 4.2 * len(rows)), 4.2)
    for i, (ax, row) in enumerate(zip(figure.subplots(1, len(rows), squeeze=False, sharey=True)[0], rows)):
        for j, (epsilon, colour) in enumerate(zip(row["epsilon"], shades(len(row["epsilon"])))):
            measured, with_lengths = ([cells[j]["value"] for cells in row[name]] for name in ("theorem", "lengths"))
            ax.plot(row["k"], measured, color=colour, marker=MARKERS[j], markersize=5, linewidth=1.6,
                    label=f"measured, eps = {epsilon}")  # fmt: skip
            ax.plot(row["k"], with_lengths, color=colour, marker=MARKERS[j], markersize=3, linewidth=1, linestyle="--",
                    label=f"with eps ||P|| ||w||, eps = {epsilon}")  # fmt: skip
            ax.plot(row["k"], np.array(row["bound"])[:, j], color=colour, linewidth=2.5, alpha=0.6, linestyle=":",
                    label=f"bound of the proof, eps = {epsilon}")  # fmt: skip
            if row["stated_k"][j] <= row["n"]:
                ax.axvline(row["stated_k"][j], color=colour, linewidth=0.9, linestyle=(0, (1, 3)),
                           label=f"k of the theorem, eps = {epsilon}")  # fmt: skip
        ax.set(title=f"n = {row['n']}, d = {row['d']}, {row['heads']} head{'s' * (row['heads'] > 1)}", xscale="log",
               xlabel="k", ylim=(-0.03, 1.03))  # fmt: skip
        _plain_ticks(ax, row["k"])
        if i == 0:
            ax.set_ylabel("probability that ||P R'R w - P w|| <= eps ||P w||", fontsize=8)
    _finish(figure, path, found, title, legend_of=figure.axes, legend_size=7)


def draw_theorem2(path, found: Dict[str, Any], title: Optional[str] = None) -> None:
    """Median row error of each candidate against k at the longest n, and against n at fixed k where there are several
    n."""
    rows = found["theorem2"]["errors"]
    lengths = sorted({row["n"] for row in rows})
    lengths_of = {k: {row["n"] for row in rows if row["k"] == k} for k in {row["k"] for row in rows}}
    at_every_n = [k for k, where in lengths_of.items() if len(where) == len(lengths)]
    series = [("k", [row for row in rows if row["n"] == lengths[-1]], f"n = {lengths[-1]}")]
    if len(lengths) > 1 and at_every_n:
        series.append(("n", [row for row in rows if row["k"] == max(at_every_n)], f"k = {max(at_every_n)}"))
    norms = (("spectral", "error / ||softmax(x)|| ||V||_2 (theorem)"),
             ("frobenius", "error / ||softmax(x)|| ||V||_F (theorem)"),
             ("true", "error / ||softmax(x) V|| (relative)"))  # fmt: skip
    figure = new_figure(13.5, 3.9 * len(series) + 0.5)
    for line_of_axes, (x, points, part) in zip(figure.subplots(len(series), len(norms), squeeze=False), series):
        for ax, (norm, label) in zip(line_of_axes, norms):
            names = [name for name in points[0]["candidates"] if norm in points[0]["candidates"][name]]
            for i, (name, colour) in enumerate(zip(names, shades(len(names)))):
                values = [point["candidates"][name][norm]["value"] for point in points]
                ax.plot([point[x] for point in points], values, color=colour, marker=MARKERS[i], markersize=5,
                        linestyle=DASHES[i % len(DASHES)], label=name)  # fmt: skip
            ax.axhline(found["epsilon"], color="0.6", linewidth=0.8, linestyle=":")
            ax.set(title=part, xscale="log", yscale="log", xlabel=x, ylabel=label)
            # the theorem's own k is between two powers
            _plain_ticks(ax, [point[x] for point in points if point[x].bit_count() == 1])
    _finish(figure, path, found, title, legend_of=figure.axes[:1])


def draw_rank_k(path, found: Dict[str, Any], title: Optional[str] = None) -> None:
    """Relative error of the map and of the output against k, at the longest n, of every approximation of rank k."""
    n = max(row["n"] for row in found["rank_k"])
    rows = [row for row in found["rank_k"] if row["n"] == n]
    names = list(dict.fromkeys(name for row in rows for name in row["errors"]))
    figure = new_figure(9.4, 4.4)
    for ax, (what, label) in zip(figure.subplots(1, 2),
                                 (("map", "||S - P|| / ||P||"), ("output", "||S V - P V|| / ||P V||"))):  # fmt: skip
        for i, (name, colour) in enumerate(zip(names, shades(len(names)))):
            points = [(row["k"], row["errors"][name][what]["value"]) for row in rows
                      if what in row["errors"].get(name, {})]  # fmt: skip
            # a logarithmic axis has no 0
            points = [(k, value) for k, value in points if value is not None and value > 1e-6]
            ax.plot(*zip(*points) if points else ([], []), color=colour, marker=MARKERS[i % len(MARKERS)],
                    markersize=9 if name == LEARNED else 5,
                    linestyle=DASHES[i % len(DASHES)], linewidth=2.4 if name in (BEST, BEST_OUTPUT) else 1.4,
                    label=name)  # fmt: skip
        ax.set(title=f"{label}, n = {n}", xscale="log", yscale="log", xlabel="k")
        _plain_ticks(ax, [row["k"] for row in rows])
    _finish(figure, path, found, title, legend_of=figure.axes[1:])


def _finish(figure, path, found: Dict[str, Any], title: Optional[str], legend_of, legend_size: int = 8) -> None:
    """A title, one legend below all axes, and the file."""
    if title is None and found["heads"] == "random":
        title = f"random Q, K and V, seed {found['seed']}"
    elif title is None:
        title = f"{found['heads']} on {found['text']}, {found['sentences']} sentence{'s' * (found['sentences'] > 1)}"
    figure.suptitle(title, fontsize=10)
    lines = {label: line for ax in legend_of for line, label in zip(*ax.get_legend_handles_labels())}
    figure.legend(lines.values(), lines.keys(), frameon=False, fontsize=legend_size, loc="outside lower center",
                  ncols=3)  # fmt: skip
    save(figure, path)


def _plain_ticks(ax, ticks) -> None:
    """Numbers and no powers of ten."""
    ax.set_xticks(ticks, [str(t) for t in ticks])
    if ax.get_yscale() == "log":
        low, high = ax.get_ylim()
        marks = [m * 10.0**e for e in range(-6, 4) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
        marks = marks if len(marks) <= 7 else [mark for mark in marks if f"{mark:e}".startswith("1")]
        ax.set_yticks(marks, [f"{mark:g}" for mark in marks])
    ax.tick_params(axis="x", labelsize=7)
    ax.minorticks_off()
    style(ax, 10)
