"""Table 1: the operations of a layer as n grows.

Usage:

    fairseq-linformer reproduce operations --scale cpu
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

from ...benchmark.encoders import build_transformer
from ...benchmark.flops import count_flops
from ...config import LinformerConfig
from ...modules import LinformerEncoder
from ..claim import Claim
from ..counting_experiment import CountingExperiment
from ..records import Measurement, Paper, Record
from ..rules import rule
from ..statistics import HOLDS, UNDECIDED, Check, decide

SAME_COUNT = 1.05
"""Maximum ratio of operations per token at the longest and the shortest n of a linear layer."""
MIN_EXPONENT = 0.9
"""Minimum exponent of n in the operations per token of a quadratic layer."""
SIZES = {
    "smoke": (64, 2, 16, (64, 128, 256)),
    "cpu": (768, 12, 256, (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)),
}
"""Width, heads, k and lengths, by scale."""


def count_operations(scale: str) -> Iterator[Measurement]:
    """Operations per token of the matrix products of one layer's forward pass, as PyTorch counts them."""
    width, heads, k, lengths = SIZES[scale]
    for n in lengths:
        config = LinformerConfig(
            vocab_size=8,
            max_positions=n,
            projected_dim=k,
            sharing="layerwise",
            layers=1,
            embed_dim=width,
            ffn_embed_dim=4 * width,
            attention_heads=heads,
            dropout=0.0,
            attention_dropout=0.0,
        )
        for model, build in (("linformer", LinformerEncoder), ("transformer", lambda c: build_transformer(c, "eager"))):
            # Shapes without memory. PyTorch counts no operations of a fused kernel.
            with FakeTensorMode(), torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
                encoder, tokens = build(config).eval(), torch.full((1, n), 4)
                per_token = count_flops(partial(encoder, tokens, padded=False)) / n
            yield Measurement(
                metric="operations_per_token", model=model, n=n, value=per_token, unit="operations per token"
            )


def checks(record: Record) -> list[Check]:
    counts = {(m.n, m.model): m.value for m in record.select("operations_per_token")}
    lengths = sorted({n for n, _ in counts})
    first, before, last = lengths[0], lengths[-2], lengths[-1]
    ratio = counts[last, "linformer"] / counts[first, "linformer"]
    power = math.log(counts[last, "transformer"] / counts[before, "transformer"]) / math.log(last / before)
    flat = decide(
        ratio <= SAME_COUNT,
        f"linformer: operations per token, n = {last} / n = {first}: {ratio:.3g}; needs ≤ {SAME_COUNT:g}",
    )
    text = (
        f"transformer: operations per token grow as n^{power:.2f} from n = {before} to {last}; needs ≥ {MIN_EXPONENT}"
    )
    return [flat, Check(HOLDS if power >= MIN_EXPONENT else UNDECIDED, text)]


CLAIM = Claim(
    "table-1-operations",
    "Table 1, section 1",
    "A Linformer layer's operations are proportional to n, a Transformer layer's to n squared.",
    "Operations of the matrix products per token: holds if the Linformer's at the longest n are at most "
    f"{SAME_COUNT:g} times those at the shortest, and the Transformer's grow as n to at least {MIN_EXPONENT} over the "
    "last doubling; does not hold if the Linformer's grow more; not enough evidence if the Transformer's grow less, at "
    "lengths where other parts of the layer outweigh attention.",
    rule("operations", "operations-*", checks),
)


def _configuration(scale: str) -> dict[str, Any]:
    width, heads, k, lengths = SIZES[scale]
    return {"width": width, "heads": heads, "k": k, "lengths": list(lengths)}


EXPERIMENTS = (
    CountingExperiment(
        "operations",
        "Table 1, in operations",
        [CLAIM],
        tuple(SIZES),
        count_operations,
        "Operations per token of the matrix products of a layer, forward pass, by n",
        Paper(where="Table 1"),
        _configuration,
    ),
)
