"""Spectra of attention in records: measurements, curves, the rules of Figure 1, and charts."""

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any

import numpy as np

from ..analysis.attention_model import AttentionModel
from ..analysis.spectrum import SpectrumSums
from ..analysis.spectrum_result import Spectrum, dimensions
from .records import Curve, Measurement, Record, significant
from .report.charts import Chart, Heat, Series
from .statistics import FAILS, HOLDS, UNDECIDED, Check, decide

TAIL, NO_TAIL = 0.75, 0.5
"""Share of the sum of singular values in their first quarter (a quarter if all are equal)."""
MIN_LAYERS = 6
"""Of a model whose layers are compared."""
TOLERANCE = 1e-3
"""Relative tolerance of a spectrum of the same checkpoint on another processor."""


def spectrum_facts(model: AttentionModel, n: int, sums: SpectrumSums) -> dict[str, Any]:
    """The facts of a spectrum that rules, tables and charts read."""
    return {
        "kind": model.kind,
        "n": n,
        "index": max(1, n // 4),
        "singular_values": n,
        "sentences": sums.sentences,
        "float64_difference": sums.difference,
    }


def measurements(spectrum: Spectrum, source: str) -> Iterator[Measurement]:
    """The share at a quarter of the singular values, and k for 90 %, of each layer and head."""
    basis = f"mean over {spectrum.facts['sentences']:,} sentences"
    ninety = {"": dimensions(spectrum, 0.9), "_of_squares": dimensions(spectrum, 0.9, "squares")}
    for (layer, head), share in np.ndenumerate(spectrum.heat):
        at = {"source": source, "n": spectrum.facts["n"], "layer": layer + 1, "head": head + 1}
        deviation = spectrum.deviation[layer, head, spectrum.index - 1]
        yield Measurement(
            metric="cumulative_share",
            value=significant(share),
            unit=f"share of the sum of singular values, {basis}",
            **at,
        )
        yield Measurement(
            metric="cumulative_share_deviation",
            value=significant(deviation),
            unit="share of the sum of singular values, over sentences",
            **at,
        )
        for suffix, ks in ninety.items():
            yield Measurement(
                metric=f"k_for_90_percent{suffix}",
                value=float(ks[layer, head]),
                unit=f"singular values, of the {basis}",
                **at,
            )


def curves(spectrum: Spectrum, source: str) -> Iterator[Curve]:
    """The cumulative share of each layer, mean over heads, at every ``max(1, n // 32)``-th index."""
    for layer, values in enumerate(spectrum.layers, start=1):
        step = max(1, len(values) // 32)
        points: list[tuple[float, float]] = [
            (i, round(float(value), 5)) for i, value in enumerate(values, start=1) if i % step == 0
        ]
        yield Curve(metric="cumulative_share", source=source, layer=layer, points=points)


# Rules


def shares_by_layer(record: Record) -> dict[tuple[str, int], list[float]]:
    """The share of each head at a quarter of the singular values, by source and layer. Sources with another index are
    skipped."""
    shares: dict[tuple[str, int], list[float]] = {}
    for m in record.select("cumulative_share"):
        facts = record.configuration["runs"][m.source]
        if 4 * facts["index"] == facts["singular_values"]:
            shares.setdefault((m.source, m.layer), []).append(m.value)
    return shares


def tail_checks(record: Record) -> list[Check]:
    """The smallest share of a layer's heads decides, not the mean."""
    checks = []
    for (source, layer), shares in shares_by_layer(record).items():
        least = min(shares)
        outcome = HOLDS if least >= TAIL else FAILS if least < NO_TAIL else UNDECIDED
        text = f"{source}, layer {layer}: {least:.2f} in one of {len(shares)} heads"
        checks.append(Check(outcome, f"{text}, {mean(shares):.2f} on average; needs ≥ {TAIL}"))
    return checks


def layer_checks(record: Record) -> list[Check]:
    """The upper half of the layers against the lower one; of an odd number the middle layer is in neither."""
    shares, checks = shares_by_layer(record), []
    for source in dict.fromkeys(source for source, _ in shares):
        layers = sorted(layer for each, layer in shares if each == source)
        half = max(1, len(layers) // 2)
        lower, upper = (mean(mean(shares[source, i]) for i in some) for some in (layers[:half], layers[-half:]))
        text = f"{source}: {lower:.2f} in {_range(layers[:half])}, {upper:.2f} in {_range(layers[-half:])}"
        if len(layers) < MIN_LAYERS:
            checks.append(Check(UNDECIDED, f"{text}; needs {MIN_LAYERS} layers"))
        else:
            checks.append(decide(upper > lower, f"{text}; needs more in the upper ones"))
    return checks


def _range(layers: Sequence[int]) -> str:
    return f"layer {layers[0]}" if len(layers) == 1 else f"layers {layers[0]} to {layers[-1]}"


def describe_models(record: Record) -> list[str]:
    """The models that a verdict rests on, whatever their texts."""
    models = list(dict.fromkeys(source.rpartition(", ")[0] or source for source, _ in shares_by_layer(record)))
    return [f"{len(models)} model{'s' * (len(models) != 1)}: {'; '.join(models)}"] * bool(models)


# Charts


def charts(record: Record) -> Iterator[Chart | Heat]:
    """The cumulative shares by layer for each n, and each head at a quarter of them on the first text of that n."""
    facts = record.configuration["runs"]
    for n in sorted({run["n"] for run in facts.values()}, reverse=True):
        sources = [source for source, run in facts.items() if run["n"] == n]
        series = [
            Series(f"{_text(source)}, layer {curve.layer}", [curve.points])
            for source in sources
            for curve in record.curves
            if curve.source == source
        ]
        if series:
            yield Chart(
                f"cumulative-n{n}-{record.identifier}",
                f"Figure 1 (left), n = {n}, {record.identifier}",
                "index of the singular value, largest first",
                "cumulative share, mean over heads",
                series,
            )
        shares: dict[int, dict[int, float]] = {}
        for m in record.select("cumulative_share", source=sources[0]):
            shares.setdefault(m.layer, {})[m.head] = m.value
        if shares:
            run, heads = facts[sources[0]], list(next(iter(shares.values())))
            yield Heat(
                f"heads-n{n}-{record.identifier}",
                f"Figure 1 (right), n = {n}, {_text(sources[0])}, {record.identifier}",
                [f"layer {layer}" for layer in shares],
                [f"head {head}" for head in heads],
                [[row[head] for head in heads] for row in shares.values()],
                f"cumulative share at singular value {run['index']} of {run['singular_values']}",
            )


def _text(source: str) -> str:
    """The text in the label of a source, its last part."""
    return source.split(", ")[-1]
