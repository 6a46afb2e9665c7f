"""A training step (forward, backward, optimizer): tokens per second, peak bytes, utilization.

B sentences of n tokens; pretraining predicts m masked tokens of each, finetuning a class
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import torch
from torch import nn

from ..config import LinformerConfig
from ..machine import free_memory
from ..modules import LinformerEncoder
from .cells import DTYPES, BenchmarkCell
from .encoders import BASELINES
from .flops import AssumedValues, count_flops
from .gpus import GIB
from .memory import NO_MEMORY, fixed_bytes, step_peak_bytes
from .models import FAIRSEQ_MODELS, FIXED_LENGTH_MODELS, MODELS, PYPI_MODELS, PYTORCH_MODELS, check_models

MASK_PROB = 0.15
PRETRAINING_LENGTHS = (512, 1024, 2048, 4096)
FINETUNING_LENGTHS = (32, 64, 128)
MAX_FINETUNING_BATCH = 32
"""The larger of RoBERTa's batch sizes."""
TOKENS_PER_STEP = {"cpu": 2048, "cuda": 32_768}
"""See ``inference.TOKENS_PER_BATCH``."""
NUM_SAVED_SCORES = 3
"""Number of n x n matrices per head that a Transformer with dropout saves for backward, counted at n = 512 to 2,048."""
PYTORCH_TRANSFORMERS = tuple(f"transformer-{kind}" for kind in BASELINES)
build_optimizer = partial(torch.optim.AdamW, lr=1e-5, fused=True)


@dataclass(frozen=True)
class TrainingCell(BenchmarkCell):
    """Training steps of one shape, all models.

    Raises:
        ValueError: an option has a value that cannot be measured, or a model is not allowed or not installed.
    """

    n: int
    batch: int
    models: tuple[str, ...] = FAIRSEQ_MODELS
    positions: int = 512
    """Positions of the model; finetuning inputs are shorter."""
    classify: bool = False
    k: int = 256
    memory: bool = False
    """Count the bytes of one step instead of measuring times."""
    warm_up: int = 1
    kind: ClassVar[str] = "training"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n > self.positions:
            raise ValueError(f"n must be at most positions ({self.positions}), got {self.n}")
        if not self.classify and self._num_masked() < 1:
            raise ValueError(f"n must be at least {math.ceil(0.5 / MASK_PROB)} to mask a token, got {self.n}")
        self.config()  # rejects k above positions
        check_models(self.models, tuple(MODELS), self.positions, self.k)

    @property
    def _shape_name(self) -> str:
        """nN or finetuning-nN-of-POSITIONS, then -bare for modules only, -peers for other packages, and -memory."""
        shape = f"finetuning-n{self.n}-of-{self.positions}" if self.classify else f"n{self.n}"
        shape += "-bare" * (set(self.models) <= set(PYTORCH_MODELS))
        shape += "-peers" * any(name in PYPI_MODELS for name in self.models)
        return shape + "-memory" * self.memory

    def _num_masked(self) -> int:
        return round(MASK_PROB * self.n)

    def config(self) -> LinformerConfig:
        return self.build_config(self.positions, self.k)

    @cache  # noqa: B019  a count takes a second at base size, and cells are few
    def step_operations(self, name: str) -> float:
        """Operations of one step of a model without recomputation; other packages count as the Linformer."""
        counted = "roberta" if name == "roberta" else "ours-modules"
        if name in PYTORCH_TRANSFORMERS:
            counted = "transformer-eager"  # fused attention is not counted
        cell = replace(self, device="meta")
        with AssumedValues(self._num_masked()):
            module = cell._build(counted)
            return count_flops(lambda: module(*cell._inputs()).backward())

    def measure(self) -> dict[str, Any]:
        """
        Returns:
            ``seconds`` of a step in each round, or peak ``bytes``; ``tokens`` and model ``operations`` per step; and
            ``failed``: why other models cannot run.
        """
        failed = {name: reason for name in self.models if (reason := self._lacks_memory(name))}
        names = [name for name in self.models if name not in failed]
        result: dict[str, Any] = {
            "tokens": self.batch * self.n,
            "operations": {name: self.step_operations(name) for name in self.models},
        }
        if self.memory:
            counts = {name: self._bytes(name) for name in names}
            result["bytes"] = {name: count for name, count in counts.items() if count is not None}
        else:
            inputs = self._inputs()
            steps = {name: build_step(self._build(name), inputs) for name in names}
            result["seconds"] = self.time_rounds(steps, self.warm_up)
        values = result["bytes" if self.memory else "seconds"]
        return {**result, "failed": failed | {name: NO_MEMORY for name in names if name not in values}}

    def _lacks_memory(self, name: str) -> str | None:
        """Why a model is not run on a CPU, where running out of memory kills the process; None if it fits.

        A Transformer saves n x n weights for backward; so does attention with dropout on a CPU, which is not fused. A
        model with a fixed input length computes many times the tokens of a short input.
        """
        if self.device != "cpu":
            return None
        if name in ("roberta", *PYTORCH_TRANSFORMERS):
            scores = self.layers * self.heads * self.batch * self.n**2
            needed = NUM_SAVED_SCORES * scores * DTYPES[self.dtype].itemsize
            reason = "attention weights need"
        elif name in FIXED_LENGTH_MODELS and self.n < self.positions:
            models = 1 if self.memory else len(self.models)  # weights, gradients and two moments, all built later
            parameters = fixed_bytes(partial(LinformerEncoder, self.config()), DTYPES[self.dtype])
            sentence = replace(self, batch=1)._bytes(name) or 0
            needed = 4 * models * parameters + self.batch * sentence
            reason = f"padded to n = {self.positions}, next to the other models, it needs"
        else:
            return None
        free = free_memory()
        return f"{reason} {needed / GIB:.3g} GiB, but {free / GIB:.3g} are free" if needed > free else None

    def _build(self, name: str) -> nn.Module:
        return self.build(lambda: MODELS[name](self.config(), self.classify)).train()

    def _inputs(self) -> list[torch.Tensor]:
        tokens = self.random_tokens(self.batch, self.n)
        if self.classify:
            return [tokens, torch.randint(0, 2, (self.batch,), device=self.device)]
        return masked_inputs(tokens, self._num_masked())

    def _bytes(self, name: str) -> int | None:
        """Peak bytes of forward and backward with allocated gradients; None if a GPU runs out of memory."""
        module = self._build(name)
        try:
            peak = step_peak_bytes(module, self._inputs(), self.device)
        except torch.OutOfMemoryError:
            peak = None
        # The tracker's hooks keep the module (1 GiB at base size), so free its memory for the next cells.
        for p in module.parameters():
            p.grad, p.data = None, p.data.new_empty(0)
        return peak


def masked_inputs(tokens: torch.Tensor, num_masked: int) -> list[torch.Tensor]:
    """Tokens (B, n), random masked positions (B, ``num_masked``) in order, and their tokens, as inputs of a step."""
    order = torch.rand(tokens.shape, device=tokens.device).argsort(1)
    positions = order[:, :num_masked].sort(1).values
    return [tokens, positions, tokens.gather(1, positions)]


def build_step(module: nn.Module, inputs: Sequence[torch.Tensor]) -> Callable[[], None]:
    """A training step of a module that returns its loss."""
    optimizer = build_optimizer(module.parameters())

    def step() -> None:
        module(*inputs).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def build_cells(
    lengths=PRETRAINING_LENGTHS, finetuning=FINETUNING_LENGTHS, tokens: int = TOKENS_PER_STEP["cpu"], **options
) -> list[TrainingCell]:
    """Steps of about ``tokens`` tokens per length, in finetuning at most 32 sentences; then the bytes of each step."""
    batches = {n: max(1, tokens // n) for n in (*lengths, *finetuning)}
    steps: list[dict[str, Any]] = [dict(n=n, batch=batches[n], positions=n) for n in lengths]
    for n in finetuning:
        steps.append(dict(n=n, batch=min(MAX_FINETUNING_BATCH, batches[n]), classify=True, positions=512))
    return [TrainingCell(**step, memory=memory, **options) for memory in (False, True) for step in steps]
