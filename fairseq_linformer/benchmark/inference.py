"""Table 3 of the paper: forward passes of Linformer and Transformer on equal numbers of tokens, and largest batches.

B sentences of n random tokens each, projected to k; every ratio is Transformer / Linformer
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from ..modules import LinformerEncoder
from ..modules.encoder_layer import CHUNK_ROWS
from .cells import DTYPES, BenchmarkCell
from .encoders import BASELINES, build_transformer
from .gpus import GIB
from .memory import NO_MEMORY, extrapolate_batch_size, fixed_bytes, forward_peak_bytes, peak_bytes_on_gpu
from .models import FAIRSEQ_MODELS, MODELS, check_models

LENGTHS = tuple(2**i for i in range(9, 17))
PROJECTED_DIMS = (128, 256, 512, 1024, 2048)
MIN_COUNTED_TOKENS = 8 * CHUNK_ROWS
"""With at least this many tokens, memory is linear in the number of sentences: with fewer, the share of the
feed-forward, computed in chunks of ``CHUNK_ROWS``, differs."""
PAPER_MEMORY_GIB = 16.0
"""Memory of the V100 in section 5.3, whose largest batches the paper compares."""
TOKENS_PER_BATCH = {"cpu": 4096, "cuda": 32_768}
"""A large GPU computes fewer tokens in less time than it takes to launch the kernels."""
USABLE_GIB = {"cpu": 8.0, "cuda": 60.0}
"""The maximum memory of a model."""


@dataclass(frozen=True)
class InferenceCell(BenchmarkCell):
    """A row of Table 3: one n, every k below it, both baselines."""

    n: int
    dimensions: tuple[int, ...]
    tokens: int
    """Tokens per batch, which has at least one sentence."""
    warm_up: int = 1
    memory_gib: float = PAPER_MEMORY_GIB
    """Memory for which the largest batches are computed."""
    usable_gib: float = 8.0
    """A model that needs more for its batch is not run."""
    kind: ClassVar[str] = "inference"

    def __post_init__(self) -> None:
        super().__post_init__()
        for k in self.dimensions:
            self.build_config(self.n, k)  # rejects k above n

    @property
    def batch(self) -> int:
        """B."""
        return max(1, self.tokens // self.n)

    @property
    def sentences(self) -> int:
        """The smaller of ``counted_batches``."""
        return math.ceil(MIN_COUNTED_TOKENS / self.n)

    @property
    def counted_batches(self) -> tuple[int, int]:
        """The batches whose bytes are counted."""
        return self.sentences, 2 * self.sentences

    def builders(self) -> dict[str, Callable[..., nn.Module]]:
        """Builder of each model."""
        baseline = self.build_config(self.n, min(self.dimensions))
        return {
            **{kind: partial(build_transformer, baseline, kind) for kind in BASELINES},
            **{f"k={k}": partial(LinformerEncoder, self.build_config(self.n, k)) for k in self.dimensions},
        }

    def measure(self) -> dict[str, Any]:
        """
        Returns:
            ``seconds`` of each model in each round; ``failed``, why other models do not fit; peak ``bytes`` with
            ``sentences`` and with twice as many; ``counted``, models too large for the GPU, whose bytes come from fake
            tensors (on a CPU all do); ``largest`` batches; ``fixed`` bytes of parameters and buffers.
        """
        on_gpu, builders = self.device != "cpu", self.builders()
        embed_tokens = self.build(partial(nn.Embedding, self.vocabulary, self.embed_dim, 1))  # shared by all models
        modules: dict[str, nn.Module] = {}
        peaks, largest, fixed, counted = {}, {}, {}, []
        for name, build in builders.items():
            fixed[name], allocated = fixed_bytes(build, DTYPES[self.dtype]), None
            if on_gpu:
                modules[name] = self._build(build, embed_tokens)
                allocated = self._allocated_bytes(modules[name], fixed[name])
                counted += [name] * (allocated is None)
            peaks[name] = allocated or [self._count_bytes(build, batch) for batch in self.counted_batches]
            largest[name] = extrapolate_batch_size(self.memory_gib * GIB, fixed[name], self.sentences, *peaks[name])
        failed = {name: reason for name in builders if (reason := self._lacks_memory(fixed[name], *peaks[name]))}
        for name in builders:
            if name not in failed and name not in modules:
                modules[name] = self._build(builders[name], embed_tokens)
        tokens = self.random_tokens(self.batch, self.n)
        with torch.inference_mode():
            runs = {name: partial(compute_features, modules[name], tokens) for name in builders if name not in failed}
            seconds = self.time_rounds(runs, self.warm_up)
        return {
            "seconds": seconds,
            "failed": failed | {name: NO_MEMORY for name in runs if name not in seconds},
            "bytes": peaks,
            "counted": counted,
            "fixed": fixed,
            "largest": largest,
            "batch": self.batch,
            "sentences": self.sentences,
        }

    def _build(self, build: Callable[..., nn.Module], embed_tokens: nn.Module) -> nn.Module:
        return self.build(partial(build, embed_tokens=embed_tokens)).eval()

    def _count_bytes(self, build: Callable[[], nn.Module], batch: int) -> int:
        is_chunked = self.device == "cpu"  # a GPU's bytes are counted as a GPU computes
        return forward_peak_bytes(build, compute_features, batch, self.n, DTYPES[self.dtype], is_chunked)

    def _allocated_bytes(self, module: nn.Module, fixed: int) -> list[int] | None:
        """Bytes of ``counted_batches`` as a GPU's allocator counts them; None if the larger one does not fit."""
        peaks: list[int] = []
        for batch in self.counted_batches:
            if peaks and fixed + 2 * peaks[0] > self.usable_gib * GIB:
                return None
            tokens = self.random_tokens(batch, self.n)
            try:
                with torch.no_grad():
                    peaks.append(peak_bytes_on_gpu(partial(compute_features, module, tokens)))
            except torch.OutOfMemoryError:
                return None
        return peaks

    def _lacks_memory(self, fixed: int, single: int, double: int) -> str | None:
        """Why a model is not timed; None if its batch fits ``usable_gib``."""
        needed = fixed + single + (self.batch / self.sentences - 1) * (double - single)
        if needed <= self.usable_gib * GIB:
            return None
        return (
            f"the batch needs {needed / GIB:.3g} GiB, more than the limit of {self.usable_gib:g} GiB (--max-memory-gib)"
        )


def compute_features(module: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Features of tokens without padding."""
    return module(tokens, padded=False)[0]


def count_largest_batch(cell: InferenceCell, build: Callable[[], nn.Module]) -> tuple[int, int]:
    """The largest batch in a cell's ``memory_gib``, and the bytes of one more sentence, without a GPU.

    Bytes are those of fake tensors, with the feed-forward in one piece.
    """
    dtype = DTYPES[cell.dtype]
    single, double = (
        forward_peak_bytes(build, compute_features, batch, cell.n, dtype, chunked=False) for batch in (1, 2)
    )
    return (
        extrapolate_batch_size(cell.memory_gib * GIB, fixed_bytes(build, dtype), 1, single, double),
        double - single,
    )


def build_cells(lengths=LENGTHS, dimensions=PROJECTED_DIMS, **options) -> list[InferenceCell]:
    """One cell per length n, with every k below n.

    Raises:
        ValueError: no k is below a length.
    """
    cells = []
    for n in lengths:
        below = tuple(k for k in dimensions if k < n)
        if not below:
            raise ValueError(f"projected_dim must be below n = {n}, got {', '.join(map(str, dimensions))}")
        cells.append(InferenceCell(n, below, **options))
    return cells


@dataclass(frozen=True)
class WholeModelCell(BenchmarkCell):
    """Features of one batch from fairseq's models: RoBERTa with PyTorch's fused attention, the authors', ours.

    Raises:
        ValueError: a model is not allowed or not installed.
    """

    n: int
    tokens: int
    k: int = 256
    models: tuple[str, ...] = FAIRSEQ_MODELS
    warm_up: int = 1
    kind: ClassVar[str] = "whole"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._row()  # rejects k above n
        check_models(self.models, FAIRSEQ_MODELS, self.n, self.k)

    def _row(self) -> InferenceCell:
        return InferenceCell(self.n, (self.k,), self.tokens, self.warm_up, **self.common_options())

    def measure(self) -> dict[str, Any]:
        """``seconds`` of each model in each round, and ``failed``: why others have none."""
        tokens, config = self.random_tokens(self._row().batch, self.n), self.build_config(self.n, self.k)
        modules = {
            name: self.build(partial(MODELS[name], config, False)).get_submodule("model").eval() for name in self.models
        }
        with torch.inference_mode():
            runs = {name: partial(module, tokens, features_only=True) for name, module in modules.items()}
            seconds = self.time_rounds(runs, self.warm_up)
        return {"seconds": seconds, "failed": {name: NO_MEMORY for name in runs if name not in seconds}}
