"""Table 3 of the paper: a full forward pass, Linformer against Transformer, at equal tokens; and the largest batch.

    B sentences of n random tokens each, projected to k; every ratio is Transformer / Linformer
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, ClassVar, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from ..modules import LinformerEncoder
from ..modules.encoder_layer import ROWS
from ..planning.formulas import Batch, Model, flops_of_layer
from .cells import DTYPES, Setting
from .encoders import BASELINES, transformer
from .memory import GIB, NO_MEMORY, bytes_of_forward, fits, largest_batch
from .models import MODELS, WITH_FAIRSEQ, check_models

LENGTHS = tuple(2**i for i in range(9, 17))
DIMENSIONS = (128, 256, 512, 1024, 2048)
MANY_TOKENS = 8 * ROWS
"""From here on each sentence takes as much memory as the one before: with fewer the feed-forward, which is cut into
``ROWS``, has not the same share."""
PAPER_MEMORY = 16.0
"""GiB of the V100 in section 5.3, whose largest batches the paper compares."""
TOKENS = {"cpu": 4096, "cuda": 32_768}
"""Of a batch; a large GPU computes fewer in less time than it takes to launch its kernels."""
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
    """Of a batch; at least one sentence."""
    warm_up: int = 1
    memory_gib: float = PAPER_MEMORY
    """For the largest batches."""
    usable_gib: float = 8.0
    """A model that would take more for this batch is not run."""
    kind: ClassVar[str] = "inference"

    def __post_init__(self):
        super().__post_init__()
        for k in self.dimensions:
            self.shape(self.n, k)  # refuses k above n

    @property
    def batch(self) -> int:
        """B."""
        return max(1, self.tokens // self.n)

    @property
    def sentences(self) -> int:
        """The batch whose bytes are counted, and those of twice as many."""
        return math.ceil(MANY_TOKENS / self.n)

    def makers(self) -> Dict[str, Callable[..., nn.Module]]:
        """A function that makes each model."""
        baseline = self.shape(self.n, min(self.dimensions))
        makers: Dict[str, Callable[..., nn.Module]] = {kind: partial(transformer, baseline, kind) for kind in BASELINES}
        return {**makers, **{f"k={k}": partial(LinformerEncoder, self.shape(self.n, k)) for k in self.dimensions}}

    def operations(self) -> float:
        """Of all rounds of all models."""
        batch = Batch(self.batch, self.n, self.n)
        shapes = [Model(self.shape(self.n, 1), linear=False)] * 2
        shapes += [Model(self.shape(self.n, k)) for k in self.dimensions]
        forward = sum(flops_of_layer(model, batch, 0).forward for model in shapes)
        return (self.rounds + self.warm_up) * self.layers * forward

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each model that fits in each round, ``failed`` the others; ``bytes`` at most with
        ``sentences`` and twice as many; ``counted``: models whose bytes on a GPU come from fake tensors because it has
        too few; ``largest`` batches; ``fixed`` bytes of parameters."""
        bytes_, largest, fixed, counted = {}, {}, {}, []
        batches = (self.sentences, 2 * self.sentences)
        for name, maker in self.makers().items():
            fixed[name] = self._fixed_bytes(maker)
            bytes_[name] = [self._bytes(maker, batch, "cpu") for batch in batches]
            if self.device != "cpu":
                allocated = self._bytes_on_gpu(maker, batches, foreseen=fixed[name] + bytes_[name][1])
                if allocated is None:
                    counted.append(name)
                bytes_[name] = allocated or bytes_[name]
            largest[name] = largest_batch(self.memory_gib * GIB, fixed[name], self.sentences, *bytes_[name])
        seconds, failed = self._seconds(bytes_, fixed)
        return {"seconds": seconds, "failed": failed, "bytes": bytes_, "counted": counted, "fixed": fixed,
                "largest": largest,
                "batch": self.batch, "sentences": self.sentences}  # fmt: skip

    def _fixed_bytes(self, maker) -> int:
        with FakeTensorMode():
            module = maker()
        return DTYPES[self.dtype].itemsize * sum(t.numel() for t in [*module.parameters(), *module.buffers()])

    def _bytes(self, maker, batch: int, device: str) -> int:
        return bytes_of_forward(maker, _call, batch, self.n, device, DTYPES[self.dtype])

    def _bytes_on_gpu(self, maker, batches: Sequence[int], foreseen: int) -> Optional[List[int]]:
        """As the allocator counts them; None if the larger batch needs more than may be used, or than there is."""
        if foreseen > self.usable_gib * GIB:
            return None
        try:
            return [self._bytes(maker, batch, self.device) for batch in batches]
        except torch.OutOfMemoryError:
            return None
        finally:
            torch.cuda.empty_cache()

    def _seconds(self, bytes_, fixed) -> Tuple[Dict[str, Any], Dict[str, str]]:
        """Of the models whose batch fits, and why the others failed."""
        embed_tokens = nn.Embedding(self.vocabulary, self.embed_dim, 1)  # the same for all
        runs, failed, makers = {}, {}, self.makers()
        tokens = self.random_tokens(self.batch, self.n)
        with torch.inference_mode():
            for name, (at, at_twice) in bytes_.items():
                needed = fixed[name] + at + (self.batch / self.sentences - 1) * (at_twice - at)
                if needed > self.usable_gib * GIB:
                    failed[name] = f"its batch takes {needed / GIB:.3g} GiB, and {self.usable_gib:g} may be used"
                    continue
                run = partial(_call, self.placed(makers[name](embed_tokens=embed_tokens).eval()), tokens)
                if self.device != "cpu" and not fits(run):
                    failed[name] = NO_MEMORY
                else:
                    runs[name] = run
            return self.time(runs), failed


def _call(module: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return module(tokens, padded=False)[0]


def rows(lengths=LENGTHS, dimensions=DIMENSIONS, **options) -> List[Inference]:
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
    """Features of fairseq's models for one batch: RoBERTa with PyTorch's fused attention as fairseq calls it, the
    authors', ours.

    Raises:
        ValueError: a model that is not allowed or not installed.
    """

    n: int
    tokens: int
    k: int = 256
    models: Tuple[str, ...] = WITH_FAIRSEQ
    warm_up: int = 1
    kind: ClassVar[str] = "whole"

    def __post_init__(self):
        super().__post_init__()
        self._row()  # refuses k above n
        check_models(self.models, WITH_FAIRSEQ, self.n, self.k)

    def _row(self) -> Inference:
        return Inference(self.n, (self.k,), self.tokens, self.warm_up, **self.setting())

    def operations(self) -> float:
        """As two Transformers and a Linformer."""
        return self._row().operations()

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each model in each round."""
        tokens, shape = self.random_tokens(self._row().batch, self.n), self.shape(self.n, self.k)
        modules = {name: self.placed(MODELS[name](shape, False).model.eval()) for name in self.models}
        with torch.inference_mode():
            runs = {name: partial(module, tokens, features_only=True) for name, module in modules.items()}
            return {"seconds": self.time(runs)}
