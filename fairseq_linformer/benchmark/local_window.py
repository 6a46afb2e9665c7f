"""Time and memory of exact attention to neighbors (``--local-window``), next to the same model without it.

w is the reach; w = 0 is equation (7)
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from .cells import BenchmarkCell
from .encoders import MaskedLM
from .memory import step_peak_bytes
from .training import MASK_PROB, build_step, masked_inputs


@dataclass(frozen=True, kw_only=True)
class LocalWindowCell(BenchmarkCell):
    """Several reaches in one interleaved run.

    Raises:
        ValueError: there are fewer than two reaches, or an option has a value that cannot be measured.
    """

    lengths: tuple[int, ...] = (512,)
    k: int = 128
    reaches: tuple[int, ...] = (0, 4, 16)
    warm_up: int = 1
    rounds: int = 7

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.reaches)) < 2:
            raise ValueError(f"reaches must have at least two values to compare, got {self.reaches}")
        for n in self.lengths:
            for reach in self.reaches:
                self.config(n, reach)  # rejects k and w that do not fit

    @property
    def _shape_name(self) -> str:
        return f"n{'-'.join(map(str, self.lengths))}-k{self.k}"

    def config(self, n: int, reach: int) -> LinformerConfig:
        return replace(self.build_config(n, self.k), local_window=reach)


@dataclass(frozen=True, kw_only=True)
class LocalStepCell(LocalWindowCell):
    """Training steps: seconds and peak bytes."""

    batch: int = 4
    kind: ClassVar[str] = "localstep"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.lengths) != 1:
            raise ValueError(f"lengths must have one value for training steps, got {self.lengths}")

    def measure(self) -> dict[str, Any]:
        """``seconds`` of a step in each round and its peak ``bytes``, by reach."""
        (n,) = self.lengths
        inputs = masked_inputs(self.random_tokens(self.batch, n), round(MASK_PROB * n))
        models = {str(reach): self._build_model(n, reach) for reach in self.reaches}
        seconds = self.time_all({reach: build_step(model, inputs) for reach, model in models.items()}, self.warm_up)
        peaks = {reach: step_peak_bytes(model, inputs, self.device) for reach, model in models.items()}
        return {"seconds": seconds, "bytes": peaks}

    def _build_model(self, n: int, reach: int) -> nn.Module:
        return self.build(lambda: MaskedLM(LinformerEncoder(self.config(n, reach)))).train()


@dataclass(frozen=True, kw_only=True)
class LocalPerTokenCell(LocalWindowCell):
    """Inference at a fixed number of tokens, at several lengths.

    Raises:
        ValueError: ``tokens`` is not a multiple of a length, or as ``LocalWindowCell``.
    """

    lengths: tuple[int, ...] = (512, 16384)
    tokens: int = 16384
    layers: int = 2
    vocabulary: int = 1000
    kind: ClassVar[str] = "localpertoken"

    def __post_init__(self) -> None:
        super().__post_init__()
        for n in self.lengths:
            if self.tokens % n:
                raise ValueError(f"tokens must be a multiple of n ({n}), got {self.tokens}")

    @torch.inference_mode()
    def measure(self) -> dict[str, Any]:
        """``seconds`` of a batch in each round, by length and reach."""
        seconds = self.time_all(self._build_runs(), self.warm_up)
        return {"seconds": {str(n): {str(w): seconds[f"{n} {w}"] for w in self.reaches} for n in self.lengths}}

    def _build_runs(self) -> dict[str, Callable[[], object]]:
        runs: dict[str, Callable[[], object]] = {}
        for n in self.lengths:
            tokens = self.random_tokens(self.tokens // n, n)
            for reach in self.reaches:
                encoder = self.build(partial(LinformerEncoder, self.config(n, reach))).eval()
                runs[f"{n} {reach}"] = partial(encoder, tokens, padded=False)
        return runs
