"""Figure 1: the singular values of attention matrices of a pretrained RoBERTa have a long tail.

    fairseq-linformer reproduce figure-1 --scale cpu --text TEXT

Trains the RoBERTa of Figure 3 (a), and analyzes its attention on the validation split. For a model of your own:
``fairseq-linformer analyze spectrum``.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...analysis.loading import load_model
from ...analysis.result import Spectrum, dimensions
from ...analysis.spectrum import STATE, measure
from ...analysis.texts import Counts
from ...checkpoints.files import training_seconds
from ...evaluation.rows import open_dataset
from .. import scoring
from ..cells import rule
from ..records import Curve, Measurement, Record, significant
from ..registry import Claim, Inputs
from ..report.charts import Chart, Heat, Series
from ..report.tables import Table
from ..runs import Model, Run, RunFolder, compared
from ..scales import SCALES, Scale
from ..statistics import FAILS, HOLDS, UNDECIDED, Check
from ..text import described, digest, shards_of
from ..training import TrainingExperiment, sizes_of

TAIL, NO_TAIL = 0.75, 0.5
"""Share of the sum of singular values in their first quarter (a quarter if all are equal)."""
TOLERANCE = 1e-3
"""Relative, of a spectrum of the same checkpoint on another processor."""


class Blocks:
    """The validation split of a prepared text in blocks of n tokens that begin with ``<s>``, none of them masked.

    Attributes:
        counts: of the iteration so far.
    """

    def __init__(self, folder: Path, n: int, bos: int):
        self.dataset, self.n, self.bos, self.counts = open_dataset(folder / "valid"), n, bos, Counts()

    def __iter__(self) -> Iterator[list[int]]:
        self.counts, block = Counts(), [self.bos]
        for i in range(len(self.dataset)):
            self.counts.texts += 1
            block += self.dataset[i].tolist()
            while len(block) >= self.n:
                self.counts.sentences += 1
                yield block[: self.n]
                block = [self.bos, *block[self.n :]]

    def left_out(self) -> str:
        return ""


def analyze(checkpoint: Path, folder: Path, n: int, sentences: int, out: Path) -> tuple[Spectrum, float]:
    """The spectrum of a checkpoint's attention on the validation split of a text, and the seconds it took. Resumes in ``out``."""
    begun = time.monotonic()
    model = load_model(checkpoint, tokenizer=False)
    blocks = Blocks(folder, n, model.bos)
    out.mkdir(parents=True, exist_ok=True)
    sums = measure(model, blocks, sentences, out / STATE, {"checkpoint": digest(checkpoint), "valid": digest(folder / "valid.bin"), "n": n})
    facts = {"kind": model.kind, "n": n, "index": max(1, n // 4), "singular_values": n, "sentences": sums.sentences,
             "float64_difference": sums.difference}  # fmt: skip
    return Spectrum.of(sums, {}, facts), time.monotonic() - begun


def measurements(spectrum: Spectrum, source: str) -> Iterator[Measurement]:
    """Of each layer and head: the share at a quarter of the singular values, and k for 90 %."""
    over = f"mean over {spectrum.facts['sentences']:,} sentences"
    ninety = {"": dimensions(spectrum, 0.9), "_of_squares": dimensions(spectrum, 0.9, "squares")}
    for (layer, head), share in np.ndenumerate(spectrum.heat):
        at = {"source": source, "n": spectrum.facts["n"], "layer": layer + 1, "head": head + 1}
        deviation = spectrum.deviation[layer, head, spectrum.index - 1]
        yield Measurement(metric="cumulative_share", value=significant(share), unit=f"share of the sum of singular values, {over}", **at)
        yield Measurement(metric="cumulative_share_deviation", value=significant(deviation),
                          unit="share of the sum of singular values, over sentences", **at)  # fmt: skip
        for suffix, ks in ninety.items():
            yield Measurement(metric=f"k_for_90_percent{suffix}", value=float(ks[layer, head]), unit=f"singular values, of the {over}", **at)


def curves(spectrum: Spectrum, source: str) -> Iterator[Curve]:
    """The cumulative share of each layer, mean over heads, at every ``max(1, n // 32)``-th index."""
    for layer, values in enumerate(spectrum.layers, start=1):
        step = max(1, len(values) // 32)
        points = [(i, round(float(value), 5)) for i, value in enumerate(values, start=1) if i % step == 0]
        yield Curve(metric="cumulative_share", source=source, layer=layer, points=points)


# Rules


def by_layer(record: Record) -> dict[tuple[str, int], list[float]]:
    """The share of each head at a quarter of the singular values, by source and layer. Sources with another index are left out."""
    shares: dict[tuple[str, int], list[float]] = {}
    for m in record.select("cumulative_share"):
        facts = record.configuration["runs"][m.source]
        if 4 * facts["index"] == facts["singular_values"]:
            shares.setdefault((m.source, m.layer), []).append(m.value)
    return shares


def tail_checks(record: Record) -> list[Check]:
    """In every head: the least of a layer decides, not the mean."""
    checks = []
    for (source, layer), shares in by_layer(record).items():
        least = min(shares)
        outcome = HOLDS if least >= TAIL else FAILS if least < NO_TAIL else UNDECIDED
        said = f"{source}, layer {layer}: the first quarter of the singular values has {least:.2f} of their sum in one of {len(shares)} heads"
        checks.append(Check(outcome, f"{said}, {mean(shares):.2f} in the mean; at least {TAIL} in each wanted"))
    return checks


def layer_checks(record: Record) -> list[Check]:
    shares, checks = by_layer(record), []
    for source in dict.fromkeys(source for source, _ in shares):
        layers = sorted(layer for each, layer in shares if each == source)
        first, last = (mean(shares[source, layer]) for layer in (layers[0], layers[-1]))
        said = f"{source}: {first:.2f} of the sum in layer {layers[0]}, {last:.2f} in layer {layers[-1]}, the last one, means over heads; one model"
        checks.append(Check(HOLDS if last > first else FAILS, said))
    return checks


_KNOWN = " (Written when an earlier measurement was known.)"
CLAIMS = (
    Claim("figure-1", "Figure 1 (left), section 3; n = 512", "The singular values of attention have a long tail, in each layer and head.",
          f"Holds if in each head the first quarter of the singular values has at least {TAIL} of their sum (a "
          f"quarter if all are equal); does not hold if it has less than {NO_TAIL} in one." + _KNOWN,
          rule("figure-1", "spectrum-roberta*", tail_checks)),
    Claim("figure-1-layers", "Figure 1 (right), section 3; n = 512",
          "The singular values of higher layers are more skewed than those of lower ones.",
          "Holds if the first quarter of the singular values has a larger share of their sum in the last layer than in the first one, for each model and text."
          + _KNOWN, rule("figure-1", "spectrum-roberta*", layer_checks)),
)  # fmt: skip


class Figure1(TrainingExperiment):
    """The RoBERTa of Figure 3 (a), of one seed."""

    def plan(self, scale: Scale) -> dict[str, list[Run]]:
        return {"roberta": [compared(Model(scale.compared_n))(scale, scale.seeds[0])]}

    def configuration(self, scale: Scale) -> dict[str, Any]:
        (run,) = self.plan(scale)["roberta"]
        return json.loads(json.dumps({"sizes": sizes_of(scale), "model": run.described(), "sentences": scale.sentences}))

    def cost(self, scale: str) -> str:
        return f"{super().cost(scale)}, {SCALES[scale].sentences:,} sentences"

    def score(self, compared: Sequence[RunFolder], inputs: Inputs, until: float | None) -> None:
        """Its perplexity is not measured."""

    def make_record(self, scale: str, inputs: Inputs, command: str, again: bool = False) -> Record:
        *starts, last = self.folders(scale, inputs)
        n, text = last.run.model.n, shards_of(inputs.text)[0]
        with TemporaryDirectory() if again else nullcontext(inputs.folder / scale / "spectrum") as out:
            spectrum, seconds = analyze(last.last, text, n, SCALES[scale].sentences, Path(out))
        source = f"RoBERTa, n = {n}, validation split"
        found = list(measurements(spectrum, source))
        return Record(
            identifier=f"spectrum-roberta-{scale}",
            experiment=self.name,
            made_by="reproduce",
            claim="Figure 1 on a RoBERTa pretrained here: normalized cumulative singular values of P",
            paper={"where": "Figure 1; section 3; it gives curves of RoBERTa-base and large, and no numbers"},
            measurements=found,
            curves=list(curves(spectrum, source)),
            scale=scale,
            **scoring.provenance([folder.path for folder in (*starts, last)]),
            configuration={**self.configuration(SCALES[scale]), "runs": {source: spectrum.facts}},
            data=described(inputs.text),
            command=command,
            seconds=round(seconds + sum(training_seconds(each.last, each.start) for each in (*starts, last)), 3),
            rules=self.rules(scale, inputs),
            tolerance={m.unit: TOLERANCE for m in found},
        )

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return []

    def charts(self, records: Sequence[Record]) -> list[Chart | Heat]:
        return [chart for record in records for chart in charts(record)]


def charts(record: Record) -> Iterator[Chart | Heat]:
    """For each n the cumulative shares by layer; and each head at a quarter of them, of the first text of that n."""
    facts = record.configuration["runs"]
    for n in sorted({run["n"] for run in facts.values()}, reverse=True):
        sources = [source for source, run in facts.items() if run["n"] == n]
        series = [Series(f"{_text(source)}, layer {curve.layer}", [curve.points])
                  for source in sources for curve in record.curves if curve.source == source]  # fmt: skip
        if series:
            yield Chart(f"cumulative-n{n}-{record.identifier}", f"Figure 1 (left), n = {n}, {record.identifier}",
                        "index of the singular value, largest first", "cumulative share, mean over heads", series)  # fmt: skip
        shares: dict[int, dict[int, float]] = {}
        for m in record.select("cumulative_share", source=sources[0]):
            shares.setdefault(m.layer, {})[m.head] = m.value
        if shares:
            run, heads = facts[sources[0]], list(next(iter(shares.values())))
            yield Heat(f"heads-n{n}-{record.identifier}", f"Figure 1 (right), n = {n}, {_text(sources[0])}, {record.identifier}",
                       [f"layer {layer}" for layer in shares], [f"head {head}" for head in heads],
                       [[row[head] for head in heads] for row in shares.values()],
                       f"cumulative share at singular value {run['index']} of {run['singular_values']}")  # fmt: skip


def _text(source: str) -> str:
    """The last part of a label, which names the text."""
    return source.split(", ")[-1]


EXPERIMENTS = (Figure1("figure-1", "Figure 1", CLAIMS, lambda scale: {}),)
