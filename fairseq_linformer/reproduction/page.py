"""The pages of the results, made from the JSON files alone.

RESULTS/README.md        the paper's tables, figures and theorems in one table, and this project's claims in another
RESULTS/NAME/README.md   an experiment: rule, verdicts, tables, chart, commands
RESULTS/NAME/chart.svg
"""

import inspect
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import median
from types import ModuleType

from ..files import open_atomic
from .result import OPTIONS, SCALE_NAMES, Result, Row, in_words, read
from .verdict import OUTCOMES, UNMEASURED, Verdict

# Tables and charts, as Markdown and SVG

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
    """A table of words, in Markdown under its title."""

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

    _draw_lines(axes, panel)
    for name, value in panel.levels.items():
        axes.axhline(value, color="0.4", linestyle="--", linewidth=1, label=f"{name}: {value:.3g}")
    if panel.log_x:
        axes.set_xscale("log")
        ticks = {x for runs in panel.lines.values() for run in runs for x, _ in run}
        axes.xaxis.set_major_locator(FixedLocator(sorted(ticks)))
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


def _draw_lines(axes, panel: Panel) -> None:
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


def _middle(runs: Sequence[Points]) -> Points:
    """The median over runs at each x that all of them have."""
    values: dict[float, list[float]] = {}
    for run in runs:
        for x, y in run:
            values.setdefault(x, []).append(y)
    return [(x, median(ys)) for x, ys in sorted(values.items()) if len(ys) == len(runs)] or runs[0]


# Pages

Experiments = Mapping[str, ModuleType]
"""The experiments by name, as ``load_all`` finds them."""
MARKS = dict(zip(OUTCOMES, "✓✗?"))
README, CHART = "README.md", "chart.svg"
SHOWN = SCALE_NAMES[1:]
"""The scales of the pages: ``smoke`` shows only that the code runs."""
INTRODUCTION = f"""# Results

Written by `fairseq-linformer reproduce report` from the JSON files in this folder. Each row links to a page with the
rules, the numbers, the machines, and today's commands. The JSON files have the commands that measured them.
Earlier claims and measurements: `git show COMMIT:results/README.md`, with f092385d, 9dff23c3, fe161fac or 62710c63,
and `git show 881e27a:results`.

n is the maximum number of tokens of an input. E and F are the projections of equation (7); k is their number of rows,
to which they reduce n keys and values. W is the number of neighbors on each side that a local window adds. An interval
in brackets has the extremes of repeated measurements, or 95 % confidence where the rule says so. Times have two to
nine rounds, most of them three or five: near 1, "in every round" is weak evidence.

| mark | verdict |
|---|---|
{"".join(f"| {mark} | {outcome} |{chr(10)}" for outcome, mark in MARKS.items())}| | not measured |

| scale | what is measured |
|---|---|
| cpu | small models trained from scratch here, times on two cores, and counts (memory with k: not so on an H100) |
| encoder | a pretrained encoder of 6 or 12 layers, and Linformers made from it, on a CPU |
| gpu | times at base size on one H100; those of Speed have no rule |
| paper | the paper's sizes, by Slurm |
"""


def write_pages(folder: Path, experiments: Experiments) -> list[Path]:
    """Write all pages; returns their paths."""
    texts = build(folder, experiments)
    for path, text in texts.items():
        with open_atomic(path) as file:
            file.write(text)
    return list(texts)


def build(folder: Path, experiments: Experiments) -> dict[Path, str]:
    """The text of each page and chart by its path."""
    texts: dict[Path, str] = {}
    tables = []
    for head, is_papers in (("the paper", True), ("this project", False)):
        modules = {name: each for name, each in experiments.items() if hasattr(each, "WHERE") == is_papers}
        scales = [scale for scale in SHOWN if any(scale in module.PARTS for module in modules.values())]
        rows = []
        for name, module in modules.items():
            place = name.replace("-", "_")
            results = {scale: found for scale in SHOWN if (found := read(folder / place / f"{scale}.json"))}
            cells = [_marks(module.verdicts(results[scale])) if scale in results else "" for scale in scales]
            rows.append([f"[{module.TITLE}]({place}/{README})", module.SAYS, *cells])
            chart = getattr(module, "chart", None)
            panels = [panel for found in results.values() for panel in chart(found)] if chart else []
            if panels:
                texts[folder / place / CHART] = draw(panels)
            texts[folder / place / README] = _experiment(name, module, results, panels)
        tables.append(Table("", [head, "claim", *scales], rows).markdown())
    texts[folder / README] = f"{INTRODUCTION}\n## The paper\n\n{tables[0]}\n\n## Beyond the paper\n\n{tables[1]}\n"
    return texts


def _marks(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(f"{MARKS[v.outcome]} {v.name}".strip() for v in verdicts if v.outcome != UNMEASURED)


def _experiment(name: str, module: ModuleType, results: dict[str, list[Result]], panels: Sequence[Panel]) -> str:
    place = f" {module.WHERE} of the paper." if hasattr(module, "WHERE") else ""
    parts = [f"# {module.TITLE}", f"The claim: {module.SAYS}.{place}", inspect.getdoc(module) or ""]
    rows: list[list[str]] = []
    unmeasured: list[str] = []
    remarks: dict[str, list[str]] = {}
    for scale, found in results.items():
        for verdict in module.verdicts(found):
            if verdict.outcome == UNMEASURED:
                unmeasured.append(verdict.name)
            else:
                mark = f"{MARKS[verdict.outcome]} {verdict.outcome}"
                # Up to three of those that decide.
                decisive = sum(check.outcome == verdict.outcome for check in verdict.checks)
                numbers = verdict.numbers[: min(max(decisive, 1), 3)]
                rows.append([verdict.name, verdict.claim, scale, mark, "<br>".join(numbers)])
            for remark in verdict.remarks:
                remarks.setdefault(remark, []).append(f"{verdict.name}, {scale}")
    parts += ["## Verdicts", Table("", ["name", "claim", "scale", "verdict", "first numbers"], rows).markdown()]
    if unmeasured := [each for each in dict.fromkeys(unmeasured) if each not in {row[0] for row in rows}]:
        parts += [f"Not measured: {'; '.join(unmeasured)}."]
    if remarks:
        parts += ["Not part of a verdict:", "\n".join(f"- {'; '.join(of)}: {each}" for each, of in remarks.items())]
    parts += [f"![{'; '.join(panel.title for panel in panels)}]({CHART})"] if panels else []
    parts += [table.markdown() for each in results.values() for table in module.tables(each)]
    parts += ["## Commands", _commands(name, module), "Measured:", _environments(results)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _commands(name: str, module: ModuleType) -> str:
    """A command per scale, with the options that its parts read."""
    lines = []
    for scale, parts in module.PARTS.items():
        options = dict.fromkeys(option for reads in parts.values() for option in reads)
        words = "".join(f" --{option} {OPTIONS[option]}" for option in options)
        lines.append(f"    fairseq-linformer reproduce {name} --scale {scale}{words}")
    return "\n".join(lines)


def _environments(results: dict[str, list[Result]]) -> str:
    """The environments of the results, each once, with the parts that it is of."""
    found: dict[tuple[str, ...], list[Result]] = {}
    for result in (result for each in results.values() for result in each):
        e, hardware = result.environment, result.environment["hardware"]
        machine = [hardware["processor"], f"{hardware['cores']} cores", *(hardware.get("accelerators") or [])[:1]]
        version = f"torch {e['versions'].get('torch', '?')}"
        # Checksums, options and sizes are in the JSON file.
        read = [result.configuration.get("encoder", {}).get("name"), e["data"].partition(";")[0]]
        key = (result.scale, e["date"], e["commit"], ", ".join(filter(None, read)), ", ".join(machine), version)
        found.setdefault(key, []).append(result)
    rows = []
    for (scale, date, commit, *others), parts in found.items():
        names = "; ".join(part.part for part in parts) if len(parts) <= 6 else f"{len(parts)} parts"
        commits = ", ".join(each[:8] for each in commit.split("; "))
        hours = sum(part.environment["seconds"] for part in parts) / 3600
        rows.append([scale, names, date, commits, *others, f"{hours:.2g}"])
    return Table("", ["scale", "parts", "date", "commit", "data", "machine", "version", "hours"], rows).markdown()
