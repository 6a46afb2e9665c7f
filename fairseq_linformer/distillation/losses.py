"""Losses between a student and its teacher, and the explained variance of the teacher's features.

B sentences, n positions, d width, V classes or size of the dictionary, L layers
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def get_hidden_states(extra: dict[str, Any]) -> list[Tensor]:
    """L hidden states (B, n, d) of the second output of ``RobertaModel.forward`` with ``return_all_hiddens``."""
    return [hidden.transpose(0, 1) for hidden in extra["inner_states"][1:]]  # the first is that of the embeddings


def hidden_loss(student: Sequence[Tensor], teacher: Sequence[Tensor], real: Tensor) -> Tensor:
    """Mean squared error of hidden states, over layers, real positions and width.

    Args:
        student, teacher: L hidden states (B, n, d) each.
        real: (B, n), False at padding.
    """
    errors = [F.mse_loss(s[real].float(), t[real].float()) for s, t in zip(student, teacher, strict=True)]
    return torch.stack(errors).mean()


def logits_loss(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """Kullback-Leibler divergence from the teacher's to the student's probabilities, in nats, mean over rows.

    Both are softened by the temperature; multiplying by its square keeps the scale of gradients (Hinton et al. 2015,
    "Distilling the Knowledge in a Neural Network", section 2).

    Args:
        student, teacher: logits of m rows, (m, V).
    """
    log_p, log_q = (F.log_softmax(logits.float() / temperature, dim=-1) for logits in (teacher, student))
    return F.kl_div(log_q, log_p, reduction="batchmean", log_target=True) * temperature**2


class ExplainedVariance:
    """Share of the variance of the teacher's features that a student explains (R^2), by layer: 1 - residual / variance.

    1 means equal features, and 0 those of a student that always outputs their mean; it may be negative. Sums are in
    double precision.

    Args:
        layers: L.
        width: d.
    """

    def __init__(self, layers: int, width: int):
        self._count = 0
        self._sum = torch.zeros(layers, width, dtype=torch.float64)
        self._squares, self._residual = (torch.zeros(layers, dtype=torch.float64) for _ in range(2))

    def add(self, student: Sequence[Tensor], teacher: Sequence[Tensor], real: Tensor) -> None:
        """Add a batch, with the arguments of ``hidden_loss``."""
        self._count += int(real.sum())
        for i, (s, t) in enumerate(zip(student, teacher, strict=True)):
            s, t = (x[real].double().cpu() for x in (s, t))
            self._sum[i] += t.sum(0)
            self._squares[i] += t.square().sum()
            self._residual[i] += (s - t).square().sum()

    def compute_shares(self) -> list[float]:
        """The share of each layer; not finite without data or variance."""
        variance = self._squares - self._sum.square().sum(1) / max(self._count, 1)
        return (1 - self._residual / variance).tolist()
