"""``--optimizer fused_adam``: PyTorch's fused AdamW for fairseq, on CPUs and GPUs.

fairseq's ``adam`` has a fused kernel where apex is installed and a GPU is seen; without, it makes some ten passes over
the memory of every parameter. PyTorch's makes one. Both decouple weight decay from the gradient. They differ in
epsilon, which PyTorch adds after the correction of the second moment and fairseq before it: the steps are those of
``adam`` with an epsilon of ``eps * sqrt(1 - beta2^t)``. That is within 1 % of ``eps`` after ln(0.0199) / ln(beta2)
updates: 194 with the beta2 of 0.98 of RoBERTa, 3,915 with fairseq's default of 0.999.
"""

from dataclasses import dataclass, field
from typing import Any, List

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdam
from omegaconf import II


@dataclass
class FusedAdamConfig(FairseqDataclass):
    """As of fairseq's ``adam``, with the same defaults."""

    adam_betas: Any = field(default=(0.9, 0.999), metadata={"help": "betas for Adam optimizer"})
    adam_eps: float = field(default=1e-8, metadata={"help": "epsilon for Adam optimizer"})
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay"})
    lr: List[float] = II("optimization.lr")


@register_optimizer("fused_adam", dataclass=FusedAdamConfig)
class FusedAdam(FairseqOptimizer):
    """``torch.optim.AdamW(fused=True)``.

    Not for ``--memory-efficient-fp16``, which fairseq refuses by this optimizer's name: the moments would be in half
    precision.

    Args:
        cfg: ``FusedAdamConfig``.
        params: what to train.
    """

    def __init__(self, cfg, params):
        super().__init__(cfg)
        self._optimizer = torch.optim.AdamW(params, fused=True, **self.optimizer_config)

    optimizer_config = FairseqAdam.optimizer_config
    """The learning rate, betas, epsilon and weight decay; of a checkpoint those of the command win."""

    @property
    def supports_flat_params(self) -> bool:
        """All parameters may be one."""
        return True
