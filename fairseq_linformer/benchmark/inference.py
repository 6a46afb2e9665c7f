"""Table 3 of the paper: a full forward pass, Linformer against Transformer, at equal tokens; and the largest batch.

    B sentences of n random tokens each, projected to k; every ratio is Transformer / Linformer
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Tuple

import torch
from torch import nn

from ..config import LinformerConfig
from ..planning.formulas import Batch, Model, flops_of_layer
from .cells import DTYPES
from .encoders import BASELINES, linformer, transformer
from .memory import GIB, bytes_of_forward, largest_batch
from .timing import clock_for, interleaved
from .whole import WITH_FAIRSEQ, models, why_not

LENGTHS = tuple(2**i for i in range(9, 17))
DIMENSIONS = (128, 256, 512, 1024, 2048)
PAPER_MEMORY = 16.0
"""GiB of the V100 in section 5.3, whose largest batches the paper compares."""


@dataclass(frozen=True)
class Inference:
    """A row of Table 3: one n, every k below it, both baselines.

    Raises:
        ValueError: a value that cannot be measured.
    """

    n: int
    dimensions: Tuple[int, ...]
    tokens: int
    """Of a batch, if they are more than n; else it is one sentence."""
    rounds: int = 3
    warm_up: int = 1
    device: str = "cpu"
    dtype: str = "fp32"
    layers: int = 12
    embed_dim: int = 768
    heads: int = 12
    vocabulary: int = 50265
    memory_gib: float = PAPER_MEMORY
    """In which the largest batches shall fit."""
    usable_gib: float = 8.0
    """A model that would take more for this batch is not run."""

    def __post_init__(self):
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; it must be one of {', '.join(DTYPES)}")
        for name in ("n", "tokens", "rounds", "layers", "embed_dim", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for k in self.dimensions:
            self.config(k)  # refuses k above n

    @property
    def name(self) -> str:
        """inference-DEVICE-DTYPE-LAYERS-n."""
        return f"inference-{self.device}-{self.dtype}-l{self.layers}-n{self.n}"

    @property
    def batch(self) -> int:
        """B."""
        return max(1, self.tokens // self.n)

    def config(self, k: int) -> LinformerConfig:
        """The shape of both, layerwise sharing as in section 5.3."""
        return LinformerConfig(self.vocabulary, self.n, k, "layerwise", layers=self.layers, embed_dim=self.embed_dim,
                               ffn_embed_dim=4 * self.embed_dim, attention_heads=self.heads)  # fmt: skip

    def models(self) -> Dict[str, Callable[..., nn.Module]]:
        """What makes each model."""
        smallest = min(self.dimensions)
        makers: Dict[str, Callable[..., nn.Module]] = {kind: partial(transformer, self.config(smallest), kind) for kind in BASELINES}
        return {**makers, **{f"k={k}": partial(linformer, self.config(k)) for k in self.dimensions}}

    def operations(self) -> float:
        """Of all rounds of all models."""
        batch = Batch(self.batch, self.n, self.n)
        shapes = [Model(self.config(1), linear=False)] * 2 + [Model(self.config(k)) for k in self.dimensions]
        return (self.rounds + self.warm_up) * self.layers * sum(flops_of_layer(model, batch, 0).forward for model in shapes)

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each model that fits in each round; ``bytes`` at most with one sentence and two; ``largest``
        batches; ``fixed`` bytes of parameters."""
        bytes_, largest, fixed = {}, {}, {}
        for name, maker in self.models().items():
            fixed[name] = self._fixed(name)
            if self.device != "cpu" and not self._fits(name, fixed[name]):
                continue
            bytes_[name] = [self._bytes(maker, batch) for batch in (1, 2)]
            largest[name] = largest_batch(self.memory_gib * GIB, fixed[name], *bytes_[name])[0]
        return {"seconds": self._seconds(bytes_, fixed), "bytes": bytes_, "fixed": fixed, "largest": largest, "batch": self.batch}

    def _bytes(self, maker, batch: int) -> int:
        return bytes_of_forward(maker, _call, batch, self.n, self.device, DTYPES[self.dtype])

    def _fixed(self, name: str) -> int:
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            module = self.models()[name]()
        element = DTYPES[self.dtype].itemsize
        return sum(t.numel() * element for t in [*module.parameters(), *module.buffers()])

    def _fits(self, name: str, fixed: int) -> bool:
        """Two sentences of materialised weights, scores and their softmax."""
        scores = 2 * 2 * self.heads * self.n**2 * DTYPES[self.dtype].itemsize if name == "eager" else 0
        return fixed + scores < self.usable_gib * GIB

    def _seconds(self, bytes_, fixed) -> Dict[str, Any]:
        """Of those whose batch fits."""
        embed_tokens = nn.Embedding(self.vocabulary, self.embed_dim, 1)  # all have the same
        runs = {}
        tokens = torch.randint(5, self.vocabulary, (self.batch, self.n), device=self.device)
        for name, (one, two) in bytes_.items():
            if one + (self.batch - 1) * (two - one) + fixed[name] > self.usable_gib * GIB:
                continue
            module = self.models()[name](embed_tokens=embed_tokens).eval().to(device=self.device, dtype=DTYPES[self.dtype])
            runs[name] = partial(_call, module, tokens)
        with torch.inference_mode():
            return interleaved(runs, self.rounds, self.warm_up, clock_for(self.device), self.device)


def _call(module: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return module(tokens, padded=False)[0]


def rows(lengths=LENGTHS, dimensions=DIMENSIONS, **options):
    """A row for each length, with the k of Table 3 below it.

    Raises:
        ValueError: no k is below a length.
    """
    found = []
    for n in lengths:
        below = tuple(k for k in dimensions if k < n)
        if not below:
            raise ValueError(f"n is {n}; a k below it is needed, and there are {', '.join(map(str, dimensions))}")
        found.append(Inference(n, below, **options))
    return found


@dataclass(frozen=True)
class WholeInference:
    """Features of fairseq's models for one batch: RoBERTa with PyTorch's fused attention as fairseq calls it, the authors', ours.

    Raises:
        ValueError: a model that is not here.
    """

    n: int
    tokens: int
    k: int = 256
    models: Tuple[str, ...] = WITH_FAIRSEQ
    rounds: int = 3
    warm_up: int = 1
    device: str = "cpu"
    dtype: str = "fp32"
    layers: int = 12
    embed_dim: int = 768
    heads: int = 12
    vocabulary: int = 50265

    def __post_init__(self):
        for name in self.models:
            if name not in WITH_FAIRSEQ:
                raise ValueError(f"{name} is no model of fairseq; {', '.join(WITH_FAIRSEQ)} are")
            if missing := why_not(name):
                raise ValueError(missing)

    @property
    def name(self) -> str:
        """whole-DEVICE-DTYPE-LAYERS-n."""
        return f"whole-{self.device}-{self.dtype}-l{self.layers}-n{self.n}"

    def _row(self) -> Inference:
        return Inference(self.n, (self.k,), self.tokens, self.rounds, self.warm_up, self.device, self.dtype, self.layers,
                         self.embed_dim, self.heads, self.vocabulary)  # fmt: skip

    def operations(self) -> float:
        """As two Transformers and a Linformer."""
        return self._row().operations()

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each model in each round."""
        row, runs = self._row(), {}
        tokens = torch.randint(5, self.vocabulary, (row.batch, self.n), device=self.device)
        for name in self.models:
            module = models()[name](row.config(self.k), False).model.eval().to(device=self.device, dtype=DTYPES[self.dtype])
            runs[name] = partial(module, tokens, features_only=True)
        with torch.inference_mode():
            return {"seconds": interleaved(runs, self.rounds, self.warm_up, clock_for(self.device), self.device)}
