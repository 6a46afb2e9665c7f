"""Table 3 of the paper: a full forward pass, Linformer against Transformer, at equal tokens; and the largest batch.

    B sentences of n random tokens each, projected to k; every ratio is Transformer / Linformer
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from ..modules.encoder_layer import ROWS
from ..planning.formulas import Batch, Model, flops_of_layer
from .cells import DTYPES, Setting
from .encoders import BASELINES, transformer
from .memory import GIB, NO_MEMORY, bytes_of_forward, fits, largest_batch
from .timing import interleaved
from .whole import WITH_FAIRSEQ, check_authors, check_models, models

LENGTHS = tuple(2**i for i in range(9, 17))
DIMENSIONS = (128, 256, 512, 1024, 2048)
MANY_TOKENS = 8 * ROWS
"""From here on each sentence takes as much memory as the one before: with fewer the feed-forward, which is cut into ``ROWS``, has not
the same share."""
PAPER_MEMORY = 16.0
"""GiB of the V100 in section 5.3, whose largest batches the paper compares."""
TOKENS = {"cpu": 4096, "cuda": 32_768}
"""Of a batch; of fewer a large GPU computes in less time than it takes to launch its kernels."""
USABLE = {"cpu": 8.0, "cuda": 60.0}
"""GiB that a model may take."""


@dataclass(frozen=True)
class Inference(Setting):
    """A row of Table 3: one n, every k below it, both baselines.

    Raises:
        ValueError: a value that cannot be measured.
    """

    n: int
    dimensions: Tuple[int, ...]
    tokens: int
    """Of a batch, if they are more than n; else it is one sentence."""
    warm_up: int = 1
    memory_gib: float = PAPER_MEMORY
    """In which the largest batches shall fit."""
    usable_gib: float = 8.0
    """A model that would take more for this batch is not run."""

    def __post_init__(self):
        super().__post_init__()
        for name in ("n", "tokens"):
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

    @property
    def sentences(self) -> int:
        """Of which bytes are counted, and of twice as many."""
        return math.ceil(MANY_TOKENS / self.n)

    def config(self, k: int) -> LinformerConfig:
        """The shape of both, layerwise sharing as in section 5.3."""
        return self.shape(self.n, k)

    def makers(self) -> Dict[str, Callable[..., nn.Module]]:
        """What makes each model."""
        smallest = min(self.dimensions)
        makers: Dict[str, Callable[..., nn.Module]] = {kind: partial(transformer, self.config(smallest), kind) for kind in BASELINES}
        return {**makers, **{f"k={k}": partial(LinformerEncoder, self.config(k)) for k in self.dimensions}}

    def operations(self) -> float:
        """Of all rounds of all models."""
        batch = Batch(self.batch, self.n, self.n)
        shapes = [Model(self.config(1), linear=False)] * 2 + [Model(self.config(k)) for k in self.dimensions]
        return (self.rounds + self.warm_up) * self.layers * sum(flops_of_layer(model, batch, 0).forward for model in shapes)

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each model that fits in each round, ``failed`` the others; ``bytes`` at most with ``sentences`` and twice
        as many, on a GPU ``counted`` from tensors that have a shape only where they are more than it may use; ``largest``
        batches; ``fixed`` bytes of parameters."""
        bytes_, largest, fixed, counted = {}, {}, {}, []
        for name, maker in self.makers().items():
            fixed[name] = self._fixed(name)
            bytes_[name] = [self._bytes(maker, batch, "cpu") for batch in self._counted]
            if self.device != "cpu" and (asked := self._asked(maker, fixed[name] + bytes_[name][1])):
                bytes_[name] = asked
            elif self.device != "cpu":
                counted.append(name)
            largest[name] = largest_batch(self.memory_gib * GIB, fixed[name], self.sentences, *bytes_[name])[0]
        seconds, failed = self._seconds(bytes_, fixed)
        return {"seconds": seconds, "failed": failed, "bytes": bytes_, "counted": counted, "fixed": fixed, "largest": largest,
                "batch": self.batch, "sentences": self.sentences}  # fmt: skip

    @property
    def _counted(self) -> Tuple[int, int]:
        return self.sentences, 2 * self.sentences

    def _bytes(self, maker, batch: int, device: str) -> int:
        return bytes_of_forward(maker, _call, batch, self.n, device, DTYPES[self.dtype])

    def _asked(self, maker, foreseen: int) -> Optional[List[int]]:
        """What the allocator of the GPU says; None if twice ``sentences`` are more than may be used, or than there is."""
        if foreseen > self.usable_gib * GIB:
            return None
        try:
            return [self._bytes(maker, batch, self.device) for batch in self._counted]
        except torch.OutOfMemoryError:
            return None
        finally:
            torch.cuda.empty_cache()

    def _fixed(self, name: str) -> int:
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            module = self.makers()[name]()
        element = DTYPES[self.dtype].itemsize
        return sum(t.numel() * element for t in [*module.parameters(), *module.buffers()])

    def _seconds(self, bytes_, fixed) -> Tuple[Dict[str, Any], Dict[str, str]]:
        """Of those whose batch fits, and why of the others there are none."""
        embed_tokens = nn.Embedding(self.vocabulary, self.embed_dim, 1)  # all have the same
        runs, failed = {}, {}
        tokens = torch.randint(5, self.vocabulary, (self.batch, self.n), device=self.device)
        with torch.inference_mode():
            for name, (at, at_twice) in bytes_.items():
                needed = fixed[name] + at + (self.batch / self.sentences - 1) * (at_twice - at)
                if needed > self.usable_gib * GIB:
                    failed[name] = f"its batch takes {needed / GIB:.3g} GiB, and {self.usable_gib:g} may be used"
                    continue
                module = self.makers()[name](embed_tokens=embed_tokens).eval().to(device=self.device, dtype=DTYPES[self.dtype])
                run = partial(_call, module, tokens)
                if self.device != "cpu" and not fits(run):
                    failed[name] = NO_MEMORY
                else:
                    runs[name] = run
            return interleaved(runs, self.rounds, self.warm_up, self.clock, self.device), failed


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
class WholeInference(Setting):
    """Features of fairseq's models for one batch: RoBERTa with PyTorch's fused attention as fairseq calls it, the authors', ours.

    Raises:
        ValueError: a model that is not here.
    """

    n: int
    tokens: int
    k: int = 256
    models: Tuple[str, ...] = WITH_FAIRSEQ
    warm_up: int = 1

    def __post_init__(self):
        super().__post_init__()
        check_models(self.models, WITH_FAIRSEQ, "is no model of fairseq; {} are")
        self._row()
        check_authors(self.models, self.n, self.k)

    @property
    def name(self) -> str:
        """whole-DEVICE-DTYPE-LAYERS-n."""
        return f"whole-{self.device}-{self.dtype}-l{self.layers}-n{self.n}"

    def _row(self) -> Inference:
        return Inference(self.n, (self.k,), self.tokens, self.warm_up, **self.setting())

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
            return {"seconds": interleaved(runs, self.rounds, self.warm_up, self.clock, self.device)}
