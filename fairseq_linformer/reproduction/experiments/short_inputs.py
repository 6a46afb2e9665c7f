"""How well a converted Linformer reproduces its encoder on short inputs, with staggered and with graded windows.

Usage:

    fairseq-linformer reproduce short-inputs --scale encoder --encoder NAME --data TEXT

As ``survival``, for inputs of several lengths n. All models have the same max_positions N and k = N / 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..claim import Claim
from ..converted_encoders import Conversion, ConvertedEncoders, last_share
from ..encoder_models import GRADED, STAGGERED, EncoderModel
from ..records import Record
from ..report.charts import Chart, Series
from ..report.tables import Table
from ..rules import rule
from ..statistics import Check, decide

NAME = "short-inputs"
STARTS = (STAGGERED, GRADED)
EXACT = 0.999
"""Smallest share at which features count as equal up to rounding."""
MAX_LOSS = 0.06
"""Largest loss against staggered windows on inputs of N positions."""


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
        max_positions: N.
        lengths: of the inputs, in ascending order; the last is N.
        local_windows: W.
        tokens: of held-out text for each model and length.
    """

    max_positions: int
    lengths: tuple[int, ...]
    local_windows: tuple[int, ...]
    tokens: int

    @property
    def k(self) -> int:
        return self.max_positions // 4


SIZES = {
    "smoke": Sizes(32, (4, 8, 16, 32), (0, 4), 512),
    "encoder": Sizes(512, (32, 64, 128, 256, 512), (0, 16), 16384),
}


def label(start: str, window: int) -> str:
    return f"{start}, W={window}"


def share_of(record: Record, start: str, local_window: int, n: int) -> float:
    """The share of the last layer on inputs of n tokens."""
    return last_share(record, model=label(start, local_window), n=n)


def exact_checks(record: Record) -> list[Check]:
    """Graded windows keep inputs of at most k / 2 tokens."""
    sizes, checks = SIZES[record.scale], []
    for window in sizes.local_windows:
        for n in (n for n in sizes.lengths if n <= sizes.k // 2):
            share = share_of(record, GRADED, window, n)
            text = f"n = {n}, W = {window}: {share:.4f}; needs ≥ {EXACT}"
            checks.append(decide(share >= EXACT, text))
    return checks


def graded_checks(record: Record) -> list[Check]:
    """Graded windows keep more than staggered ones on every shorter input, and hardly less on the longest."""
    sizes, checks = SIZES[record.scale], []
    for window in sizes.local_windows:
        for n in sizes.lengths:
            graded, staggered = (share_of(record, start, window, n) for start in (GRADED, STAGGERED))
            text = f"n = {n}, W = {window}: graded {graded:.3f}, staggered {staggered:.3f}"
            if n < sizes.max_positions:
                checks.append(decide(graded > staggered, f"{text}; needs graded above staggered"))
            else:
                is_near = graded >= staggered - MAX_LOSS
                checks.append(decide(is_near, f"{text}; needs a loss of at most {MAX_LOSS:g}"))
    return checks


_WHERE = "this project: convert from-transformers"
_KNOWN = " (Written when a prototype's numbers were known.)"
CLAIMS = (
    Claim(
        f"{NAME}-exact",
        _WHERE,
        "A converted encoder keeps its features on inputs of at most k / 2 tokens.",
        f"Graded windows, untrained: holds if at each length up to k / 2 and each W at least {EXACT} of the variance "
        f"of the last layer survives on held-out text; otherwise does not hold.{_KNOWN}",
        rule(NAME, f"{NAME}-*", exact_checks),
    ),
    Claim(
        f"{NAME}-graded",
        _WHERE,
        "Graded windows keep more of a pretrained encoder on short inputs than staggered ones, and hardly less on the "
        "longest.",
        "Share of the variance of the last layer on held-out text, untrained: holds if at each length below N and each "
        f"W graded windows keep more than staggered ones, and at N at most {MAX_LOSS:g} less; otherwise does not "
        f"hold.{_KNOWN}",
        rule(NAME, f"{NAME}-*", graded_checks),
    ),
)


class ShortInputs(ConvertedEncoders):
    """Staggered and graded windows at several lengths."""

    name, title, claims, scales = NAME, "What a converted encoder keeps on short inputs", CLAIMS, tuple(SIZES)
    claim = (
        "Share of the variance of an encoder's hidden states that an untrained Linformer keeps, by length of the input"
    )

    def conversions(self, scale: str) -> list[Conversion]:
        sizes = SIZES[scale]
        return [
            Conversion(
                EncoderModel(sizes.max_positions, sizes.k, local_window=window, start=start),
                label(start, window),
                sizes.lengths,
            )
            for start, window in _models(sizes)
        ]

    def tokens(self, scale: str) -> int:
        return SIZES[scale].tokens

    def sizes(self, scale: str) -> dict[str, Any]:
        sizes = SIZES[scale]
        return {
            "max_positions": sizes.max_positions,
            "k": sizes.k,
            "lengths": sizes.lengths,
            "windows": sizes.local_windows,
            "tokens": sizes.tokens,
        }

    def tables(self, records: Sequence[Record]) -> list[Table]:
        """Shares of the last layer: a row per length."""
        return [_table(record) for record in records]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [_chart(record, self.title) for record in records]


def _models(sizes: Sizes) -> list[tuple[str, int]]:
    return [(start, window) for window in sizes.local_windows for start in STARTS]


def _table(record: Record) -> Table:
    sizes = SIZES[record.scale]
    rows = [
        [str(n), *(f"{share_of(record, start, window, n):.3f}" for start, window in _models(sizes))]
        for n in sizes.lengths
    ]
    encoder = record.configuration["encoder"]["name"]
    caption = (
        f"{record.identifier}: {encoder}, N = {sizes.max_positions}, k = {sizes.k}: share of the last layer's variance"
    )
    return Table(["tokens", *(label(start, window) for start, window in _models(sizes))], rows, caption)


def _chart(record: Record, title: str) -> Chart:
    """The share of the last layer over the length: a line per model."""
    sizes = SIZES[record.scale]
    series = [
        Series(label(start, window), [[(float(n), share_of(record, start, window, n)) for n in sizes.lengths]])
        for start, window in _models(sizes)
    ]
    return Chart(record.identifier, title, "tokens", "share of variance, last layer", series)


EXPERIMENTS = (ShortInputs(),)
