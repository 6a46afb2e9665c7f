"""Explained variance of a teacher's features, on held-out text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.models import build_model, open_checkpoint
from ..evaluation.perplexity import open_blocks
from ..models.distillation import Teacher, get_hidden_states
from ..progress import progress_bar

Batch = tuple[Sequence[Tensor], Sequence[Tensor], Tensor]
"""The student's and the teacher's features of each layer, and where tokens are real, as for ``hidden_loss``."""


def explained_variance(teacher: Any, student: Any, data: Any, n: int, tokens: int = 32768) -> list[float]:
    """Share of the variance of the teacher's features that the student explains, by layer.

    Text is split as by ``open_blocks``, but nothing is masked. It runs on the CPU in single precision.

    Args:
        teacher, student: fairseq checkpoints of equal width and number of layers.
        data: folder with ``dict.txt`` and the validation split.
        n: tokens per block, at most the n of both.
        tokens: stop after the batch that reaches this number, padding included.

    Returns:
        R^2 of each layer, first to last; not finite without variance.
    """
    blocks, pad = open_blocks(data, "valid", n, seed=1, max_tokens=4096)
    models = build_model(open_checkpoint(student)).eval(), Teacher(str(teacher))

    def batches() -> Iterator[Batch]:
        num_tokens = 0
        with progress_bar("explained variance", tokens, "token") as progress, torch.no_grad():
            for sample in blocks:
                inputs, target = sample["net_input"]["src_tokens"], sample["target"]
                text = torch.where(target.ne(pad), target, inputs)
                ours, theirs = (
                    get_hidden_states(run(text, features_only=True, return_all_hiddens=True)[1]) for run in models
                )
                yield ours, theirs, text.ne(pad)
                num_tokens += text.numel()
                progress.update(text.numel())
                if num_tokens >= tokens:
                    break

    return explained_shares(batches())


def explained_shares(batches: Iterable[Batch]) -> list[float]:
    """Share of the variance of the teacher's features that a student explains (R^2), by layer: 1 - residual / variance.

    1 means equal features, and 0 those of a student that always outputs their mean; it may be negative. Sums are in
    double precision.
    """
    count, sums = 0, torch.zeros(1)
    for ours, theirs, real in batches:
        count += int(real.sum())
        sums = sums + torch.stack([_layer_sums(s[real], t[real]) for s, t in zip(ours, theirs, strict=True)])
    residual, squares, total = sums[:, 0], sums[:, 1], sums[:, 2:]
    shares: list[float] = (1 - residual / (squares - total.square().sum(1) / count)).tolist()
    return shares


def _layer_sums(student: Tensor, teacher: Tensor) -> Tensor:
    """Sums over the features (tokens, d) of a layer: the squared errors, the squares, and each feature, (2 + d,)."""
    student, teacher = student.double(), teacher.double()
    squares = torch.stack([(student - teacher).square().sum(), teacher.square().sum()])
    return torch.cat([squares, teacher.sum(0)])
