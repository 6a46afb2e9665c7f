"""Figure 1: the singular values of attention matrices of a pretrained RoBERTa have a long tail.

    fairseq-linformer reproduce figure-1 --scale cpu --data TEXT

Trains the RoBERTa of Figure 3 (a), and analyzes its attention on the validation split. For a model of your own:
``fairseq-linformer analyze spectrum``.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ...analysis.loading import load_model
from ...analysis.sentences import Counts
from ...analysis.spectrum import STATE, accumulate_spectra
from ...analysis.spectrum_result import Spectrum
from ...checkpoints.files import training_seconds
from ...models.datasets import open_dataset
from .. import scoring
from ..claim import Claim
from ..inputs import Inputs
from ..records import TRAINING, Paper, Record
from ..report.tables import Table
from ..rules import rule
from ..run_folders import RunFolder, training_of
from ..runs import Model, Run, compared_run
from ..scales import SCALES, Scale
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
    spectrum_facts,
    tail_checks,
)
from ..text import describe_text, digest, find_shards
from ..training import TrainingExperiment, sizes_of


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
    return Spectrum.from_sums(sums, {}, spectrum_facts(model, n, sums)), time.monotonic() - start


_KNOWN = " (Written when an earlier measurement was known.)"
CLAIMS = (
    Claim(
        "figure-1",
        "Figure 1 (left), section 3; n = 512",
        "The singular values of attention have a long tail, in each layer and head.",
        f"Holds if in each head the first quarter of the singular values has at least {TAIL} of their sum (a "
        f"quarter if all are equal); does not hold if it has less than {NO_TAIL} in one." + _KNOWN,
        rule("figure-1", "spectrum-roberta*", tail_checks),
    ),
    Claim(
        "figure-1-layers",
        "Figure 1 (right), section 3; n = 512",
        "The singular values of higher layers are more skewed than those of lower ones.",
        "Holds if the first quarter of the singular values has a larger share of their sum in the upper half of the "
        "layers than in the lower half, means over layers and heads, for each model and text; does not hold if it has "
        f"not for one; not enough evidence with fewer than {MIN_LAYERS} layers. The number of models is reported.",
        rule("figure-1", "spectrum-roberta*", layer_checks, describe_models),
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
        """Nothing to score: the record has no perplexity."""

    def make_record(self, scale: str, inputs: Inputs, command: str) -> Record:
        *starts, last = self.folders(scale, inputs)
        n, text = last.run.model.n, find_shards(inputs.data)[0]
        out = inputs.folder / scale / "spectrum"
        spectrum, seconds = analyze(last.last_checkpoint, text, n, SCALES[scale].sentences, out)
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
                seconds
                + sum(training_seconds(each.last_checkpoint, each.initial_checkpoint) for each in (*starts, last)),
                3,
            ),
            tolerance={m.unit: TOLERANCE for m in found},
        )

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return []

    def charts(self, records: Sequence[Record]) -> list:
        return [chart for record in records for chart in charts(record)]


EXPERIMENTS = (Figure1("figure-1", "Figure 1", CLAIMS, lambda scale: {}),)
