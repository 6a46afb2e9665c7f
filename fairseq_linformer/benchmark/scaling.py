"""Table 1 and Figure 2 (top right): time per token against n at a fixed number of tokens.

time per token ~ n^a: a is 1 for a Transformer at large n, and 0 for a model that is linear in n
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch

from ..errors import first_line
from .cells import DTYPES, BenchmarkCell
from .families import FAMILIES
from .gpus import GIB
from .memory import NO_MEMORY

LENGTHS = tuple(2**i for i in range(9, 15))


@dataclass(frozen=True)
class ScalingCell(BenchmarkCell):
    """One length, all model families."""

    n: int
    tokens: int
    k: int = 256
    models: tuple[str, ...] = tuple(FAMILIES)
    warm_up: int = 1
    layers: int = field(default=2, kw_only=True)
    vocabulary: int = field(default=1000, kw_only=True)
    usable_gib: float = 8.0
    """A Transformer whose materialized attention weights need more is not run."""
    kind: ClassVar[str] = "scaling"

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := [name for name in self.models if name not in FAMILIES]:
            raise ValueError(f"unknown model {unknown[0]!r}; choose from {', '.join(FAMILIES)}")
        if self.tokens % self.n:
            raise ValueError(f"max_tokens must be a multiple of n ({self.n}), got {self.tokens}")
        self.build_config(self.n, self.k)  # rejects k above n

    def build_run(self, name: str) -> Callable[[], object]:
        """The forward pass of a model, after a first run on one sentence."""
        module = self.build(partial(FAMILIES[name], self.build_config(self.n, self.k))).eval()
        tokens = self.random_tokens(self.tokens // self.n, self.n)
        module(tokens[:1])
        return partial(module, tokens)

    @torch.inference_mode()
    def measure(self) -> dict[str, Any]:
        """``seconds`` of each model in each round, and ``failed``: why other models cannot run this length."""
        runs, failed = {}, {}
        scores = 2 * self.heads * self.tokens * self.n * DTYPES[self.dtype].itemsize
        for name in self.models:
            if name == "transformer-eager" and scores > self.usable_gib * GIB:
                failed[name] = f"attention weights need {scores / GIB:.0f} GiB"
                continue
            try:
                runs[name] = self.build_run(name)
            except (RuntimeError, ValueError) as error:  # an unsupported length or precision
                failed[name] = f"{type(error).__name__}: {first_line(error)[:200]}"
        seconds = self.time_rounds(runs, self.warm_up)
        return {"seconds": seconds, "failed": failed | {name: NO_MEMORY for name in runs if name not in seconds}}


def build_cells(lengths=LENGTHS, tokens: int | None = None, **options) -> list[ScalingCell]:
    """One cell per length, all with the same number of tokens, by default that of the longest sequence."""
    return [ScalingCell(n, tokens or max(lengths), **options) for n in lengths]


@dataclass(frozen=True)
class PerTokenCell(BenchmarkCell):
    """The Linformer at several lengths in one interleaved run, to test whether its time per token is constant.

    Raises:
        ValueError: there are fewer than two lengths, or an option has a value that cannot be measured.
    """

    lengths: tuple[int, ...] = (512, 16384)
    k: int = 256
    tokens: int = 16384
    warm_up: int = 1
    rounds: int = field(default=5, kw_only=True)
    layers: int = field(default=2, kw_only=True)
    vocabulary: int = field(default=1000, kw_only=True)
    kind: ClassVar[str] = "pertoken"

    def __post_init__(self) -> None:
        if len(set(self.lengths)) < 2:
            raise ValueError(f"lengths must have at least two values to compare, got {self.lengths}")
        self._rows()

    @property
    def _shape_name(self) -> str:
        return f"n{'-'.join(map(str, self.lengths))}"

    def _rows(self) -> list[ScalingCell]:
        options = self.common_options()
        return [ScalingCell(n, self.tokens, self.k, ("linformer",), self.warm_up, **options) for n in self.lengths]

    @torch.inference_mode()
    def measure(self) -> dict[str, Any]:
        """``seconds`` of each length in each round, at equal tokens."""
        runs = {str(row.n): row.build_run("linformer") for row in self._rows()}
        return {"seconds": self.time_all(runs, self.warm_up)}


def exponent(lengths: Sequence[int], seconds: Sequence[float]) -> float:
    """a in seconds ~ n^a, by least squares of the logarithms.

    Raises:
        ValueError: there are fewer than two lengths, or the number of times differs.
    """
    if len(lengths) < 2 or len(lengths) != len(seconds):
        raise ValueError(
            f"there must be at least two lengths and one time per length, got {len(lengths)} and {len(seconds)}"
        )
    return statistics.linear_regression([math.log(n) for n in lengths], [math.log(s) for s in seconds]).slope
