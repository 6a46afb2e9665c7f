"""Tables and figures of the benchmarks, from the ledger alone: results/benchmark.md and pictures beside it."""

from pathlib import Path
from typing import Callable, List, Optional, Sequence, Tuple

from ..benchmark.timing import Spread
from ..files import atomic
from . import curves, ledger, paper
from .benchmarks import lengths_of, value
from .ledger import Entry, Measurement

NAME = "benchmark.md"
MISSING = "not measured"
PLAIN = "benchmark-training-cpu-fp32-l12"
Limit = Tuple[str, str, str, Callable[[float], bool], str]

BARS: Tuple[Limit, ...] = (
    ("pretraining step, n = 512, k = 256, layerwise: the authors' time over ours", PLAIN, "pretraining n=512: authors / ours", lambda x: x >= 1.12, "at least 1.12"),
    ("training step, 32 tokens: the authors' time over ours", PLAIN, "finetuning n=32: authors / ours", lambda x: x >= 2.4, "at least 2.4"),
    ("training step, 32 tokens: RoBERTa's time over ours", PLAIN, "finetuning n=32: roberta / ours", lambda x: x >= 1 / 1.1, "at least 0.91"),
    ("training step, 128 tokens: the authors' time over ours", PLAIN, "finetuning n=128: authors / ours", lambda x: x >= 1.2, "at least 1.2"),
    ("inference, n = 16,384, k = 256: RoBERTa with SDPA over ours", "benchmark-whole-cpu-fp32", "n=16384: roberta / ours", lambda x: x >= 5.3, "at least 5.3"),
    ("time per token at n = 16,384 over that at n = 512", "benchmark-pertoken-cpu-fp32", "n=16384 / n=512", lambda x: x <= 1.15, "at most 1.15"),
    ("activation memory of a training step, n = 4,096: ours over the authors'", "benchmark-training-cpu-fp32", "pretraining n=4096: bytes of ours / authors", lambda x: x <= 0.75, "at most 0.75"),
)  # fmt: skip
"""What this project promises on a CPU of 2 cores at base size: words, entry, measurement, whether it is kept, the limit in words."""


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
    lines = ["# Time and memory", "",
             "Medians of interleaved rounds, lowest to highest in brackets; \"equal\" where 1 lies between them.", "", *_bars(found)]  # fmt: skip
    if not any(e.scale == "gpu" for e in found):
        lines += ["On a GPU: not measured.", ""]
    for entry in found:
        lines += [f"## {entry.identifier.removeprefix('benchmark-')}", "", entry.claim + ".", ""]
        lines += {"inference": _table_3}.get(entry.identifier.split("-")[1], _plain)(entry)
        lines += ["", ledger.footer(entry), f"Commit {entry.commit}.", ""]
    return "\n".join(lines)


def _bars(found: Sequence[Entry]) -> List[str]:
    lines = ["## What is promised", "", "| on a CPU, base size | promised | measured | |", "|---|---|---|---|"]
    for words, start, name, kept, limit in BARS:
        m = value(found, name, start)
        lines.append(f"| {words} | {limit} | {told(m, ratio=False)} | {'' if m is None else 'kept' if kept(m.value) else 'missed'} |")
    return [*lines, ""]


def told(m: Optional[Measurement], ratio: bool = True) -> str:
    """A number with its spread, for a table; a ratio that is not told apart from 1 is "equal"."""
    if m is None:
        return MISSING
    if m.spread is None:
        return f"{m.value:.3g}"
    equal = ratio and Spread(m.value, *m.spread, m.repetitions).equal
    return f"{'equal, ' * equal}{m.value:.3g} [{m.spread[0]:.3g}, {m.spread[1]:.3g}]"


def _table_3(entry: Entry) -> List[str]:
    lines = []
    for title, half, suffix in (("Time saved", paper.TABLE_3_TIME, ""), ("Memory saved (largest batches)", paper.TABLE_3_MEMORY, ", largest batch")):
        for base in ("eager", "sdpa"):
            columns = " | ".join(f"k = {k} (paper)" for k in paper.TABLE_3_DIMENSIONS)
            lines += [f"{title}, against `{base}`:", "", f"| n | {columns} |", "|---|" + "---|" * len(paper.TABLE_3_DIMENSIONS)]
            for n in paper.TABLE_3_TIME:
                cells = []
                for k in paper.TABLE_3_DIMENSIONS:
                    theirs = paper.table_3(half, n, k)
                    m = entry.measured.get(f"n={n} k={k}: {base} / linformer{suffix}")
                    cells.append("-" if theirs is None and m is None else f"{_or_does_not_fit(entry, m, n, k, base, suffix)} ({theirs:g})")
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
    for name in entry.configuration["models"]:
        points = [(n, m.value) for n in lengths_of(entry) for what in ("pretraining", "finetuning")
                  if (m := entry.measured.get(f"{what} n={n}: {name}"))]  # fmt: skip
        if points:
            axes.plot(*zip(*points), "o-", label=name)
    axes.set(xscale="log", xlabel="n", ylabel="tokens a second")
    axes.legend(frameon=False, fontsize=7)


FIGURES = {"inference": _draw_inference, "scaling": _draw_scaling, "training": _draw_training}
