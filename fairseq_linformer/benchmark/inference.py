"""Table 3 of the paper: forward passes of Linformer and Transformer on equal numbers of tokens, and largest batches.

B sentences of n random tokens each, projected to k; every ratio is Transformer / Linformer
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from ..modules import LinformerEncoder
from ..modules.encoder_layer import CHUNK_ROWS
from ..planning.formulas import Batch, PlannedModel, layer_flops
from .cells import DTYPES, BenchmarkCell
from .encoders import BASELINES, build_transformer
from .memory import GIB, NO_MEMORY, extrapolate_batch_size, fits_on_gpu, fixed_bytes, forward_peak_bytes
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
        """Bytes are counted for batches of this size and of twice this size."""
        return math.ceil(MIN_COUNTED_TOKENS / self.n)

    def builders(self) -> dict[str, Callable[..., nn.Module]]:
        """Builder of each model."""
        baseline = self.build_config(self.n, min(self.dimensions))
        return {
            **{kind: partial(build_transformer, baseline, kind) for kind in BASELINES},
            **{f"k={k}": partial(LinformerEncoder, self.build_config(self.n, k)) for k in self.dimensions},
        }

    def operations(self) -> float:
        batch = Batch(self.batch, self.n, self.n)
        models = [PlannedModel(self.build_config(self.n, 1), linear=False)] * len(BASELINES)
        models += [PlannedModel(self.build_config(self.n, k)) for k in self.dimensions]
        forward = sum(layer_flops(model, batch, 0).forward for model in models)
        return (self.rounds + self.warm_up) * self.layers * forward

    def measure(self) -> dict[str, Any]:
        """
        Returns:
            ``seconds`` of each model in each round; ``failed``, why other models do not fit; peak ``bytes`` with
            ``sentences`` and with twice as many; ``counted``, models too large for the GPU, whose bytes come from fake
            tensors; ``largest`` batches; ``fixed`` bytes of parameters and buffers.
        """
        peak_bytes, largest, fixed, counted = {}, {}, {}, []
        batches = (self.sentences, 2 * self.sentences)
        for name, build in self.builders().items():
            fixed[name] = fixed_bytes(build, DTYPES[self.dtype])
            peak_bytes[name] = [self._bytes(build, batch, "cpu") for batch in batches]
            if self.device != "cpu":
                allocated = self._bytes_on_gpu(build, batches, predicted=fixed[name] + peak_bytes[name][1])
                if allocated is None:
                    counted.append(name)
                peak_bytes[name] = allocated or peak_bytes[name]
            memory = self.memory_gib * GIB
            largest[name] = extrapolate_batch_size(memory, fixed[name], self.sentences, *peak_bytes[name])
        seconds, failed = self._seconds(peak_bytes, fixed)
        return {
            "seconds": seconds,
            "failed": failed,
            "bytes": peak_bytes,
            "counted": counted,
            "fixed": fixed,
            "largest": largest,
            "batch": self.batch,
            "sentences": self.sentences,
        }

    def _bytes(self, build: Callable[[], nn.Module], batch: int, device: str) -> int:
        is_chunked = self.device == "cpu"  # a GPU's bytes are counted as a GPU computes
        return forward_peak_bytes(build, compute_features, batch, self.n, device, DTYPES[self.dtype], is_chunked)

    def _bytes_on_gpu(self, build, batches: Sequence[int], predicted: int) -> list[int] | None:
        """Bytes as the allocator counts them; None if the larger batch does not fit."""
        if predicted > self.usable_gib * GIB:
            return None
        try:
            return [self._bytes(build, batch, self.device) for batch in batches]
        except torch.OutOfMemoryError:
            return None
        finally:
            torch.cuda.empty_cache()

    def _seconds(
        self, peak_bytes: dict[str, list[int]], fixed: dict[str, int]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Seconds of the models whose batch fits, and why the others do not."""
        embed_tokens = nn.Embedding(self.vocabulary, self.embed_dim, 1)  # shared by all models
        runs: dict[str, Callable[[], object]] = {}
        failed, builders = {}, self.builders()
        tokens = self.random_tokens(self.batch, self.n)
        with torch.inference_mode():
            for name, (single, double) in peak_bytes.items():
                needed = fixed[name] + single + (self.batch / self.sentences - 1) * (double - single)
                if needed > self.usable_gib * GIB:
                    failed[name] = f"the batch needs {needed / GIB:.3g} GiB, more than usable_gib ({self.usable_gib:g})"
                    continue
                run = partial(
                    compute_features, self.to_device(builders[name](embed_tokens=embed_tokens).eval()), tokens
                )
                if self.device != "cpu" and not fits_on_gpu(run):
                    failed[name] = NO_MEMORY
                else:
                    runs[name] = run
            return self.time_rounds(runs, self.warm_up), failed


def compute_features(module: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Features of tokens without padding."""
    return module(tokens, padded=False)[0]


def count_largest_batch(cell: InferenceCell, build: Callable[[], nn.Module]) -> tuple[int, int]:
    """The largest batch in a cell's ``memory_gib``, and the bytes of one more sentence, without a GPU.

    Bytes are those of fake tensors, with the feed-forward in one piece.
    """
    dtype = DTYPES[cell.dtype]
    single, double = (
        forward_peak_bytes(build, compute_features, batch, cell.n, "cpu", dtype, chunked=False) for batch in (1, 2)
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

    def operations(self) -> float:
        """The operations of two Transformers and a Linformer."""
        return self._row().operations()

    def measure(self) -> dict[str, Any]:
        """``seconds`` of each model in each round."""
        tokens, config = self.random_tokens(self._row().batch, self.n), self.build_config(self.n, self.k)
        modules = {
            name: self.to_device(MODELS[name](config, False).get_submodule("model").eval()) for name in self.models
        }
        with torch.inference_mode():
            runs = {name: partial(module, tokens, features_only=True) for name, module in modules.items()}
            return {"seconds": self.time_rounds(runs, self.warm_up)}
