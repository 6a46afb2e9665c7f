"""Encoders converted to Linformers without training, and what they keep; the base of experiments.

The share of variance is that of ``linearization/explained_variance.py``, on held-out text. Nothing is random but the
order of the text, so there are no seeds.
"""

import tempfile
import time
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.files import write_checkpoint
from ..checkpoints.from_transformers import MODEL, read_transformers, write_model
from ..checkpoints.roberta import from_roberta
from ..linearization.explained_variance import explained_variance
from .encoder_models import EncoderModel, check_encoder_positions
from .inputs import Inputs
from .records import Measurement, Record, significant
from .text import checksums, describe_text, find_shards
from .untrained_experiment import UntrainedExperiment

METRIC, UNIT = "surviving_variance", "share of variance"


def last_share(record: Record, **where: Any) -> float:
    """The share of the last layer of a model."""
    return max(record.select(METRIC, **where), key=lambda m: m.layer or 0).value


@dataclass(frozen=True)
class Conversion:
    """A Linformer, its label in records, and the lengths of the inputs on which it is measured."""

    model: EncoderModel
    label: str
    lengths: tuple[int, ...]


class ConvertedEncoders(UntrainedExperiment):
    """Converts an encoder to Linformers and compares hidden states; writes only its record. Subclasses choose the
    Linformers."""

    reads = ("data", "encoder")
    claim: str
    """What the record has, in a sentence."""

    @abstractmethod
    def conversions(self, scale: str) -> list[Conversion]:
        """The Linformers."""

    @abstractmethod
    def tokens(self, scale: str) -> int:
        """Tokens of held-out text for each model and length."""

    @abstractmethod
    def sizes(self, scale: str) -> dict[str, Any]:
        """The plan, for the configuration of the record."""

    def cost(self, scale: str) -> str:
        conversions = self.conversions(scale)
        tokens = sum(len(each.lengths) for each in conversions) * self.tokens(scale)
        return f"{len(conversions)} conversions, {tokens:,} tokens, trains nothing"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        started = time.monotonic()
        conversions, measurements = self.conversions(scale), []
        torch.manual_seed(1)  # of a new head of masked language modeling, and of E and F
        checkpoint, vocabulary = read_transformers(str(inputs.encoder))
        check_encoder_positions(checkpoint, max(each.model.n for each in conversions))
        shard = find_shards(inputs.data)[0]
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            write_model(folder, checkpoint, vocabulary)
            for number, each in enumerate(conversions):
                student = folder / f"{number}.pt"
                write_checkpoint(from_roberta(checkpoint, **each.model.options), student)
                for n in each.lengths:
                    shares = explained_variance(folder / MODEL, student, shard, n, self.tokens(scale))
                    at: dict[str, Any] = {"model": each.label, "n": n, "k": each.model.k}
                    measurements += [
                        Measurement(metric=METRIC, value=significant(share), unit=UNIT, layer=layer, **at)
                        for layer, share in enumerate(shares, 1)
                    ]
                student.unlink()
        configuration = self.configuration(scale, inputs, checkpoint["provenance"]["imported"])
        text = describe_text(inputs.data)
        return [self.record(scale, command, started, self.claim, measurements, configuration, {UNIT: 0.01}, text)]

    def configuration(self, scale: str, inputs: Inputs, encoder: dict[str, Any]) -> dict[str, Any]:
        """All that the numbers depend on."""
        return {**self.sizes(scale), "encoder": encoder, "text": checksums(inputs.data)}
