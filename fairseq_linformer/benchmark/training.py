"""A whole training step: forward, backward, optimizer. Tokens per second, most bytes, utilisation.

    B sentences of n tokens; pretraining masks m of them in each and predicts those, finetuning predicts a class
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, ClassVar, Dict, List, Optional, Tuple

import torch
from torch import nn

from ..config import LinformerConfig
from ..machine import free_memory
from ..planning.formulas import Batch, Flops, Model, flops_of_head, flops_of_layer, parameters
from .cells import DTYPES, Setting
from .encoders import BASELINES
from .memory import GIB, NO_MEMORY, fits, peak_bytes
from .models import BARE, FILLED_UP, MODELS, OF_INDEX, WITH_FAIRSEQ, check_models

MASKED = 0.15
PRETRAINING = (512, 1024, 2048, 4096)
FINETUNING = (32, 64, 128)
optimizer_of = partial(torch.optim.AdamW, lr=1e-5, fused=True)
"""The same for every model."""
FINETUNING_BATCH = 32
"""The most sentences, the larger of RoBERTa's batches."""
TOKENS = {"cpu": 2048, "cuda": 32_768}
"""Of a step; see ``inference.TOKENS``."""
KEPT = 3
"""How many n x n matrices per head a Transformer with dropout keeps for backward: counted at n = 512 to 2,048."""
OUR_TRANSFORMERS = tuple(f"transformer-{kind}" for kind in BASELINES)


@dataclass(frozen=True)
class Training(Setting):
    """Steps of one shape, every model.

    Raises:
        ValueError: a value that cannot be measured, or a model that is not allowed or not installed.
    """

    n: int
    batch: int
    models: Tuple[str, ...] = WITH_FAIRSEQ
    positions: int = 512
    """n of the model; inputs of finetuning are shorter."""
    classify: bool = False
    k: int = 256
    memory: bool = False
    """Count bytes, in one step, and measure no times."""
    warm_up: int = 1
    kind: ClassVar[str] = "training"

    def __post_init__(self):
        super().__post_init__()
        if self.n > self.positions:
            raise ValueError(f"n is {self.n}; it must be at most positions, which is {self.positions}")
        if not self.classify and round(MASKED * self.n) < 1:
            raise ValueError(f"n is {self.n}; it must be at least {math.ceil(0.5 / MASKED)}, or no token is masked")
        self.config()  # refuses k above positions
        check_models(self.models, tuple(MODELS), self.positions, self.k)

    @property
    def _shape_name(self) -> str:
        """nN or finetuning-nN-of-POSITIONS; -bare of modules alone, -peers with other packages; -memory."""
        shape = f"finetuning-n{self.n}-of-{self.positions}" if self.classify else f"n{self.n}"
        others = "-bare" * (set(self.models) <= set(BARE)) + "-peers" * any(name in OF_INDEX for name in self.models)
        return shape + others + "-memory" * self.memory

    def config(self) -> LinformerConfig:
        """The shape."""
        return self.shape(self.positions, self.k)

    def model_operations(self, name: str) -> float:
        """Operations that a step of a model needs, by ``planning/formulas.py``; another package needs those of the
        Linformer."""
        model = Model(self.config(), linear=name not in ("roberta", *OUR_TRANSFORMERS),
                      read_only=name in OUR_TRANSFORMERS)  # fmt: skip
        batch = Batch(self.batch, self.n, 1 if self.classify else round(MASKED * self.n))
        head = Flops(0, 0) if self.classify else flops_of_head(model, batch)
        whole = sum((flops_of_layer(model, batch, i, fused=False) for i in range(self.layers)), head)
        return whole.forward + whole.backward

    def operations(self) -> float:
        """Of all rounds of all models."""
        steps = 2 if self.memory else self.rounds + self.warm_up
        return steps * sum(self.model_operations(name) for name in self.models)

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of a step in each round, or ``bytes``; ``tokens`` and model ``operations`` of a step; ``failed``,
        and why."""
        failed = {name: why for name in self.models if (why := self._no_room(name))}
        inputs, found = self._inputs(), {}
        for name in (name for name in self.models if name not in failed):
            if self.memory:
                found[name] = self._bytes(name)
            else:
                step = self._step(self._build(name), inputs)
                found[name] = step if self.device == "cpu" or fits(step) else None
        failed |= {name: NO_MEMORY for name, value in found.items() if value is None}
        found = {name: value for name, value in found.items() if value is not None}
        return {"tokens": self.batch * self.n,
                "operations": {name: self.model_operations(name) for name in self.models},
                **({"bytes": found} if self.memory else {"seconds": self.time(found)}), "failed": failed}  # fmt: skip

    def _no_room(self, name: str) -> Optional[str]:
        """Why a model is not run on a CPU, where the system would kill the process; None if it is.

        A Transformer keeps n x n weights for backward; so does the fused kernel on a CPU, which has no dropout there. A
        model that takes inputs of its full length only computes many times the tokens of a shorter one.
        """
        if self.device != "cpu":
            return None
        if name in ("roberta", *OUR_TRANSFORMERS):
            what = "its weights take"
            needed = KEPT * self.layers * self.heads * self.batch * self.n**2 * DTYPES[self.dtype].itemsize
        elif name in FILLED_UP and self.n < self.positions:
            models = 1 if self.memory else len(self.models)  # weights, gradients and two moments, all built later
            held = 4 * models * parameters(Model(self.config())).learnt * DTYPES[self.dtype].itemsize
            one = replace(self, batch=1)
            what = f"filled up to n = {self.positions} and beside the other models it takes"
            needed = held + self.batch * one._bytes(name)
        else:
            return None
        free = free_memory()
        return f"{what} {needed / GIB:.3g} GiB, and {free / GIB:.3g} are free" if needed > free else None

    def _build(self, name: str) -> nn.Module:
        return self.placed(MODELS[name](self.config(), self.classify).train())

    def _inputs(self) -> List[torch.Tensor]:
        tokens = self.random_tokens(self.batch, self.n)
        if self.classify:
            return [tokens, torch.randint(0, 2, (self.batch,), device=self.device)]
        order = torch.rand(self.batch, self.n, device=self.device).argsort(1)
        positions = order[:, : round(MASKED * self.n)].sort(1).values
        return [tokens, positions, tokens.gather(1, positions)]

    def _step(self, module: nn.Module, inputs) -> Callable[[], None]:
        optimizer = optimizer_of(module.parameters())

        def step():
            module(*inputs).backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    def _bytes(self, name: str) -> Optional[int]:
        """Of forward and backward, with gradients in place; None if a GPU has not so many."""
        module, inputs = self._build(name), self._inputs()
        for p in module.parameters():
            if p.requires_grad:
                p.grad = torch.zeros_like(p)
        backward = lambda: module(*inputs).backward()  # noqa: E731
        found = peak_bytes(backward, module, inputs, self.device) if self.device == "cpu" or fits(backward) else None
        # the tracker's hooks keep the module: 1 GiB for each, and the next cells bring more
        for p in module.parameters():
            p.grad, p.data = None, p.data.new_empty(0)
        return found


def rows(lengths=PRETRAINING, finetuning=FINETUNING, tokens: int = TOKENS["cpu"], **options) -> List[Training]:
    """A step of about ``tokens`` tokens for each length, of at most 32 sentences in finetuning, followed by their
    bytes."""
    steps = [dict(n=n, batch=max(1, tokens // n), positions=n) for n in lengths]
    steps += [dict(n=n, batch=min(FINETUNING_BATCH, max(1, tokens // n)), classify=True, positions=512)
              for n in finetuning]  # fmt: skip
    return [Training(**step, memory=memory, **options) for memory in (False, True) for step in steps]
