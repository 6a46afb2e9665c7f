"""Figures of the theorems, readable in black and white: what is compared differs in dashes and markers.

    n positions, k the projected dimension
"""

from typing import Any, Dict, Optional

import numpy as np

from .figures import DASHES, new_figure, save, shades
from .rank_k import BEST, BEST_OUTPUT, LEARNED

MARKERS = "os^Dv*P"


def what_of(found: Dict[str, Any]) -> str:
    """What the heads are and what they were looked at on."""
    if found["heads"] == "random":
        return f"random Q, K and V, seed {found['seed']}"
    return f"{found['heads']} on {found['text']}, {found['sentences']} sentence{'s' * (found['sentences'] > 1)}"


def draw_theorem1(path, found: Dict[str, Any], title: Optional[str] = None) -> None:
    """For each n the probability against k: measured (lines with markers), the proof's bound (the same shade, thin), and the k that
    the theorem gives for each eps (a vertical line of that shade, where it is n at most).

    Args:
        title: what the heads are; by default what the file says.
    """
    rows = found["theorem1"]
    figure = new_figure(max(6.5, 4.2 * len(rows)), 4.2)
    for i, (ax, row) in enumerate(zip(figure.subplots(1, len(rows), squeeze=False, sharey=True)[0], rows)):
        for j, (epsilon, colour) in enumerate(zip(row["epsilon"], shades(len(row["epsilon"])))):
            measured, corrected = ([cells[j]["value"] for cells in row[name]] for name in ("theorem", "lengths"))
            ax.plot(row["k"], measured, color=colour, marker=MARKERS[j], markersize=5, linewidth=1.6, label=f"measured, eps = {epsilon}")
            ax.plot(row["k"], corrected, color=colour, marker=MARKERS[j], markersize=3, linewidth=1, linestyle="--",
                    label=f"with eps ||P|| ||w||, eps = {epsilon}")  # fmt: skip
            ax.plot(row["k"], np.array(row["bound"])[:, j], color=colour, linewidth=2.5, alpha=0.6, linestyle=":", label=f"bound of the proof, eps = {epsilon}")
            if row["stated_k"][j] <= row["n"]:
                ax.axvline(row["stated_k"][j], color=colour, linewidth=0.9, linestyle=(0, (1, 3)), label=f"k of the theorem, eps = {epsilon}")
        ax.set(title=f"n = {row['n']}, d = {row['d']}, {row['heads']} head{'s' * (row['heads'] > 1)}", xscale="log", xlabel="k", ylim=(-0.03, 1.03))
        _plain(ax, row["k"])
        if i == 0:
            ax.set_ylabel("probability that ||P R'R w - P w|| <= eps ||P w||", fontsize=8)
    figure.suptitle(what_of(found) if title is None else title, fontsize=10)
    named = {label: handle for ax in figure.axes for handle, label in zip(*ax.get_legend_handles_labels())}
    figure.legend(named.values(), named.keys(), frameon=False, fontsize=7, loc="outside lower center", ncols=3)
    save(figure, path)


def draw_theorem2(path, found: Dict[str, Any], title: Optional[str] = None) -> None:
    """Median row error of each candidate against k at the longest n, and against n at fixed k where there are several n."""
    rows = found["theorem2"]["errors"]
    lengths = sorted({row["n"] for row in rows})
    fixed = max((k for k in {row["k"] for row in rows} if all(any(r["n"] == n and r["k"] == k for r in rows) for n in lengths)), default=None)
    series = [("k", [row for row in rows if row["n"] == lengths[-1]], f"n = {lengths[-1]}")]
    if len(lengths) > 1 and fixed is not None:
        series.append(("n", [row for row in rows if row["k"] == fixed], f"k = {fixed}"))
    norms = (("spectral", "error / ||softmax(x)|| ||V||_2 (theorem)"), ("frobenius", "error / ||softmax(x)|| ||V||_F (theorem)"),
             ("true", "error / ||softmax(x) V|| (relative)"))  # fmt: skip
    figure = new_figure(13.5, 3.9 * len(series) + 0.5)
    axes = figure.subplots(len(series), len(norms), squeeze=False).ravel()
    for ax, (norm, label, (x, points, part)) in zip(axes, [(n, label, s) for s in series for n, label in norms]):
        names = [name for name in points[0]["candidates"] if norm in points[0]["candidates"][name]]
        for i, (name, colour) in enumerate(zip(names, shades(len(names)))):
            ax.plot([p[x] for p in points], [p["candidates"][name][norm]["value"] for p in points], color=colour, marker=MARKERS[i], markersize=5,
                    linestyle=DASHES[i % len(DASHES)], label=name)  # fmt: skip
        ax.axhline(found["epsilon"], color="0.6", linewidth=0.8, linestyle=":")
        ax.set(title=part, xscale="log", yscale="log", xlabel=x, ylabel=label)
        _plain(ax, [p[x] for p in points if p[x].bit_count() == 1])  # the theorem's own k is between two powers
    figure.suptitle(what_of(found) if title is None else title, fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    save(figure, path)


def draw_rank_k(path, found: Dict[str, Any], title: Optional[str] = None) -> None:
    """Relative error of the map and of the output against k, at the longest n, of every approximation of rank k."""
    n = max(row["n"] for row in found["rank_k"])
    rows = [row for row in found["rank_k"] if row["n"] == n]
    names = list(dict.fromkeys(name for row in rows for name in row["errors"]))
    figure = new_figure(9.4, 4.4)
    for ax, what in zip(figure.subplots(1, 2), ("map", "output")):
        for i, (name, colour) in enumerate(zip(names, shades(len(names)))):
            points = [(row["k"], row["errors"][name][what]["value"]) for row in rows if what in row["errors"].get(name, {})]
            # What is 0 has no place on a logarithmic axis.
            points = [(k, value) for k, value in points if value is not None and value > 1e-6]
            best = name in (BEST, BEST_OUTPUT)
            ax.plot(*zip(*points) if points else ([], []), color=colour, marker=MARKERS[i % len(MARKERS)], markersize=9 if name == LEARNED else 5,
                    linestyle=DASHES[i % len(DASHES)], linewidth=2.4 if best else 1.4, label=name)  # fmt: skip
        ax.set(title={"map": "||S - P|| / ||P||", "output": "||S V - P V|| / ||P V||"}[what] + f", n = {n}", xscale="log", yscale="log", xlabel="k")
        _plain(ax, [row["k"] for row in rows])
    figure.suptitle(what_of(found) if title is None else title, fontsize=10)
    handles, labels = figure.axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    save(figure, path)


def _plain(ax, ticks) -> None:
    ax.set_xticks(ticks, [str(t) for t in ticks])
    if ax.get_yscale() == "log":
        low, high = ax.get_ylim()
        marks = [m * 10.0**e for e in range(-6, 4) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
        marks = marks if len(marks) <= 7 else [mark for mark in marks if f"{mark:e}".startswith("1")]
        ax.set_yticks(marks, [f"{mark:g}" for mark in marks])
    ax.tick_params(axis="x", labelsize=7)
    ax.minorticks_off()
    ax.title.set_fontsize(10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
