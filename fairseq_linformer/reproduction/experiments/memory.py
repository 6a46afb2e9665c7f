"""Table 3 (right): how many times larger the Linformer's largest batch is, by n and k, counted for the paper's GPU.

Usage:

    fairseq-linformer reproduce memory --scale cpu

Section 5.3 gives a V100 of 16 GB and no precision. fp16 is ASSUMED: in fp32 a single sentence of 16,384 positions, for
which the paper prints a ratio, does not fit the Transformer's memory. Both models materialize their attention weights,
as in 2020, and nothing is computed in chunks, as on a GPU. E and F start as in the authors' code: those that start as
windows weight and mask their scores, which equation (7) does not and which takes memory.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from ...benchmark import inference
from ...benchmark.encoders import build_materialized, build_transformer
from .. import paper
from ..cells import single_value
from ..claim import Claim
from ..counting_experiment import CountingExperiment
from ..records import Measurement, Paper, Record
from ..report.charts import Chart
from ..report.tables import Table
from .table_3 import half_cells, half_chart, half_rule, half_tables

SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]] = {
    "smoke": ((256, 512), (64, 128), dict(layers=2, embed_dim=64, heads=2)),
    "cpu": (inference.LENGTHS, inference.PROJECTED_DIMS, dict(layers=12, embed_dim=768, heads=12)),
}
"""Lengths, k and shape, by scale."""
DTYPE = "fp16"
CONDITIONS = "{layers} layers of {embed_dim}, " + (
    f"{DTYPE}, {inference.PAPER_MEMORY_GIB:g} GiB, weights materialized in both models, nothing in chunks"
)


def count_batches(scale: str) -> Iterator[Measurement]:
    """The largest batch and the bytes per sentence of each model, and both ratios, Linformer over Transformer and
    Transformer over Linformer. A batch of no sentence has no ratio."""
    lengths, dims, shape = SIZES[scale]
    for cell in inference.build_cells(lengths, dims, tokens=max(lengths), dtype=DTYPE, **shape):
        eager = partial(build_transformer, cell.build_config(cell.n, min(cell.dimensions)), "eager")
        theirs = yield from _count(cell, eager, model="transformer")
        for k in cell.dimensions:
            at: dict[str, Any] = {"model": "linformer", "k": k}
            config = replace(cell.build_config(cell.n, k), projection_init="normal")
            ours = yield from _count(cell, partial(build_materialized, config), **at)
            at |= {"baseline": "eager", "n": cell.n}
            if theirs[0] and ours[0]:
                ratio = single_value(ours[0] / theirs[0], "ratio of batches")
                yield Measurement(metric="batch_ratio", **at, **ratio)
            yield Measurement(metric="bytes_ratio", **at, **single_value(theirs[1] / ours[1], "ratio of bytes"))


def _count(
    cell: inference.InferenceCell, build: Callable[[], nn.Module], **fields: Any
) -> Generator[Measurement, None, tuple[int, int]]:
    """Yields the largest batch and the bytes per sentence, and returns them."""
    largest, per_sentence = inference.count_largest_batch(cell, build)
    yield Measurement(metric="largest_batch", value=largest, unit="sentences", n=cell.n, **fields)
    yield Measurement(metric="bytes_per_sentence", value=per_sentence, unit="bytes", n=cell.n, **fields)
    return largest, per_sentence


def describe_too_long(record: Record) -> list[str]:
    """The lengths at which no sentence fits the Transformer's memory, with the ratio of bytes at the smallest k."""
    remarks = []
    for m in record.select("largest_batch", model="transformer", value=0.0):
        ratio = min(record.select("bytes_ratio", n=m.n), key=lambda ratio: ratio.k)
        printed = paper.table_3(paper.TABLE_3_MEMORY, m.n, ratio.k)
        remarks.append(
            f"n = {m.n}: no sentence fits the Transformer's memory; at k = {ratio.k} the Linformer takes "
            f"{ratio.value:.3g} times fewer bytes" + f" (paper: {printed:g}x)" * (printed is not None)
        )
    return remarks


_FIRST = "Holds if in every cell of the paper that was measured its largest batch is larger; "
MEMORY = Claim(
    "table-3-memory",
    "Table 3 (right), section 5.3",
    "The Linformer fits larger batches than the Transformer; the gain grows with n, and with a smaller k.",
    "The largest batches for 16 GiB, counted at base size in fp16 (assumed), with materialized attention weights in "
    "both models and nothing in chunks. Holds if the Linformer's is larger in every cell of the paper in which a "
    "sentence of the Transformer fits; and if it is the more so, for each k from the shortest n to the longest, and "
    "for each n from the largest k to the smallest, with no step down. Does not hold if it is not larger, in one cell, "
    "or if a step goes down.",
    half_rule("memory", "memory-*", "memory", describe_too_long),
)


def _configuration(scale: str) -> dict[str, Any]:
    lengths, dims, shape = SIZES[scale]
    return {
        **shape,
        "dtype": DTYPE,
        "memory_gib": inference.PAPER_MEMORY_GIB,
        "lengths": list(lengths),
        "dimensions": list(dims),
        "conditions": CONDITIONS.format(**shape),
    }


class Memory(CountingExperiment):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        return half_tables("memory", records)

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [half_chart("memory", records)]

    def paper_cells(self, records: Sequence[Record]) -> Iterable:
        return half_cells("memory", records)


EXPERIMENTS = (
    Memory(
        "memory",
        "Table 3, memory",
        [MEMORY],
        tuple(SIZES),
        count_batches,
        "Largest batches of a forward pass, and bytes per sentence, of a Transformer and of Linformers with layerwise "
        "sharing, counted without a GPU",
        Paper(where="section 5.3, Table 3 (right)"),
        _configuration,
    ),
)
