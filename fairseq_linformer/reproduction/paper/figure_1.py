"""The singular values of attention matrices have a long tail, and those of higher layers are more skewed.

Measured on two sentence encoders of 6 and 12 layers, on 50 blocks of 512 tokens of each text, or on 50 reviews of which
the first 512 tokens are read. Neither is a RoBERTa-base or large, of which the paper gives curves over 10,000
sentences, and no numbers. The limits below are ours, not the paper's.

**Tail.** Holds if in each head, as the paper says, the first quarter of the singular values has at least 0.75 of their
sum (a quarter if all are equal); does not hold if it has less than 0.5 in one. So a single head decides, not the mean.
A tail need not be learned: the remark has the share of heads with one also for copies with shuffled weights.

**Layers.** In the upper half of the layers the first quarter of the singular values has a larger share of their sum
than in the lower half, means over layers and heads. The control is 20 copies of the model, whose weights are shuffled
within each matrix, on 2 blocks of the first text. Holds if the difference is larger than that of all copies, for each
model and text; does not hold if it is smaller than that of all copies, for one; not enough evidence with fewer than 6
layers. (The rule had no control before 2026-11-30, and then a single copy; it held.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, mean

import numpy as np
import torch
from torch import nn

from ...analysis.attention_model import AttentionModel
from ...analysis.loading import load_model
from ...analysis.sentences import Sentences
from ...analysis.spectrum import Spectrum, measure_spectrum
from ...data.manifest import describe_source
from ..page import Panel, Table
from ..result import Inputs, Parts, Result, Row, Rows, describe_files, in_words, join, repeated, significant
from ..verdict import UNDECIDED, Check, Verdict, decide

TITLE, WHERE = "Figure 1", "Figure 1, section 3"
SAYS = "singular values of attention have a long tail, more so in higher layers"
SHUFFLED = "shuffled weights"
PARTS: Parts = {scale: dict.fromkeys(("encoder", SHUFFLED), ("encoder", "source")) for scale in ("smoke", "encoder")}
TAIL, NO_TAIL = 0.75, 0.5
MIN_LAYERS, COPIES = 6, 20
SIZES = {"smoke": (16, 2), "encoder": (512, 50)}
"""n, and sentences per source; the paper takes 10,000."""


def run(inputs: Inputs) -> Result:
    """An encoder of ``transformers`` on each source: plain text is split every n tokens; of JSON lines and parquet each
    row is a sentence, and those shorter than n are skipped."""
    n, number = SIZES[inputs.scale]
    name, model = Path(inputs.encoder).name, load_model(inputs.encoder)
    if model.n < n:
        raise ValueError(f"--encoder must have at least {n} positions, got {model.n}")
    texts = [Sentences(source, model, n) for source in inputs.source]
    if len(names := {text.name for text in texts}) < len(texts):
        raise ValueError(f"--source must be files of different names, got {len(texts)} with {', '.join(sorted(names))}")
    if inputs.part == SHUFFLED:
        texts = texts[:1]
        rows = list(measure_copies(name, model, texts[0], max(1, number // 25)))
    else:
        spectra = {f"{name}, {text.name}": measure_spectrum(model, text, number, n, text.name) for text in texts}
        rows = rows_of(spectra)
    data = describe_files(describe_source(text.source) for text in texts)
    return replace(inputs, part=f"{inputs.part} {name.lower()}").result(rows, data)


def measure_copies(name: str, model: AttentionModel, text: Sentences, number: int) -> Iterator[Row]:
    """For each copy with shuffled weights, each shuffled from the one before: the difference between the halves of the
    layers, and the share of heads with a long tail."""
    generator = torch.Generator().manual_seed(1)
    for copy in range(1, COPIES + 1):
        shuffle(model.module, generator)
        heat = measure_spectrum(model, text, number, text.n, f"{text.name}, {SHUFFLED} {copy}").heat
        at = {"model": name, "n": text.n, "copy": copy}
        share = "share of the sum of singular values"
        yield Row(metric="difference", value=significant(compare_halves(heat.mean(1))), unit=share, **at)
        yield Row(metric="tail", value=significant((heat >= TAIL).mean()), unit="share of heads", **at)


@torch.no_grad()
def shuffle(module: nn.Module, generator: torch.Generator) -> None:
    """Shuffle the values within each matrix of a model."""
    for weight in module.parameters():
        if weight.dim() > 1:
            weight.copy_(weight.flatten()[torch.randperm(weight.numel(), generator=generator)].view_as(weight))


def rows_of(spectra: Mapping[str, Spectrum]) -> list[Row]:
    """The share of each head at a quarter of the singular values, and the cumulative share of each layer, mean over
    heads."""
    rows = []
    for source, spectrum in spectra.items():
        n, unit = spectrum.n, f"share of the sum of singular values, mean over {spectrum.sentences:,} sentences"
        for (layer, head), share in np.ndenumerate(spectrum.heat):
            at = {"source": source, "n": n, "layer": layer + 1, "head": head + 1}
            rows.append(Row(metric="cumulative_share", value=significant(share), unit=unit, **at))
        for number, values in enumerate(spectrum.layers, start=1):
            step = max(1, len(values) // 32)
            points = [(i, round(float(value), 5)) for i, value in enumerate(values, start=1) if i % step == 0]
            rows.append(Row(metric="cumulative_share_curve", source=source, layer=number, points=points))
    return rows


Shares = dict[str, dict[int, list[float]]]
"""The share of each head at a quarter of the singular values, by source and layer."""


def shares_of(rows: Rows) -> Shares:
    shares: Shares = {}
    for row in rows.select("cumulative_share"):
        shares.setdefault(row.source, {}).setdefault(row.layer, []).append(row.value)
    return shares


def tail_checks(shares: Shares) -> list[Check]:
    checks = []
    for source, layers in shares.items():
        for layer, values in layers.items():
            least = min(values)
            text = f"{source}, layer {layer}: {least:.2f} in one of {len(values)} heads, {mean(values):.2f} on average"
            checks.append(decide(least >= TAIL, f"{text}; needs ≥ {TAIL}", least < NO_TAIL))
    return checks


def tail_remarks(rows: Rows) -> list[str]:
    """The share of heads with a long tail on each text, next to that of copies with shuffled weights."""
    remarks = []
    for source, layers in shares_of(rows).items():
        values = [value for heads in layers.values() for value in heads]
        copies = [row.value for row in rows.select("tail", model=source.partition(", ")[0])]
        share = f"{source}: {fmean(value >= TAIL for value in values):.2f} of the heads have ≥ {TAIL}"
        remarks.append(f"{share}; with {SHUFFLED} {in_words(Row(repeated(copies, fmean)))}")
    return remarks


def layer_checks(rows: Rows) -> list[Check]:
    """How much more the upper half of the layers has than the lower one, next to copies with shuffled weights."""
    checks = []
    for source, heads in shares_of(rows).items():
        layers = [mean(values) for _, values in sorted(heads.items())]
        difference = compare_halves(layers)
        text = f"{source}: {difference:.3f} more in the upper half of {len(layers)} layers"
        copies = [row.value for row in rows.select("difference", model=source.partition(", ")[0])]
        if len(layers) < MIN_LAYERS or not copies:
            checks.append(Check(UNDECIDED, f"{text}; needs {MIN_LAYERS} layers, and copies with {SHUFFLED}"))
        else:
            needed = f"needs > {max(copies):.3f} ({len(copies)} copies with {SHUFFLED}, least {min(copies):.3f})"
            checks.append(decide(difference > max(copies), f"{text}; {needed}", difference < min(copies)))
    return checks


def compare_halves(layers: Sequence[float]) -> float:
    """The mean of the upper half minus that of the lower one; of an odd number the middle layer is in neither."""
    half = max(1, len(layers) // 2)
    return fmean(layers[-half:]) - fmean(layers[:half])


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(results)
    tail = "The singular values of attention have a long tail (by our limit), in each layer and head."
    layers = "The singular values of higher layers are more skewed, and more so than with shuffled weights."
    return [
        Verdict("tail", tail, tail_checks(shares_of(rows)), remarks=tail_remarks(rows)),
        Verdict("layers", layers, layer_checks(rows)),
    ]


def tables(results: Sequence[Result]) -> list[Table]:
    shares = shares_of(join(results))
    rows = [
        [str(layer), *(in_words(Row(repeated(layers.get(layer, []), fmean))) for layers in shares.values())]
        for layer in sorted({layer for layers in shares.values() for layer in layers})
    ]
    title = "Share of the sum of singular values in their first quarter, mean over heads [lowest, highest]"
    return [Table(title, ["layer", *shares], rows)]


def chart(results: Sequence[Result]) -> list[Panel]:
    """The cumulative shares by layer, of the first text of each model."""
    panels = []
    for result in results:
        if not (curves := result.rows.select("cumulative_share_curve")):
            continue
        source = curves[0].source
        curves = curves.select("cumulative_share_curve", source=source)
        every = max(1, len(curves) // 6)
        lines = {f"layer {row.layer}": [row.points] for row in curves[::every]}
        x = "index of the singular value, largest first"
        panels.append(Panel(source, x, "cumulative share, mean over heads", lines))
    return panels
