"""Explained variance of a teacher's features, on held-out text."""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf
from torch import Tensor

from ..checkpoints.models import build_model, open_checkpoint
from ..models.distillation import Teacher, get_hidden_states
from ..progress import progress_bar


def explained_variance(teacher: Any, student: Any, data: Any, n: int, tokens: int = 32768) -> list[float]:
    """Share of the variance of the teacher's features that the student explains, by layer.

    Text is split into blocks of n tokens, as by fairseq's ``masked_lm`` with ``--sample-break-mode none``; nothing is
    masked. Blocks of equal length are in a random order, with seed 1. It runs on the CPU in single precision.

    Args:
        teacher, student: fairseq checkpoints of equal width and number of layers.
        data: folder with ``dict.txt`` and the validation split.
        n: tokens per block, at most the n of both.
        tokens: stop after the batch that reaches this number, padding included.

    Returns:
        R^2 of each layer, first to last; not finite without variance.
    """
    task = MaskedLMTask.setup_task(OmegaConf.structured(MaskedLMConfig(data=str(data), tokens_per_sample=n, seed=1)))
    teacher_model, model = Teacher(str(teacher)), build_model(open_checkpoint(student)).eval()
    task.load_dataset("valid")
    measured = ExplainedVariance(teacher_model.layers, teacher_model.width)
    iterator = task.get_batch_iterator(task.dataset("valid"), max_tokens=max(n, 4096), max_positions=n, num_workers=0)
    batches, pad, num_tokens = iterator.next_epoch_itr(shuffle=False), task.source_dictionary.pad(), 0
    with progress_bar("explained variance", tokens, "token") as progress, torch.no_grad():
        for sample in batches:
            inputs, target = sample["net_input"]["src_tokens"], sample["target"]
            text = torch.where(target.ne(pad), target, inputs)
            ours, theirs = (
                get_hidden_states(run(text, features_only=True, return_all_hiddens=True)[1])
                for run in (model, teacher_model)
            )
            measured.add(ours, theirs, text.ne(pad))
            num_tokens += text.numel()
            progress.update(text.numel())
            if num_tokens >= tokens:
                break
    return measured.compute_shares()


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
