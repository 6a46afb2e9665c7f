"""Theorem 1: how often P R^T R w is close to P w, over random projections R, against the bound of the proof.

    fairseq-linformer reproduce theorem-1 --scale cpu
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...analysis import theorem1, theorems
from ...files import atomic
from ...machine import current_commit
from ..cells import again_elsewhere, rule
from ..counting import DATA
from ..records import Measurement, Record, circumstances, significant
from ..registry import Claim, Experiment, Inputs
from ..report.charts import Chart, Series
from ..report.tables import Table
from ..statistics import FAILS, HOLDS, UNDECIDED, Check, wilson

EPSILON = 0.5
"""Of the tables and charts; the records have others too."""
SIZES = {"smoke": ([16, 32], 8, 4), "cpu": ([128, 512, 2048], 64, 60)}
"""Lengths, width of a head and draws of R, by scale."""
ROUNDING = 1e-4
"""Relative tolerance of what is computed with the same seed on another processor."""


class TheoremExperiment(Experiment):
    """A theorem on random heads. One run measures both theorems; each has a record of its own.

    Args:
        measurements: of ``theorems.json``, and the source of the heads, to measurements.
        claim, where: of the record.
        part: of the run, whose seconds are the record's.
        draw: one record to its charts.
    """

    scales = tuple(SIZES)

    def __init__(self, name: str, title: str, claims: Sequence[Claim], measurements: Callable[[Mapping, str], Iterator[Measurement]],
                 claim: str, where: str, part: str, draw: Callable[[Record], list[Chart]]):  # fmt: skip
        self.name, self.title, self.claims, self.measurements = name, title, tuple(claims), measurements
        self.claim, self.where, self.part, self.draw = claim, where, part, draw

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        inputs.refuse(("minutes",), self.name, "it runs in one go")

    def cost(self, scale: str) -> str:
        return "trains nothing"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        numbers, here = random_heads(scale, inputs.folder / scale / "theorems", command)
        measurements = list(self.measurements(numbers, "random"))
        facts = {key: value for key, value in numbers.items() if key not in ("theorem1", "theorem2", "rank_k")}
        facts["seconds"] = facts["seconds"][self.part]
        return [
            Record(
                identifier=f"{self.name}-{scale}",
                experiment=self.name,
                made_by="reproduce",
                claim=self.claim,
                paper={"where": self.where},
                measurements=measurements,
                configuration={"runs": {"random": facts}},
                seconds=max(round(facts["seconds"], 3), 0.001),
                tolerance={m.unit: ROUNDING for m in measurements},
                **here,
            )
        ]

    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        return "measured again", again_elsewhere(self, record, inputs)

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return []

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [chart for record in records for chart in self.draw(record)]


def random_heads(scale: str, folder: Path, command: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """``theorems.json`` of random heads, measured once, and the fields of a record that say where it was measured."""
    lengths, width, draws = SIZES[scale]
    out, where = folder / "theorems", folder / "theorems.json"
    here = {"commit": current_commit(), **circumstances(DATA, command, scale)}
    if not (out / theorems.NUMBERS).exists():
        heads = theorems.random_groups(lengths, width, 1)
        theorems.run(heads, out, draws, EPSILON, 1, {"heads": "random", "lengths": lengths, "width": width})
        where.unlink(missing_ok=True)
    if not where.exists():  # numbers that are used later are still those of this commit and machine
        with atomic(where) as file:
            json.dump({name: here[name] for name in ("commit", "hardware", "versions", "date")}, file, indent=1)
    numbers = json.loads((out / theorems.NUMBERS).read_text(encoding="utf-8"))
    return numbers, {**here, **json.loads(where.read_text(encoding="utf-8"))}


def of_summary(metric: str, summary: Mapping[str, Any], unit: str, **places: Any) -> Iterator[Measurement]:
    """Of ``analysis.samples.summary``: the value where there is one, and the share of heads and draws that have one where some have none."""
    if summary["value"] is not None:
        value, least, most = (significant(summary[key]) for key in ("value", "least", "most"))
        interval = (least, most) if summary["count"] > 1 else None
        yield Measurement(metric=metric, value=value, unit=unit, interval=interval, repetitions=summary["count"], **places)
    if summary["count"] < summary["of"]:
        yield of_share(metric, summary, **places)


def of_share(metric: str, summary: Mapping[str, Any], **places: Any) -> Measurement:
    """The share of heads and draws for which something exists."""
    share = significant(summary["count"] / summary["of"])
    return Measurement(metric=f"{metric}_share", value=share, unit=f"share of {summary['of']} heads and draws", **places)


def measurements(numbers: Mapping[str, Any], source: str) -> Iterator[Measurement]:
    for row in numbers["theorem1"]:
        at = {"source": source, "n": row["n"]}
        yield from of_summary("stretch", row["stretch"], "||P|| ||w|| / ||P w||, median over w; median over heads", **at)
        for i, k in enumerate(row["k"]):
            yield from of_summary("squared_error", row["squared_error"][i], "of ||P w||^2, mean over w, heads and draws", k=k, **at)
            yield from of_summary("expected_error", row["expected_error"][i], "of ||P w||^2, mean over w and heads", k=k, **at)
            for j, epsilon in enumerate(row["epsilon"]):
                for metric in theorem1.MEASURED:
                    yield from of_summary(metric, row[metric][i][j], "probability, mean over heads and draws", k=k, epsilon=epsilon, **at)


def checks(record: Record) -> list[Check]:
    """Counts over all rows, and the row in which the measured probability is furthest below what the proof promises."""
    rows = []
    for m in record.select("theorem"):
        bound = theorem1.theorem_bound(m.n, m.k, m.epsilon)
        if bound > 0:
            low, high = wilson(m.value, m.repetitions)
            rows.append((bound - m.value, bound, m, low, high))
    if not rows:
        return []
    below, clearly = sum(gap > 0 for gap, *_ in rows), sum(high < bound for _, bound, _, _, high in rows)
    outcome = FAILS if clearly else UNDECIDED if below else HOLDS
    _, bound, m, low, high = max(rows, key=lambda row: row[0])
    return [
        Check(outcome, f"the measured probability is below the bound of the proof in {below} of {len(rows)} rows (heads, n, k, eps) where it is above 0, "
              f"in {clearly} by more than its 95 % interval; the largest gap: {m.value:.2f} ({low:.2f} to {high:.2f}, of {m.repetitions} heads and draws) "
              f"measured, {bound:.2f} promised, at heads = {m.source}, n = {m.n}, k = {m.k}, eps = {m.epsilon}")
    ]  # fmt: skip


def chart(record: Record) -> list[Chart]:
    """The probability by k, and the bound of the proof."""
    lines: dict[tuple[str, int], list] = {}
    promised: dict[int, set] = {}
    for m in record.select("theorem", epsilon=EPSILON):
        lines.setdefault((m.source, m.n), []).append((m.k, m.value))
        if (bound := theorem1.theorem_bound(m.n, m.k, EPSILON)) > 0:
            promised.setdefault(m.n, set()).add((m.k, bound))
    series = [Series(f"{source}, n = {n}", [sorted(points)]) for (source, n), points in lines.items()]
    color_of = {n: i for i, (_, n) in reversed([*enumerate(lines)])}
    series += [Series(f"bound of the proof, n = {n}", [sorted(points)], True, color_of[n]) for n, points in promised.items()]
    title = f"Theorem 1, eps = {EPSILON}, {record.identifier}"
    name = f"probability-{record.identifier}"
    return [Chart(name, title, "k", "probability that P w is within eps", series, log_x=True)] if series else []


CLAIM = Claim(
    "theorem-1", "Theorem 1, section 3, and appendix A",
    "Attention is of low rank: there is a P~ of rank k = Theta(log(n)) with P~ w nearly P w, with high probability.",
    "Judged of the P~ of the proof, P R^T R with a random projection R (the theorem says that there is one; another may do better). Holds if the "
    "measured probability is at least the bound of the proof wherever that is above 0; does not hold if it is less by more than its sampling error "
    "anywhere, 95 % by Wilson, of as many trials as heads and draws of the projection; not enough evidence if it is less within that. "
    "(Written when an earlier measurement was known.)", rule("theorem-1", "theorem-1*", checks),
)  # fmt: skip
EXPERIMENTS = (
    TheoremExperiment(
        "theorem-1", "Theorem 1", [CLAIM], measurements,
        "The probability over R that ||P R^T R w - P w|| <= eps ||P w||, with eps ||P|| ||w|| on the right side, and the lemma's",
        "Theorem 1 and appendix A; proved, not measured", "theorem1", chart,
    ),
)  # fmt: skip
