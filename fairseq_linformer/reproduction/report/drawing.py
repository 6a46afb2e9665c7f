"""A chart as inline SVG. Text stays text; colors of text and grid are the page's, for light and dark mode.

Lines differ in dash and marker as well as color, for black-and-white print and for color-blind readers.
"""

import io
import math
import re
from functools import singledispatch
from html import escape
from statistics import median
from typing import Any

from .charts import Chart, Heat, Points

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito (2008), without black and yellow, which are invisible on a dark or a light page."""
DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 2, 1, 2, 1, 2)), (0, (4, 4)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_INK, _GRID = "#010203", "#040506"  # placeholders for the page's colors
_WIDTH, _HEIGHT = 5.4, 3.7  # inches of 72 units; on a phone a unit is a little less than a pixel
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fairseq-linformer",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.5,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "path.simplify": False,
}


@singledispatch
def draw(chart) -> str:
    """``<svg>`` with a title and identifiers that are unique in the page.

    Raises:
        ValueError: there is nothing to draw.
    """
    raise TypeError(f"chart must be a Chart or a Heat, got {type(chart).__name__}")


@draw.register
def _(chart: Chart) -> str:
    if not any(run for series in chart.series for run in series.runs):
        raise ValueError(f"chart {chart.identifier} must have points, but it has none")
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        # Long names need a legend row each; two short ones fit side by side.
        names = [s.name for s in chart.series]
        columns = 2 if max(map(len, names)) <= 24 else 1
        figure = _figure(_HEIGHT + 0.19 * math.ceil(len(names) / columns))
        axes = figure.subplots()
        for i, series in enumerate(chart.series):
            kind = i if series.color is None else series.color
            style = {
                "color": COLORS[kind % len(COLORS)],
                "linestyle": DASHES[(kind + kind // len(COLORS)) % len(DASHES)],
            }
            marker = {"marker": MARKERS[kind % len(MARKERS)], "markersize": 5.5, "markevery": _every(series.runs)}
            if series.thin:
                style["linestyle"], marker["markerfacecolor"] = (0, (1, 2)), "none"
            if len(series.runs) > 1:
                for run in series.runs:
                    axes.plot(*zip(*run), linewidth=0.7, alpha=0.55, **style)
            axes.plot(
                *zip(*_middle(series.runs)), linewidth=1 if series.thin else 1.7, label=series.name, **style, **marker
            )
        for name, value in chart.levels:
            axes.axhline(value, color=_INK, linestyle=(0, (1, 2)), linewidth=1)
            axes.annotate(
                name,
                (1, value),
                xycoords=("axes fraction", "data"),
                xytext=(0, 2),
                textcoords="offset points",
                ha="right",
                fontsize=9,
            )
        axes.set(xlabel=chart.x, ylabel=chart.y)
        _scales(axes, chart)
        axes.grid(axis="y", linewidth=0.6)
        axes.set_axisbelow(True)
        figure.legend(loc="outside lower left", ncols=columns, handlelength=3.4, columnspacing=1.2, borderpad=0.1)
        return _svg(figure, chart)


@draw.register
def _(chart: Heat) -> str:
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        figure = _figure(1.1 + 0.3 * len(chart.rows))
        axes = figure.subplots()
        axes.set(xlim=(-0.5, len(chart.columns) - 0.5), ylim=(len(chart.rows) - 0.5, -0.5))
        for i, row in enumerate(chart.values):
            for j, value in enumerate(row):
                share = min(max(value, 0.0), 1.0)
                # Cividis has even lightness, so it works in gray too; each cell has its number.
                color = matplotlib.colormaps["cividis"](share)
                axes.add_patch(
                    matplotlib.patches.Rectangle(
                        (j - 0.5, i - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=0.5
                    )
                )
                if len(chart.columns) <= 16:
                    axes.text(
                        j,
                        i,
                        f"{value:.2f}",
                        ha="center",
                        va="center",
                        fontsize=9,
                        color="white" if share < 0.55 else "black",
                    )
        axes.set_xticks(range(len(chart.columns)), chart.columns)
        axes.set_yticks(range(len(chart.rows)), chart.rows)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(chart.quantity, fontsize=9)
        return _svg(figure, chart)


def _figure(height: float):
    """A figure without pyplot, which would look for a display."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    layout: Any = figure.get_layout_engine()
    layout.set(h_pad=0.06)
    figure.patch.set_visible(False)
    FigureCanvasSVG(figure)
    return figure


def _every(runs: list[Points]) -> int:
    """The step between markers: about 8 per line."""
    return max(1, max(len(run) for run in runs) // 8)


def _middle(runs: list[Points]) -> Points:
    """The median over runs at each x that all of them have; of a single run, the run itself."""
    if len(runs) == 1:
        return runs[0]
    values: dict[float, list[float]] = {}
    for run in runs:
        for x, y in run:
            values.setdefault(x, []).append(y)
    shared = [(x, median(ys)) for x, ys in sorted(values.items()) if len(ys) == len(runs)]
    return shared or runs[0]


def _scales(axes, chart: Chart) -> None:
    """Set logarithmic axes, and plain numbers as labels."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axes.patch.set_visible(False)
    plain = FuncFormatter(lambda value, _: f"{value:,.6g}")
    for axis, log in ((axes.xaxis, chart.log_x), (axes.yaxis, chart.log_y)):
        if log:
            values = [x if axis is axes.xaxis else y for s in chart.series for run in s.runs for x, y in run] + [
                value for _, value in chart.levels if axis is axes.yaxis
            ]
            getattr(axes, f"set_{axis.axis_name}scale")("log")
            positions = sorted(set(values))
            if axis is axes.xaxis and len(positions) <= 9:
                axis.set_major_locator(FixedLocator(positions))
            else:
                axis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(values) / min(values) < 300 else (1,)))
            axis.set_minor_locator(NullLocator())
        elif axis is axes.xaxis and max(x for s in chart.series for run in s.runs for x, _ in run) > 20000:
            axis.set_major_locator(MaxNLocator(6, steps=(1, 2, 2.5, 5, 10)))  # long numbers
        axis.set_major_formatter(plain)


def _svg(figure, chart) -> str:
    """The SVG that matplotlib writes, without its head and with the page's colors."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    ((width, height),) = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)[:1]
    body = text[text.index(">", text.index("<svg")) + 1 :]
    body = re.sub(r'\bid="([^"]+)"', rf'id="{chart.identifier}-\1"', body)
    body = body.replace("url(#", f"url(#{chart.identifier}-").replace('xlink:href="#', f'href="#{chart.identifier}-')
    body = body.replace(_INK, "currentColor").replace(_GRID, "var(--grid, #8884)")
    body = body.replace("'DejaVu Sans', sans-serif", "sans-serif").replace("'DejaVu Sans'", "sans-serif")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-labelledby="{chart.identifier}-title">\n'
        f'<title id="{chart.identifier}-title">{escape(chart.description)}</title>'
    )
    return head + "\n".join(line.rstrip() for line in body.splitlines()) + "\n"
