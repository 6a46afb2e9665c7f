"""What the runs of ``projection_runs.py`` say: ledger entries, tables and a figure.

    python -m fairseq_linformer.reproduce.projection_report OUT --results results --data "wiki: ..."
"""

import argparse
import logging
import re
import shlex
import statistics
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from . import curves, ledger
from .ledger import Entry, Measurement
from .projection_runs import Run, command, results, runs
from .real_text import training_seconds

COMMAND = "scripts/projections.sh WIKI TEXT OUT"
RESIZING = "projections-resizing"
"""The entry of ``resizing.py``."""
CLAIMS = {
    "scratch": "From scratch, k = n / 4, headwise, text that every Python carries, 1,024 tokens an update: perplexity "
    "after 1,500 (n = 16), 2,000 (32) and 2,500 (64) updates by the learning rate of E and F relative to the rest",
    "converted": "From a converted RoBERTa, k = n / 2, headwise, Wikipedia, 400 updates of 2,048 tokens: perplexity by the "
    "learning rate of E and F relative to the rest",
    "roberta": "That RoBERTa itself, trained on in the same way",
    "sharing": "As converted, n = 512, k = 256, with the other kinds of sharing",
    "dimension": "As converted, n = 512, headwise, with smaller k",
    "starts": "As converted, n = 512, k = 256, with E and F started at random, at the full rate and at 1/64 of it",
    "kinds": "As converted, n = 512, k = 256, with the other kinds of projection",
    "closing": "As converted, n = 512, k = 256, rate 1/64, with other starts of E and F within equation (7)",
    "longer": "The starts that won, and RoBERTa, for 1,500 updates",
    "staggered": "As converted, n = 512, rate 1/64: windows of average and staggered starts",
    "staggered-scratch": "As from scratch, with k = n / 2 and rate 1/4: windows of average and staggered starts",
    "cold": "As converted, n = 512, k = 256, with nothing taken from RoBERTa",
}


def shape(run: Run) -> str:
    return f"n={run.n} k={run.k} {run.sharing}, {run.variant}"


def collect(out: Path) -> Dict[str, Dict[str, List[Tuple[Run, list]]]]:
    """The runs that are done, by family and by what is the same but for the seed."""
    families: Dict[str, Dict[str, List[Tuple[Run, list]]]] = {}
    for run, curve in results(out).items():
        families.setdefault(run.family, {}).setdefault(shape(run), []).append((run, curve))
    return families


def measurement(done: List[Tuple[Run, list]]) -> Measurement:
    """The mean of the last perplexities, with lowest and highest."""
    last = [curve[-1][1] for _, curve in done]
    spread = [round(min(last), 2), round(max(last), 2)] if len(last) > 1 else None
    return Measurement(round(statistics.mean(last), 2), "perplexity", spread, len(last))


def entries(out: Path, common: dict) -> Iterator[Entry]:
    for family, shapes in collect(out).items():
        folders = [out / run.name for done in shapes.values() for run, _ in done]
        yield Entry(
            identifier=f"projections-{family}",
            claim=CLAIMS[family] + "; mean over seeds, on held-out text",
            paper={"value": None, "where": "the paper gives neither the start nor the learning rate of E and F"},
            measured={name: measurement(done) for name, done in shapes.items()},
            commit="; ".join(sorted({(folder / "commit").read_text().strip() for folder in folders})),
            configuration={"example": written(next(iter(shapes.values()))[0][0]), "threads": 1},
            seconds=round(sum(training_seconds(folder / "train.log") for folder in folders), 1),
            curves={name: done[0][1] for name, done in shapes.items()},
            **common,
        )


def written(run: Run) -> str:
    """The command of a run, with the folders by the names that scripts/projections.sh has for them."""
    return shlex.join(command(run, Path("OUT"), Path("TEXT"), Path("WIKI"), plugin=Path("fairseq_linformer")))


def table(found: List[Entry]) -> str:
    """All of it in Markdown."""
    lines = ["# How E and F start and learn", ""]
    for entry in found:
        lines += [f"## {entry.identifier.removeprefix('projections-')}", "", entry.claim + ".", ""]
        lines += ["| | perplexity | lowest to highest | seeds |", "|---|---|---|---|"]
        for name, m in entry.measured.items():
            spread = "" if m.spread is None else f"{m.spread[0]:.1f} to {m.spread[1]:.1f}"
            lines.append(f"| {name} | {m.value:.1f} | {spread} | {m.repetitions} |")
        lines.append("")
    lines += [ledger.footer(found[0]), "Commits and curves are in the JSON files beside this one.", ""]
    return "\n".join(lines)


def draw(path: Path, found: Dict[str, Entry]) -> None:
    """Perplexity over the rate, relative to the best rate, for each length."""
    figure = curves.new_figure()
    for axes, family in zip(figure.subplots(1, 2, sharex=True), ("scratch", "converted")):
        series: Dict[int, List[Tuple[float, Measurement]]] = {}
        for name, m in found[family].measured.items():
            n, rate = re.match(r"n=(\d+) .*rate (\S+)", name).groups()
            top, _, bottom = rate.partition("/")
            series.setdefault(int(n), []).append((int(top) / int(bottom or 1), m))
        for (n, points), marker in zip(sorted(series.items()), "os^"):
            points.sort(key=lambda point: point[0])
            best = min(m.value for _, m in points)
            spread = [[(m.value - (m.spread or [m.value])[0]) / best for _, m in points],
                      [((m.spread or [m.value])[-1] - m.value) / best for _, m in points]]  # fmt: skip
            axes.errorbar([rate for rate, _ in points], [m.value / best for _, m in points], yerr=spread, marker=marker,
                          capsize=3, label=f"n = {n}")  # fmt: skip
        axes.set(title={"scratch": "from scratch", "converted": "from RoBERTa"}[family], xscale="log", xlabel="rate of E and F")
        axes.legend(frameon=False, fontsize=9)
    figure.axes[0].set_ylabel("perplexity / best")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", required=True, help="what the texts are, in words")
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    logging.getLogger().setLevel(logging.WARNING)
    common = ledger.circumstances(args.data, COMMAND)
    try:
        found = list(entries(args.out, common))
        if not found:
            raise ValueError(f"{args.out} has no runs that are done")
    except (OSError, ValueError, IndexError) as error:
        sys.exit(f"projection_report: {error}")
    for entry in found:
        print(ledger.write(entry, args.results))
    missing = sum(1 for _ in runs()) - sum(m.repetitions for entry in found for m in entry.measured.values())
    print(f"{missing} runs are not done")
    if (args.results / f"{RESIZING}.json").exists():
        found.append(ledger.read(args.results / f"{RESIZING}.json"))
    by_family = {entry.identifier.removeprefix("projections-"): entry for entry in found}
    if {"scratch", "converted"} <= by_family.keys():
        draw(args.results / "projections.png", by_family)
    (args.results / "projections.md").write_text(table(found))


if __name__ == "__main__":
    main()
