"""A whole training step: forward, backward, optimizer. Tokens a second, bytes at most, utilisation.

    B sentences of n tokens; pretraining masks m of them in each and predicts those, finetuning predicts a class
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import nn

from ..config import LinformerConfig
from ..planning.formulas import Batch, Flops, Model, flops_of_head, flops_of_layer
from .cells import DTYPES
from .memory import peak_bytes
from .timing import clock_for, interleaved
from .whole import BARE, WITH_FAIRSEQ, models, why_not

MASKED = 0.15
PRETRAINING = (512, 1024, 2048, 4096)
FINETUNING = (32, 64, 128)
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": partial(torch.optim.AdamW, fused=True)}
"""The same for every model."""
FINETUNING_BATCH = 32
"""Sentences at most, the larger of RoBERTa's."""
TRANSFORMERS = ("roberta", "transformer-eager", "transformer-sdpa")


@dataclass(frozen=True)
class Training:
    """Steps of one shape, every model.

    Raises:
        ValueError: a value that cannot be measured, or a model that is not here.
    """

    n: int
    batch: int
    models: Tuple[str, ...] = WITH_FAIRSEQ
    positions: int = 512
    """n of the model; inputs of finetuning are shorter."""
    classify: bool = False
    k: int = 256
    sharing: str = "layerwise"
    memory: bool = False
    """Count bytes, in one step, and take no times."""
    optimizer: str = "adam"
    rounds: int = 3
    warm_up: int = 1
    device: str = "cpu"
    dtype: str = "fp32"
    layers: int = 12
    embed_dim: int = 768
    heads: int = 12
    vocabulary: int = 50265

    def __post_init__(self):
        for what, value, allowed in (("dtype", self.dtype, DTYPES), ("optimizer", self.optimizer, OPTIMIZERS)):
            if value not in allowed:
                raise ValueError(f"{what} is {value!r}; it must be one of {', '.join(allowed)}")
        for name in self.models:
            if name not in models():
                raise ValueError(f"{name} is no model of the benchmark; they are {', '.join(models())}")
            if missing := why_not(name):
                raise ValueError(missing)
        if self.n > self.positions:
            raise ValueError(f"n is {self.n}; it must be at most positions, which is {self.positions}")
        self.config()

    @property
    def name(self) -> str:
        """training-DEVICE-DTYPE-LAYERS-nN[-of POSITIONS][-memory]."""
        kind = f"finetuning-n{self.n}-of-{self.positions}" if self.classify else f"n{self.n}"
        others = "-bare" * (set(self.models) <= set(BARE)) + "-peers" * ("linformer" in self.models or "linformer-pytorch" in self.models)
        return f"training-{self.device}-{self.dtype}-l{self.layers}-{kind}{others}" + "-memory" * self.memory

    def config(self) -> LinformerConfig:
        """The shape."""
        return LinformerConfig(self.vocabulary, self.positions, self.k, self.sharing, layers=self.layers, embed_dim=self.embed_dim,
                               ffn_embed_dim=4 * self.embed_dim, attention_heads=self.heads)  # fmt: skip

    def model_operations(self, name: str) -> float:
        """That a step of a model needs, after ``planning/formulas.py``; for another package as for the Linformer."""
        model = Model(self.config(), linear=name not in TRANSFORMERS)
        batch = Batch(self.batch, self.n, 1 if self.classify else round(MASKED * self.n))
        head = Flops(0, 0) if self.classify else flops_of_head(model, batch)
        whole = sum((flops_of_layer(model, batch, i, fused=False) for i in range(self.layers)), head)
        return whole.forward + whole.backward

    def operations(self) -> float:
        """Of all rounds of all models."""
        steps = 2 if self.memory else self.rounds + self.warm_up
        return steps * sum(self.model_operations(name) for name in self.models)

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of a step in each round, or ``bytes``; ``tokens`` and model ``operations`` of a step."""
        found: Dict[str, Any] = {"tokens": self.batch * self.n, "operations": {name: self.model_operations(name) for name in self.models}}
        if self.memory:
            return {**found, "bytes": {name: size for name in self.models if (size := self._bytes(name)) is not None}}
        inputs, runs, failed = self._inputs(), {}, {}
        for name in self.models:
            step = self._step(self._build(name), inputs)
            if self.device != "cpu" and not _fits(step):
                failed[name] = "out of memory"
            else:
                runs[name] = step
        return {**found, "seconds": interleaved(runs, self.rounds, self.warm_up, clock_for(self.device), self.device), "failed": failed}

    def _build(self, name: str) -> nn.Module:
        return models()[name](self.config(), self.classify).train().to(device=self.device, dtype=DTYPES[self.dtype])

    def _inputs(self) -> List[torch.Tensor]:
        tokens = torch.randint(5, self.vocabulary, (self.batch, self.n), device=self.device)
        if self.classify:
            return [tokens, torch.randint(0, 2, (self.batch,), device=self.device)]
        positions = torch.rand(self.batch, self.n, device=self.device).argsort(1)[:, : round(MASKED * self.n)].sort(1).values
        return [tokens, positions, tokens.gather(1, positions)]

    def _step(self, module: nn.Module, inputs) -> Callable[[], None]:
        optimizer = OPTIMIZERS[self.optimizer](module.parameters(), lr=1e-5)

        def step():
            module(*inputs).backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    def _bytes(self, name: str) -> Optional[int]:
        """Of forward and backward, where gradients are there already; None if a GPU has not so many."""
        module, inputs = self._build(name), self._inputs()
        for p in module.parameters():
            if p.requires_grad:
                p.grad = torch.zeros_like(p)
        backward = lambda: module(*inputs).backward()  # noqa: E731
        return peak_bytes(backward, module, inputs, self.device) if self.device == "cpu" or _fits(backward) else None


def _fits(run: Callable[[], None]) -> bool:
    try:
        run()
    except torch.OutOfMemoryError:
        return False
    finally:
        torch.cuda.empty_cache()
    return True


def rows(lengths=PRETRAINING, finetuning=FINETUNING, tokens: int = 2048, **options) -> List[Training]:
    """A step of about ``tokens`` tokens for each length, of at most 32 sentences in finetuning, and behind them their bytes."""
    steps = [dict(n=n, batch=max(1, tokens // n), positions=n) for n in lengths]
    steps += [dict(n=n, batch=min(FINETUNING_BATCH, max(1, tokens // n)), classify=True, positions=512) for n in finetuning]
    return [Training(**step, memory=memory, **options) for memory in (False, True) for step in steps]
