"""``--optimizer fused_adam``: PyTorch's fused AdamW in fairseq, on CPUs and GPUs.

fairseq's ``adam`` is fused only with apex and a GPU; otherwise it makes about ten passes over each parameter, PyTorch's
kernel one. Both decouple weight decay from the gradient. PyTorch adds epsilon after the bias correction of the second
moment, fairseq before it, so the steps equal those of ``adam`` with an epsilon of ``eps * sqrt(1 - beta2^t)``. That is
within 1 % of ``eps`` after ln(0.0199) / ln(beta2) updates: 194 with RoBERTa's beta2 of 0.98, 3,915 with fairseq's
default of 0.999.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdam
from omegaconf import II
from torch import nn


@dataclass
class FusedAdamConfig(FairseqDataclass):
    """Options of fairseq's ``adam``, with the same defaults."""

    adam_betas: Any = field(default=(0.9, 0.999), metadata={"help": "betas for Adam optimizer"})
    adam_eps: float = field(default=1e-8, metadata={"help": "epsilon for Adam optimizer"})
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay"})
    lr: list[float] = II("optimization.lr")


@register_optimizer("fused_adam", dataclass=FusedAdamConfig)
class FusedAdam(FairseqOptimizer):
    """``torch.optim.AdamW(fused=True)``.

    fairseq rejects it with ``--memory-efficient-fp16``: the moments would be in half precision.
    """

    def __init__(self, cfg: FusedAdamConfig, params: Iterable[nn.Parameter]):
        super().__init__(cfg)
        self._optimizer = torch.optim.AdamW(params, fused=True, **self.optimizer_config)

    optimizer_config = FairseqAdam.optimizer_config
    """Learning rate, betas, epsilon and weight decay; options override those of a resumed checkpoint."""

    @property
    def supports_flat_params(self) -> bool:
        """Parameters may be flattened into one."""
        return True
