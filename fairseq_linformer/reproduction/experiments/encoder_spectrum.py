"""Figure 1 on pretrained encoders of ``transformers``, whose attention has learned from more text than ours.

Usage:

    fairseq-linformer reproduce encoder-spectrum --scale encoder --encoder NAME --source wiki.txt --source imdb.jsonl

A record per encoder. Sources are read as by ``analyze spectrum``: plain text is concatenated and split every n tokens;
of JSON lines and parquet each row is a sentence, and those shorter than n are skipped. The rules are those of Figure 1.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...analysis.attention_model import AttentionModel
from ...analysis.loading import load_model
from ...analysis.sentences import Sentences
from ...analysis.spectrum import STATE, accumulate_spectra
from ...analysis.spectrum_result import Spectrum
from ..claim import Claim
from ..inputs import Inputs
from ..records import Curve, Measurement, Paper, Record
from ..report.charts import Chart, Heat
from ..report.tables import Table
from ..rules import rule
from ..spectra import (
    MIN_LAYERS,
    NO_TAIL,
    TAIL,
    TOLERANCE,
    charts,
    curves,
    describe_models,
    layer_checks,
    measurements,
    shares_by_layer,
    spectrum_facts,
    tail_checks,
)
from ..untrained_experiment import UntrainedExperiment

NAME = "encoder-spectrum"
SIZES = {"smoke": (16, 2), "encoder": (512, 50)}
"""n, and sentences per source, by scale."""


def read_sentences(source: str, model: AttentionModel, n: int) -> Sentences:
    """The sentences of a source: plain text in blocks of n tokens, or one row at a time."""
    sentences = Sentences([source], model.tokenizer, n, "packed", "skip", model.bos, model.eos)
    if all(chunk.format == "text" for chunk in sentences.plan.chunks):
        return sentences
    return Sentences([source], model.tokenizer, n, "lines", "skip", model.bos, model.eos)


class EncoderSpectrum(UntrainedExperiment):
    """The spectrum of one encoder on each source; writes only its record."""

    name, title, scales = NAME, "Figure 1 on pretrained encoders", tuple(SIZES)
    reads = ("encoder", "source")
    claims = (
        Claim(
            NAME,
            "Figure 1 (left), section 3; n = 512",
            "The singular values of the attention of pretrained encoders have a long tail, in each layer and head.",
            f"Holds if in each head the first quarter of the singular values has at least {TAIL} of their sum (a "
            f"quarter if all are equal); does not hold if it has less than {NO_TAIL} in one. The rule of Figure 1. "
            "(Prototypes with means over heads of 0.65 to 0.98 by layer were known.)",
            rule(NAME, "spectrum-*", tail_checks),
        ),
        Claim(
            f"{NAME}-layers",
            "Figure 1 (right), section 3; n = 512",
            "In pretrained encoders, the singular values of higher layers are more skewed than those of lower ones.",
            "Holds if the first quarter of the singular values has a larger share of their sum in the upper half of "
            "the layers than in the lower half, means over layers and heads, for each encoder and text; does not hold "
            f"if it has not for one; not enough evidence with fewer than {MIN_LAYERS} layers. The rule of Figure 1. "
            "(Prototypes with means over heads were known.)",
            rule(NAME, "spectrum-*", layer_checks, describe_models),
        ),
    )

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        names = [Path(source.partition(",")[0]).name for source in inputs.source or ()]
        if len(set(names)) < len(names):
            raise ValueError(f"--source must have different names, got {', '.join(names)}")

    def cost(self, scale: str) -> str:
        n, sentences = SIZES[scale]
        return f"{sentences} sentences of {n} tokens per source, trains nothing"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        started, (n, num_sentences) = time.monotonic(), SIZES[scale]
        name, model = Path(str(inputs.encoder)).name, load_model(inputs.encoder)
        if model.n < n:
            raise ValueError(f"--encoder must have at least {n} positions, got {model.n}")
        found: list[Measurement] = []
        lines: list[Curve] = []
        facts = {}
        texts = [read_sentences(source, model, n) for source in inputs.source or ()]
        for sentences in texts:
            spectrum = _analyze(model, sentences, num_sentences)
            source = f"{name}, {sentences.short_name}"
            found += measurements(spectrum, source)
            lines += curves(spectrum, source)
            facts[source] = spectrum.facts
        files: list[Any] = [item for sentences in texts for item in sentences.identity()]
        return [
            self.record(
                scale,
                command,
                started,
                f"Figure 1 on {name}: normalized cumulative singular values of P",
                found,
                {**_identify(model, texts), "layers": model.layers, "runs": facts},
                {m.unit: TOLERANCE for m in found},
                _describe(files),
                Paper(where="Figure 1; section 3; it gives curves of RoBERTa-base and large, and no numbers"),
                lines,
                _identifier(str(inputs.encoder), scale),
            )
        ]

    def tables(self, records: Sequence[Record]) -> list[Table]:
        """The smallest, mean and largest share of the heads, by layer."""
        return [_table(record) for record in records]

    def charts(self, records: Sequence[Record]) -> list[Chart | Heat]:
        return [chart for record in records for chart in charts(record)]


def _analyze(model: AttentionModel, sentences: Sentences, number: int) -> Spectrum:
    with TemporaryDirectory() as folder:
        sums = accumulate_spectra(model, sentences, number, Path(folder) / STATE, {})
    facts = spectrum_facts(model, sentences.n, sums)
    facts |= {"texts": asdict(sentences.counts), "break_mode": sentences.break_mode}
    return Spectrum.from_sums(sums, {}, facts)


def _identify(model: AttentionModel, texts: Sequence[Sentences]) -> dict[str, Any]:
    return {"encoder": model.identity, "sources": [sentences.identity() for sentences in texts]}


def _identifier(encoder: str, scale: str) -> str:
    """
    >>> _identifier("sentence-transformers/all-MiniLM-L6-v2", "encoder")
    'spectrum-all-minilm-l6-v2-encoder'
    """
    return f"spectrum-{re.sub('[^a-z0-9]+', '-', Path(encoder).name.lower()).strip('-')}-{scale}"


def _describe(files: Sequence[dict[str, Any]]) -> str:
    """Names and checksums of the sources; of sources on the hub, only names."""
    sums = [f"{file['location']} {' '.join(checksum[:12] for checksum in file['sha256'])}".strip() for file in files]
    return f"sha256: {', '.join(sums)}"


def _table(record: Record) -> Table:
    shares = shares_by_layer(record)
    sources = list(dict.fromkeys(source for source, _ in shares))
    rows = [
        [str(layer), *(_spread(shares[source, layer]) for source in sources)]
        for layer in sorted({layer for _, layer in shares})
    ]
    caption = (
        f"{record.identifier}: share of the sum of singular values in their first quarter, mean over heads (lowest to "
        "highest)"
    )
    return Table(["layer", *sources], rows, caption)


def _spread(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.2f} ({min(values):.2f} to {max(values):.2f})"


EXPERIMENTS = (EncoderSpectrum(),)
