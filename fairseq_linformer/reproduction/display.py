"""Tables and charts of results, as Markdown and SVG."""

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from statistics import median

from .result import Row, in_words

Points = Sequence[tuple[float, float]]

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito (2008). Lines also differ in marker, for black-and-white print and for color-blind readers."""
MARKERS = "os^DvPX<>*"
_WIDTH, _HEIGHT = 5.6, 4.0
"""Inches of a panel."""
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fairseq-linformer",  # the same numbers give the same file
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "path.simplify": False,
}


@dataclass(frozen=True)
class Table:
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
        return f"{self.title}:\n\n{table}" if self.title else table


def pivot(
    title: str, rows: Iterable[Row], down: str, across: str, cell: Callable[[Row | None], str] = in_words
) -> list[Table]:
    """A table of a number per value of the columns ``down`` and ``across``, in the order of the rows; none without
    rows."""
    found = {
        (_words(row[down]), f"{across} = " * isinstance(row[across], int) + _words(row[across])): row for row in rows
    }
    lines, columns = (list(dict.fromkeys(words)) for words in zip(*found)) if found else ([], [])
    cells = [[line, *(cell(found.get((line, column))) for column in columns)] for line in lines]
    return [Table(title, [down, *columns], cells)] if found else []


def _words(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value.replace("_", " ")


@dataclass(frozen=True)
class Panel:
    """A chart of lines.

    Attributes:
        x, y: of the axes, with units.
        lines: the runs of each line by its name; several runs are drawn thin, with their median.
        levels: horizontal lines to compare with.
        dashed: names of the lines to compare with, such as the paper's.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[Points]]
    levels: Mapping[str, float] = field(default_factory=dict)
    dashed: Sequence[str] = ()
    log_x: bool = False
    log_y: bool = False


def draw(panels: Sequence[Panel]) -> str:
    """The panels as one SVG, at most two side by side."""
    import matplotlib
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH * columns, _HEIGHT * rows), layout="constrained")
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes, panel in zip(grid, panels):
            _draw_panel(axes, panel)
        for axes in grid[len(panels) :]:
            axes.remove()
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def _draw_panel(axes, panel: Panel) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    colors = dict(zip((name for name in panel.lines if name not in panel.dashed), cycle(COLORS)))
    for name, runs in panel.lines.items():
        if name in panel.dashed:  # in the color of the line that it is compared with
            compared = [other for other in colors if name.startswith(other)]
            style = {"color": colors[max(compared, key=len)] if compared else "0.4", "linestyle": ":"}
        else:
            style = {"color": colors[name]}
        if len(runs) > 1:
            for run in runs:
                axes.plot(*zip(*run), linewidth=0.7, alpha=0.5, **style)
        marker = {"marker": MARKERS[len(axes.get_legend_handles_labels()[0]) % len(MARKERS)], "markersize": 4}
        axes.plot(*zip(*_middle(runs)), markevery=max(1, len(runs[0]) // 8), label=name, **marker, **style)
    for name, value in panel.levels.items():
        axes.axhline(value, color="0.4", linestyle="--", linewidth=1, label=f"{name}: {value:.3g}")
    if panel.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(sorted({x for runs in panel.lines.values() for x, _ in runs[0]})))
        axes.xaxis.set_minor_locator(NullLocator())
    if panel.log_y:
        axes.set_yscale("log")
    plain = FuncFormatter(lambda value, _: f"{value:,.10g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(plain)
    if panel.log_y:
        axes.yaxis.set_minor_formatter(plain)
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axes.grid(axis="y", color="0.9")
    axes.legend(fontsize=7)


def _middle(runs: Sequence[Points]) -> Points:
    """The median over runs at each x that all of them have."""
    values: dict[float, list[float]] = {}
    for run in runs:
        for x, y in run:
            values.setdefault(x, []).append(y)
    return [(x, median(ys)) for x, ys in sorted(values.items()) if len(ys) == len(runs)] or runs[0]
