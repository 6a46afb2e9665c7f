"""Figure 1: the singular values of attention matrices of a pretrained RoBERTa have a long tail.

    fairseq-linformer reproduce figure-1 --scale cpu --data TEXT

Trains the RoBERTa of Figure 3 (a), and analyzes its attention on the validation split. For a model of your own:
``fairseq-linformer analyze spectrum``.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np

from ...analysis.loading import load_model
from ...analysis.sentences import Counts
from ...analysis.spectrum import STATE, accumulate_spectra
from ...analysis.spectrum_result import Spectrum, dimensions
from ...checkpoints.files import training_seconds
from ...models.datasets import open_dataset
from .. import scoring
from ..claim import Claim, EarlierRule
from ..inputs import Inputs
from ..records import TRAINING, Curve, Measurement, Paper, Record, significant
from ..report.charts import Chart, Heat, Series
from ..report.tables import Table
from ..rules import rule
from ..run_folders import RunFolder, training_of
from ..runs import Model, Run, compared_run
from ..scales import SCALES, Scale
from ..statistics import FAILS, HOLDS, UNDECIDED, Check, decide
from ..text import describe_text, digest, find_shards
from ..training import TrainingExperiment, sizes_of

TAIL, NO_TAIL = 0.75, 0.5
"""Share of the sum of singular values in their first quarter (a quarter if all are equal)."""
MIN_LAYERS = 6
"""Of a model whose layers are compared."""
TOLERANCE = 1e-3
"""Relative tolerance of a spectrum of the same checkpoint on another processor."""


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

    def describe_unfit(self) -> str:
        return ""


def analyze(checkpoint: Path, folder: Path, n: int, sentences: int, out: Path) -> tuple[Spectrum, float]:
    """The spectrum of a checkpoint's attention on the validation split of a text, and the seconds it took. Resumes in
    ``out``."""
    start = time.monotonic()
    model = load_model(checkpoint, tokenizer=False)
    blocks: Any = Blocks(folder, n, cast(int, model.bos))
    out.mkdir(parents=True, exist_ok=True)
    sums = accumulate_spectra(
        model,
        blocks,
        sentences,
        out / STATE,
        {"checkpoint": digest(checkpoint), "valid": digest(folder / "valid.bin"), "n": n},
    )
    facts = {
        "kind": model.kind,
        "n": n,
        "index": max(1, n // 4),
        "singular_values": n,
        "sentences": sums.sentences,
        "float64_difference": sums.difference,
    }
    return Spectrum.from_sums(sums, {}, facts), time.monotonic() - start


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


def by_layer(record: Record) -> dict[tuple[str, int], list[float]]:
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
    for (source, layer), shares in by_layer(record).items():
        least = min(shares)
        outcome = HOLDS if least >= TAIL else FAILS if least < NO_TAIL else UNDECIDED
        text = f"{source}, layer {layer}: {least:.2f} in one of {len(shares)} heads"
        checks.append(Check(outcome, f"{text}, {mean(shares):.2f} on average; needs ≥ {TAIL}"))
    return checks


def layer_checks(record: Record) -> list[Check]:
    """The upper half of the layers against the lower one; of an odd number the middle layer is in neither."""
    shares, checks = by_layer(record), []
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


def count_models(record: Record) -> list[str]:
    """The models that a verdict rests on, whatever their texts."""
    models = list(dict.fromkeys(source.rpartition(", ")[0] or source for source, _ in by_layer(record)))
    return [f"{len(models)} model{'s' * (len(models) != 1)}: {'; '.join(models)}"] * bool(models)


_KNOWN = " (Written when an earlier measurement was known.)"
CLAIMS = (
    Claim(
        "figure-1",
        "Figure 1 (left), section 3; n = 512",
        "The singular values of attention have a long tail, in each layer and head.",
        f"Holds if in each head the first quarter of the singular values has at least {TAIL} of their sum (a "
        f"quarter if all are equal); does not hold if it has less than {NO_TAIL} in one." + _KNOWN,
        rule("figure-1", "spectrum-roberta*", tail_checks),
        (
            EarlierRule(
                "Holds if in each layer the first quarter of the singular values has at least 0.75 of their sum, mean "
                "over heads (a quarter if all are equal); does not hold if it has less than 0.5 in one." + _KNOWN,
                "2026-11-22",
                True,
                "A mean over heads hides heads of full rank. With it the verdict was 'not enough evidence'; in each "
                "head it is 'does not hold'.",
            ),
        ),
    ),
    Claim(
        "figure-1-layers",
        "Figure 1 (right), section 3; n = 512",
        "The singular values of higher layers are more skewed than those of lower ones.",
        "Holds if the first quarter of the singular values has a larger share of their sum in the upper half of the "
        "layers than in the lower half, means over layers and heads, for each model and text; does not hold if it has "
        f"not for one; not enough evidence with fewer than {MIN_LAYERS} layers. The number of models is reported.",
        rule("figure-1", "spectrum-roberta*", layer_checks, count_models),
        (
            EarlierRule(
                "Holds if the first quarter of the singular values has a larger share of their sum in the last layer "
                "than in the first one, for each model and text." + _KNOWN,
                "2026-11-23",
                True,
                "It held on two layers, and whatever the depth it compared no more than two.",
            ),
        ),
    ),
)


class Figure1(TrainingExperiment):
    """The RoBERTa of Figure 3 (a), of one seed."""

    def plan(self, scale: Scale) -> dict[str, list[Run]]:
        return {"roberta": [compared_run(Model(scale.compared_n))(scale, scale.seeds[0])]}

    def configuration(self, scale: Scale) -> dict[str, Any]:
        (run,) = self.plan(scale)["roberta"]
        return {"sizes": sizes_of(scale), "model": run.plan(), "sentences": scale.sentences}

    def cost(self, scale: str) -> str:
        return f"{super().cost(scale)}, {SCALES[scale].sentences:,} sentences"

    def score(self, compared: Sequence[RunFolder], inputs: Inputs, until: float | None) -> None:
        """Measure no perplexity."""

    def make_record(self, scale: str, inputs: Inputs, command: str, again: bool = False) -> Record:
        *starts, last = self.folders(scale, inputs)
        n, text = last.run.model.n, find_shards(inputs.data)[0]
        with TemporaryDirectory() if again else nullcontext(inputs.folder / scale / "spectrum") as out:
            spectrum, seconds = analyze(last.last_checkpoint, text, n, SCALES[scale].sentences, Path(out))
        source = f"RoBERTa, n = {n}, validation split"
        found = list(measurements(spectrum, source))
        return Record(
            identifier=f"spectrum-roberta-{scale}",
            experiment=self.name,
            made_by="reproduce",
            claim="Figure 1 on a RoBERTa pretrained here: normalized cumulative singular values of P",
            paper=Paper(where="Figure 1; section 3; it gives curves of RoBERTa-base and large, and no numbers"),
            measurements=found,
            curves=list(curves(spectrum, source)),
            scale=cast(Any, scale),
            **scoring.provenance([folder.path for folder in (*starts, last)]),
            configuration={
                **self.configuration(SCALES[scale]),
                "runs": {source: spectrum.facts},
                TRAINING: training_of([*starts, last]),
            },
            data=describe_text(inputs.data),
            command=command,
            seconds=round(
                seconds + sum(training_seconds(each.last_checkpoint, each.start) for each in (*starts, last)), 3
            ),
            rules=self.rules(scale, inputs),
            tolerance={m.unit: TOLERANCE for m in found},
        )

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return []

    def charts(self, records: Sequence[Record]) -> list:
        return [chart for record in records for chart in charts(record)]


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


EXPERIMENTS = (Figure1("figure-1", "Figure 1", CLAIMS, lambda scale: {}),)
