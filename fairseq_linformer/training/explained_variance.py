"""Explained variance of a teacher's features, on held-out text."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.models import build_model, open_checkpoint
from ..evaluation.perplexity import open_blocks
from ..models.distillation import Teacher, compute_hidden_states
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
    model, expected = build_model(open_checkpoint(student)).eval(), Teacher(str(teacher))

    def batches() -> Iterator[Batch]:
        num_tokens = 0
        with progress_bar("explained variance", tokens, "token") as progress, torch.no_grad():
            for sample in blocks:
                inputs, target = sample["net_input"]["src_tokens"], sample["target"]
                text = torch.where(target.ne(pad), target, inputs)
                yield compute_hidden_states(model, text)[1], expected(text), text.ne(pad)
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
    count = 0
    residual, squares, total = (defaultdict[int, Any](float) for _ in range(3))  # by layer
    for ours, theirs, real in batches:
        count += int(real.sum())
        for layer, (s, t) in enumerate(zip(ours, theirs, strict=True)):
            student, teacher = s[real].double(), t[real].double()
            residual[layer] += (student - teacher).square().sum()
            squares[layer] += teacher.square().sum()
            total[layer] += teacher.sum(0)
    return [float(1 - residual[i] / (squares[i] - total[i].square().sum() / count)) for i in residual]
