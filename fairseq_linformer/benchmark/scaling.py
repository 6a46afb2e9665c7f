"""Figure 2, top right, and Table 1: time per token against n at a fixed number of tokens.

    time of a token ~ n^a: a is 1 for a Transformer at large n, and 0 for what is linear in n
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Dict, List, Sequence, Tuple

import torch

from ..config import LinformerConfig
from ..planning.formulas import Batch, Model, flops_of_layer
from .cells import DTYPES, Setting
from .families import families
from .memory import GIB
from .timing import interleaved

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

    def __post_init__(self):
        super().__post_init__()
        unknown = [name for name in self.models if name not in families()]
        if unknown:
            raise ValueError(f"{unknown[0]} is no model of the benchmark; they are {', '.join(families())}")
        if self.tokens % self.n:
            raise ValueError(f"tokens is {self.tokens}; it must be a multiple of n, which is {self.n}")
        self.config()

    @property
    def name(self) -> str:
        """scaling-DEVICE-DTYPE-LAYERS-n."""
        return f"scaling-{self.device}-{self.dtype}-l{self.layers}-n{self.n}"

    def config(self) -> LinformerConfig:
        """The shape of all."""
        return self.shape(self.n, self.k)

    def operations(self) -> float:
        """As if all were the Transformer."""
        batch = Batch(self.tokens // self.n, self.n, self.n)
        full = flops_of_layer(Model(self.config(), linear=False), batch, 0).forward
        return (self.rounds + self.warm_up) * self.layers * full * len(self.models)

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each model in each round, ``failed`` those that cannot run such a length, and why."""
        runs, failed = {}, {}
        tokens = torch.randint(5, self.vocabulary, (self.tokens // self.n, self.n), device=self.device)
        with torch.inference_mode():
            for name in self.models:
                scores = 2 * self.heads * self.tokens * self.n * DTYPES[self.dtype].itemsize
                if name == "transformer-eager" and scores > self.usable_gib * GIB:
                    failed[name] = f"its weights take {scores / GIB:.0f} GiB"
                    continue
                try:
                    module = families()[name](self.config()).eval().to(device=self.device, dtype=DTYPES[self.dtype])
                    module(tokens[:1])
                except ImportError:
                    raise
                except (RuntimeError, ValueError) as error:  # a length or a type that it does not take: told, not hidden
                    failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                    continue
                runs[name] = partial(module, tokens)
            seconds = interleaved(runs, self.rounds, self.warm_up, self.clock, self.device)
        return {"seconds": seconds, "failed": failed}


def exponent(lengths: Sequence[int], seconds: Sequence[float]) -> float:
    """a of seconds ~ n^a, by least squares of the logarithms.

    Raises:
        ValueError: fewer than two lengths, or not a time for each.
    """
    if len(lengths) < 2 or len(lengths) != len(seconds):
        raise ValueError(f"{len(lengths)} lengths and {len(seconds)} times; at least two of each are needed")
    x, y = [math.log(n) for n in lengths], [math.log(s) for s in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def rows(lengths=LENGTHS, tokens=None, **options) -> List[Scaling]:
    """A row for each length, all of as many tokens as the longest has."""
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

    def __post_init__(self):
        if len(set(self.lengths)) < 2:
            raise ValueError(f"lengths is {','.join(map(str, self.lengths))}; at least two are needed to compare")
        for n in self.lengths:
            self._row(n)

    @property
    def name(self) -> str:
        """pertoken-DEVICE-DTYPE-LAYERS-nN-N."""
        return f"pertoken-{self.device}-{self.dtype}-l{self.layers}-n{'-'.join(map(str, self.lengths))}"

    def _row(self, n: int) -> Scaling:
        return Scaling(n, self.tokens, self.k, ("linformer",), self.warm_up, **self.setting())

    def operations(self) -> float:
        """Of all rounds."""
        return sum(flops_of_layer(Model(row.config()), Batch(self.tokens // n, n, n), 0).forward for n in self.lengths
                   for row in [self._row(n)]) * self.layers * (self.rounds + self.warm_up)  # fmt: skip

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each length in each round, all of as many tokens."""
        runs = {}
        for n in self.lengths:
            module = families()["linformer"](self._row(n).config()).eval().to(device=self.device, dtype=DTYPES[self.dtype])
            runs[str(n)] = partial(module, torch.randint(5, self.vocabulary, (self.tokens // n, n), device=self.device))
        with torch.inference_mode():
            return {"seconds": interleaved(runs, self.rounds, self.warm_up, self.clock, self.device)}
