"""Figure 2, top right, and Table 1: time per token against n at a fixed number of tokens.

    time of a token ~ n^a: a is 1 for a Transformer at large n, and 0 for a model that is linear in n
"""

import math
import statistics
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Dict, List, Sequence, Tuple

import torch

from ..planning.formulas import Batch, Model, flops_of_layer
from .cells import DTYPES, Setting
from .families import families
from .memory import GIB

LENGTHS = tuple(2**i for i in range(9, 15))


@dataclass(frozen=True)
class Scaling(Setting):
    """One length, all families.

    Raises:
        ValueError: a value that cannot be measured.
    """

    n: int
    tokens: int
    k: int = 256
    models: Tuple[str, ...] = tuple(families())
    warm_up: int = 1
    layers: int = field(default=2, kw_only=True)
    vocabulary: int = field(default=1000, kw_only=True)
    usable_gib: float = 8.0
    """Materialised weights that would take more are not run."""
    kind: ClassVar[str] = "scaling"

    def __post_init__(self):
        super().__post_init__()
        unknown = [name for name in self.models if name not in families()]
        if unknown:
            raise ValueError(f"{unknown[0]} is no model of the benchmark; they are {', '.join(families())}")
        if self.tokens % self.n:
            raise ValueError(f"tokens is {self.tokens}; it must be a multiple of n, which is {self.n}")
        self.shape(self.n, self.k)  # refuses k above n

    def operations_of(self, linear: bool) -> float:
        """Of all rounds of a Linformer or a Transformer."""
        batch = Batch(self.tokens // self.n, self.n, self.n)
        forward = flops_of_layer(Model(self.shape(self.n, self.k), linear=linear), batch, 0).forward
        return (self.rounds + self.warm_up) * self.layers * forward

    def operations(self) -> float:
        """As if all were the Transformer."""
        return self.operations_of(linear=False) * len(self.models)

    def run_of(self, name: str) -> partial:
        """A forward pass of a model, which has run one sentence already."""
        module = self.placed(families()[name](self.shape(self.n, self.k)).eval())
        tokens = self.random_tokens(self.tokens // self.n, self.n)
        module(tokens[:1])
        return partial(module, tokens)

    @torch.inference_mode()
    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each model in each round, and ``failed``: why others cannot run such a length."""
        runs, failed = {}, {}
        scores = 2 * self.heads * self.tokens * self.n * DTYPES[self.dtype].itemsize
        for name in self.models:
            if name == "transformer-eager" and scores > self.usable_gib * GIB:
                failed[name] = f"its weights take {scores / GIB:.0f} GiB"
                continue
            try:
                runs[name] = self.run_of(name)
            except (RuntimeError, ValueError) as error:  # a length or a type that it does not take
                failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        return {"seconds": self.time(runs), "failed": failed}


def rows(lengths=LENGTHS, tokens=None, **options) -> List[Scaling]:
    """A row for each length, all with as many tokens as the longest."""
    return [Scaling(n, tokens or max(lengths), **options) for n in lengths]


@dataclass(frozen=True)
class PerToken(Setting):
    """The Linformer alone at several lengths in one interleaved run: is its time per token flat?

    Raises:
        ValueError: fewer than two lengths, or a value that cannot be measured.
    """

    lengths: Tuple[int, ...] = (512, 16384)
    k: int = 256
    tokens: int = 16384
    warm_up: int = 1
    rounds: int = field(default=5, kw_only=True)
    layers: int = field(default=2, kw_only=True)
    vocabulary: int = field(default=1000, kw_only=True)
    kind: ClassVar[str] = "pertoken"

    def __post_init__(self):
        if len(set(self.lengths)) < 2:
            raise ValueError(f"lengths is {','.join(map(str, self.lengths))}; at least two are needed to compare")
        self._rows()

    @property
    def _shape_name(self) -> str:
        return f"n{'-'.join(map(str, self.lengths))}"

    def _rows(self) -> List[Scaling]:
        return [Scaling(n, self.tokens, self.k, ("linformer",), self.warm_up, **self.setting()) for n in self.lengths]

    def operations(self) -> float:
        """Of all rounds."""
        return sum(row.operations_of(linear=True) for row in self._rows())

    @torch.inference_mode()
    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each length in each round, all with as many tokens."""
        return {"seconds": self.time({str(row.n): row.run_of("linformer") for row in self._rows()})}


def exponent(lengths: Sequence[int], seconds: Sequence[float]) -> float:
    """a of seconds ~ n^a, by least squares of the logarithms.

    Raises:
        ValueError: fewer than two lengths, or not a time for each.
    """
    if len(lengths) < 2 or len(lengths) != len(seconds):
        raise ValueError(f"{len(lengths)} lengths and {len(seconds)} times; at least two of each are needed")
    return statistics.linear_regression([math.log(n) for n in lengths], [math.log(s) for s in seconds]).slope
