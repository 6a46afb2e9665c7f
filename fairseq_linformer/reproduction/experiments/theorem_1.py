"""Theorem 1: how often the proof's P R^T R w, and the best P~ w of the same rank, are close to P w.

Usage:

    fairseq-linformer reproduce theorem-1 --scale cpu
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

from ...analysis import theorem1, theorems
from ...files import atomic, read_json
from ...machine import current_commit
from ..cells import measure_in_temporary_folder
from ..claim import Claim, EarlierRule
from ..counting_experiment import DATA
from ..experiment import Experiment
from ..inputs import Inputs
from ..records import Measurement, Paper, Record, circumstances, significant
from ..report.charts import Chart, Series
from ..report.tables import Table
from ..rules import rule
from ..statistics import FAILS, HOLDS, UNDECIDED, Check, wilson

FOLDER = "theorems"
EPSILON = 0.5
"""Of the tables and charts; the records have others too."""
SIZES = {"smoke": ([16, 32], 8, 4), "cpu": ([128, 512, 2048], 64, 60)}
"""Lengths, width of a head and draws of R, by scale."""
ROUNDING = 1e-4
"""Relative tolerance of what is computed with the same seed on another processor."""


class TheoremExperiment(Experiment):
    """A theorem on heads without a model. One run measures both theorems, and each has a record.

    RUNS/SCALE/theorems/    numbers of the heads, and the commit and machine that measured them

    Args:
        measurements: (numbers of one source of heads, as in ``theorems.json``, the source) to measurements.
        claim, where: of the record.
        part: key of the theorem in the numbers. Sources without it have no measurements in the record.
        draw: one record to its charts.
    """

    scales = tuple(SIZES)

    def __init__(
        self,
        name: str,
        title: str,
        claims: Sequence[Claim],
        measurements: Callable[[Mapping, str], Iterator[Measurement]],
        claim: str,
        where: str,
        part: str,
        draw: Callable[[Record], list[Chart]],
    ):
        self.name, self.title, self.claims, self.measurements = name, title, tuple(claims), measurements
        self.claim, self.where, self.part, self.draw = claim, where, part, draw

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        inputs.reject(("minutes",), self.name, "it runs in one go")

    def cost(self, scale: str) -> str:
        return "trains nothing"

    def finished_runs(self, scale: str, inputs: Inputs) -> list[str]:
        return [FOLDER] * (inputs.folder / scale / FOLDER).exists()

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        sources, here = measure_heads(scale, inputs.folder / scale / FOLDER, command)
        sources = {source: numbers for source, numbers in sources.items() if self.part in numbers}
        measurements = [m for source, numbers in sources.items() for m in self.measurements(numbers, source)]
        runs = {source: self._facts(numbers) for source, numbers in sources.items()}
        return [
            Record(
                identifier=f"{self.name}-{scale}",
                experiment=self.name,
                made_by="reproduce",
                claim=self.claim,
                paper=Paper(where=self.where),
                measurements=measurements,
                configuration={"runs": runs},
                seconds=max(round(sum(facts["seconds"] for facts in runs.values()), 3), 0.001),
                tolerance={m.unit: ROUNDING for m in measurements},
                **here,
            )
        ]

    def _facts(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """What the heads are, and the seconds of the theorem."""
        facts = {key: value for key, value in numbers.items() if key not in ("theorem1", "theorem2", "rank_k")}
        return {**facts, "seconds": facts["seconds"][self.part]}

    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        return "measured again", measure_in_temporary_folder(self, record, inputs)

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return []

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [chart for record in records for chart in self.draw(record)]


def measure_heads(scale: str, folder: Path, command: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The numbers of random heads and of neighbor heads, measured once, and the fields of a record that say where.

    Returns:
        By source: ``random``, all of ``theorems.json``; ``neighbor``, theorem 1 only.
    """
    lengths, width, draws = SIZES[scale]
    out, neighbor, where = folder / FOLDER, folder / "neighbor.json", folder / "theorems.json"
    here = {"commit": current_commit(), **circumstances(DATA, command, scale)}
    shape = {"lengths": lengths, "width": width}
    if not ((out / theorems.NUMBERS).exists() and neighbor.exists()):  # of one commit, or measured again
        rmtree(out, ignore_errors=True)
        where.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        numbers = theorems.measure_theorem1(theorems.build_neighbor_heads(lengths, width, 1), draws, 1)
        with atomic(neighbor) as file:
            json.dump({"heads": "neighbor", **shape, **numbers}, file, indent=1)
        heads = theorems.build_random_heads(lengths, width, 1)
        theorems.measure_theorems(heads, out, draws, EPSILON, 1, {"heads": "random", **shape})
    if not where.exists():  # numbers that are used later are still those of this commit and machine
        with atomic(where) as file:
            json.dump({name: here[name] for name in ("commit", "hardware", "versions", "date")}, file, indent=1)
    sources = {"random": read_json(out / theorems.NUMBERS), "neighbor": read_json(neighbor)}
    return sources, {**here, **read_json(where)}


def of_summary(metric: str, summary: Mapping[str, Any], unit: str, **places: Any) -> Iterator[Measurement]:
    """Of ``analysis.samples.summarize``: the value, if there is one. If some heads or draws lack it, also the share of
    those that have it."""
    if summary["value"] is not None:
        value, least, most = (significant(summary[key]) for key in ("value", "least", "most"))
        interval = (least, most) if summary["count"] > 1 else None
        yield Measurement(
            metric=metric, value=value, unit=unit, interval=interval, repetitions=summary["count"], **places
        )
    if summary["count"] < summary["of"]:
        yield of_share(metric, summary, **places)


def of_share(metric: str, summary: Mapping[str, Any], **places: Any) -> Measurement:
    """The share of heads and draws for which something exists."""
    share = significant(summary["count"] / summary["of"])
    return Measurement(
        metric=f"{metric}_share", value=share, unit=f"share of {summary['of']} heads and draws", **places
    )


def measurements(numbers: Mapping[str, Any], source: str) -> Iterator[Measurement]:
    for row in numbers["theorem1"]:
        at = {"source": source, "n": row["n"]}
        yield from of_summary(
            "stretch", row["stretch"], "||P|| ||w|| / ||P w||, median over w; median over heads", **at
        )
        for best in row["best_rank_k"]:
            places = {"k": best["k"], "epsilon": best["epsilon"], "head_dim": row["d"], **at}
            yield from of_summary("best_rank_k", best["within"], "share of columns w of V, mean over heads", **places)
        for i, k in enumerate(row["k"]):
            yield from of_summary(
                "squared_error", row["squared_error"][i], "of ||P w||^2, mean over w, heads and draws", k=k, **at
            )
            yield from of_summary(
                "expected_error", row["expected_error"][i], "of ||P w||^2, mean over w and heads", k=k, **at
            )
            for j, epsilon in enumerate(row["epsilon"]):
                for metric in theorem1.MEASURED:
                    yield from of_summary(
                        metric, row[metric][i][j], "probability, mean over heads and draws", k=k, epsilon=epsilon, **at
                    )


def proof_checks(record: Record) -> list[Check]:
    """The row in which the measured probability is furthest below the bound of the proof, and counts over all rows."""
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
        Check(
            outcome,
            f"{m.source}, n = {m.n}, k = {m.k}, eps = {m.epsilon}: probability {m.value:.2f} [{low:.2f}, {high:.2f}]; "
            f"needs ≥ {bound:.2f}",
        ),
        Check(
            outcome,
            f"the probability is below the bound in {below} of {len(rows)} rows with a bound above 0, in {clearly} by "
            "more than its 95 % interval",
        ),
    ]


def existence_checks(record: Record) -> list[Check]:
    """The share of columns w for which the best approximation is within eps, at the theorem's own k."""
    checks = []
    for m in record.select("best_rank_k"):
        bound = theorem1.theorem_bound(m.n, m.k, m.epsilon)
        if bound > 0:
            low, high = wilson(m.value, m.repetitions * m.head_dim)
            outcome = HOLDS if m.value >= bound else FAILS if high < bound else UNDECIDED
            where = f"{m.source}, n = {m.n}, k = {m.k}, eps = {m.epsilon}"
            text = f"{where}: {m.value:.2f} [{low:.2f}, {high:.2f}] of columns w; needs ≥ {bound:.2f}"
            checks.append(Check(outcome, text))
    return checks


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
    series += [
        Series(f"bound of the proof, n = {n}", [sorted(points)], True, color_of[n]) for n, points in promised.items()
    ]
    title = f"Theorem 1, eps = {EPSILON}, {record.identifier}"
    name = f"probability-{record.identifier}"
    return [Chart(name, title, "k", "probability that P w is within eps", series, log_x=True)] if series else []


_PROOF_ONLY = (
    "Holds if the measured probability is at least the bound of the proof wherever that is above 0; does not hold if "
    "it is less by more than its sampling error anywhere, 95 % by Wilson, of as many trials as heads and draws of the "
    "projection; not enough evidence if it is less within that. (Written when an earlier measurement was known.)"
)
CLAIMS = (
    Claim(
        "theorem-1",
        "Theorem 1, appendix A",
        "The proof's P R^T R w is within eps of P w as often as the proof says.",
        "Holds if the measured probability, over heads and draws of R, is at least the proof's bound, "
        "1 - 2 n exp(-(eps^2 - eps^3) k / 4), wherever that is above 0; does not hold if it is below the bound by more "
        "than its 95 % interval (Wilson) anywhere; not enough evidence if it is below it within the interval.",
        rule("theorem-1", "theorem-1*", proof_checks),
        (
            EarlierRule(_PROOF_ONLY, "2026-11-22", True, "The rule did not say that only the proof's P~ is tested."),
            EarlierRule(
                "Judged of the P~ of the proof, P R^T R with a random projection R (the theorem says that there is "
                "one; another may do better). " + _PROOF_ONLY,
                "2026-11-23",
                True,
                "The claim read 'there is a P~', but the proof's alone was tested. Now it says so; theorem-1-existence "
                "tests the other.",
            ),
        ),
    ),
    Claim(
        "theorem-1-existence",
        "Theorem 1 and equation (5), section 3",
        "A P~ of rank Theta(log(n)), chosen before w, has P~ w within eps of P w for most w.",
        "P~ is the best approximation of P of its rank (SVD), k = 5 log(n) / (eps^2 - eps^3) as in the proof. Holds if "
        "in each kind of head, at each n and eps with k below n, the share of columns w of V with "
        "||P~ w - P w|| <= eps ||P w|| is at least the probability that the proof gives there, "
        "1 - 2 n exp(-(eps^2 - eps^3) k / 4); does not hold if it is below by more than its 95 % interval (Wilson, "
        "heads times columns) in one; not enough evidence if it is below within the interval. With P~ chosen after w "
        "a rank of 1 is enough, P w w^T / ||w||^2, and the theorem says nothing.",
        rule(
            "theorem-1",
            "theorem-1* with the best approximation of the theorem's rank",
            existence_checks,
            applies=lambda record: record.select("best_rank_k"),
        ),
        (
            EarlierRule(
                "No rule of its own: theorem-1 claimed it and tested the proof's P~.",
                "2026-11-23",
                True,
                "The existence of a P~ needs the best one. Errors of it at other k were known from optimal-rank-k.",
            ),
        ),
    ),
)
EXPERIMENTS = (
    TheoremExperiment(
        "theorem-1",
        "Theorem 1",
        CLAIMS,
        measurements,
        "The probability over R that ||P R^T R w - P w|| <= eps ||P w||, with eps ||P|| ||w|| on the right side, and "
        "the lemma's; and the share of w for which the best approximation of the theorem's rank is within eps",
        "Theorem 1 and appendix A; proved, not measured",
        "theorem1",
        chart,
    ),
)
