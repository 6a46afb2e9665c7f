"""Time and memory of exact attention to neighbors (``--local-window``), next to the same model without it.

B sentences of n tokens, w the reach; w = 0 is equation (7)
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import torch

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from ..planning.formulas import Batch, PlannedModel, layer_flops
from .cells import BenchmarkCell
from .encoders import MaskedLM
from .memory import peak_bytes
from .training import MASK_PROB, build_optimizer


@dataclass(frozen=True)
class LocalWindowCell(BenchmarkCell):
    """Several reaches in one interleaved run: training steps at n, and inference at n and at a longer length.

    Raises:
        ValueError: there are fewer than two reaches, ``tokens`` is not a multiple of a length, or an option has a value
            that cannot be measured.
    """

    n: int = 512
    longest: int = 16384
    k: int = 128
    reaches: tuple[int, ...] = (0, 4, 16)
    batch: int = 4
    """B of a training step."""
    tokens: int = 16384
    """Per batch of inference."""
    warm_up: int = 1
    rounds: int = field(default=7, kw_only=True)
    layers: int = field(default=2, kw_only=True)
    vocabulary: int = field(default=1000, kw_only=True)
    kind: ClassVar[str] = "localwindow"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.reaches)) < 2:
            raise ValueError(f"reaches must have at least two values to compare, got {self.reaches}")
        for length in (self.n, self.longest):
            if self.tokens % length:
                raise ValueError(f"tokens must be a multiple of n ({length}), got {self.tokens}")
            for reach in self.reaches:
                self.config(length, reach)  # rejects k and w that do not fit

    @property
    def _shape_name(self) -> str:
        return f"n{self.n}-k{self.k}"

    def config(self, n: int, reach: int) -> LinformerConfig:
        return replace(self.build_config(n, self.k), local_window=reach)

    def operations(self) -> float:
        repetitions = self.rounds + self.warm_up
        total = 0.0
        for reach in self.reaches:
            for n in (self.n, self.longest):
                model = PlannedModel(self.config(n, reach))
                total += repetitions * self.layers * layer_flops(model, Batch(self.tokens // n, n, n), 0).forward
            model = PlannedModel(self.config(self.n, reach))
            step = layer_flops(model, Batch(self.batch, self.n, self.n), 0)
            total += (repetitions + 1) * self.layers * (step.forward + step.backward)
        return total

    def measure(self) -> dict[str, Any]:
        """
        Returns:
            by reach: ``step_seconds`` of each round, and peak ``step_bytes``; by length and reach: ``seconds`` of
            inference in each round.
        """
        steps = {str(reach): self._build_step(reach) for reach in self.reaches}
        return {
            "step_seconds": self.time_rounds({reach: step for reach, (step, _) in steps.items()}, self.warm_up),
            "step_bytes": {reach: count_bytes() for reach, (_, count_bytes) in steps.items()},
            "seconds": self._time_inference(),
        }

    def _build_step(self, reach: int) -> tuple[Callable[[], None], Callable[[], int]]:
        """A training step, and its peak bytes without parameters and gradients."""
        model = self.to_device(MaskedLM(LinformerEncoder(self.config(self.n, reach))).train())
        optimizer = build_optimizer(model.parameters())
        tokens = self.random_tokens(self.batch, self.n)
        masked = torch.rand(self.batch, self.n, device=self.device).argsort(1)[:, : round(MASK_PROB * self.n)]
        inputs = [tokens, masked, tokens.gather(1, masked)]

        def step() -> None:
            model(*inputs).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        return step, lambda: peak_bytes(lambda: model(*inputs).backward(), model, inputs, self.device)

    @torch.inference_mode()
    def _time_inference(self) -> dict[str, dict[str, list[float]]]:
        runs = {}
        for n in (self.n, self.longest):
            tokens = self.random_tokens(self.tokens // n, n)
            for reach in self.reaches:
                encoder = self.to_device(LinformerEncoder(self.config(n, reach)).eval())
                runs[f"{n} {reach}"] = partial(encoder, tokens, padded=False)
        seconds = self.time_rounds(runs, self.warm_up)
        return {str(n): {str(w): seconds[f"{n} {w}"] for w in self.reaches} for n in (self.n, self.longest)}
