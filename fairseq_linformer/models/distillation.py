"""``linformer_distillation``: a student learns the hidden states of a teacher, on text without masks.

    fairseq-train DATA --user-dir fairseq_linformer --criterion linformer_distillation --teacher roberta/model.pt ...

    loss = mean squared error of the hidden states of all layers

    B blocks, n positions, d width, V size of the dictionary, L layers

It works with the task ``masked_lm``. As in fairseq's criterion of this task, gradients are averaged over masked tokens:
the mean over hidden states is multiplied by their number.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import build_model
from fairseq.tasks.masked_lm import MaskedLMTask
from torch import Tensor

from ..config import PROBABILITY, check_values, setting
from ..files import sha256
from ..modules.windows import ceil_div
from .state_dicts import CLASSIFICATION_HEADS, EMBEDDINGS, count_layers, max_positions, upgrade_names
from .stub_task import StubTask

TEACHER_KEY = "teacher_sha256"
"""Key of the teacher's checksum in the task's state, in checkpoints."""
SHORTEST = 16
"""Smallest length of a block."""


class Teacher:
    """A fairseq model in eval mode, without gradients; on a GPU in half precision, on a CPU under the caller's
    autocast.

    It is not a module, so that its criterion neither trains nor saves its parameters.

    Args:
        path: checkpoint of RoBERTa or a Linformer; classification heads are left out.
        name: name of the teacher in messages; None for the path.

    Attributes:
        sha256: checksum of the file.
        vocab_size, max_positions, layers, width: V, n, L and d.
    """

    def __init__(self, path: str, name: str | None = None):
        self.path, self.name = Path(path), name or path
        checkpoint = checkpoint_utils.load_checkpoint_to_cpu(path)
        state = upgrade_names(checkpoint["model"])
        self.sha256 = sha256(path)
        self.vocab_size, self.width = state[EMBEDDINGS].shape
        self.max_positions, self.layers = max_positions(state), count_layers(state)
        options = checkpoint["cfg"].model if checkpoint.get("cfg") else checkpoint["args"]
        self._model = build_model(options, StubTask(self.vocab_size, self.max_positions), from_checkpoint=True)
        encoder = {key: value for key, value in state.items() if not key.startswith(CLASSIFICATION_HEADS)}
        self._model.load_state_dict(encoder, model_cfg=options)
        self._model.eval().requires_grad_(False)

    def check_task(self, dictionary: Any, n: int, data: str) -> None:
        """Check that inputs of a task fit the teacher.

        Args:
            dictionary: fairseq's dictionary of the task.
            n: longest input of the task.
            data: its folder, for messages.
        """
        if len(dictionary) != self.vocab_size:
            raise ValueError(
                f"the dictionary of {data} must be that of the teacher {self.name} ({self.vocab_size:,} entries), got "
                f"{len(dictionary):,}"
            )
        if n > self.max_positions:
            raise ValueError(f"the teacher {self.name} must have at least n = {n} positions, got {self.max_positions}")

    @torch.no_grad()
    def __call__(self, tokens: Tensor) -> list[Tensor]:
        """The hidden states of tokens (B, n), on their device."""
        parameter = next(self._model.parameters())
        if parameter.device != tokens.device:
            dtype = torch.float32
            if tokens.is_cuda:
                is_native = torch.cuda.is_bf16_supported(including_emulation=False)
                dtype = torch.bfloat16 if is_native else torch.float16
            self._model.to(tokens.device, dtype)
        return compute_hidden_states(self._model, tokens)[1]


@dataclass
class DistillationConfig(FairseqDataclass):
    """Options of ``--criterion linformer_distillation``."""

    teacher: str = setting("???", "fairseq checkpoint of the teacher, of the student's width and number of layers")
    short_seq_prob: float = setting(
        0.0,
        "probability that a training batch is split into blocks of n/2, n/4, ... tokens, at least 16, to learn short "
        "inputs too; blocks of fewer than 32 tokens are not split",
        **PROBABILITY,
    )


@register_criterion("linformer_distillation", dataclass=DistillationConfig)
class DistillationCriterion(FairseqCriterion):
    """The loss against the teacher's hidden states."""

    def __init__(self, cfg: DistillationConfig, task: Any):
        super().__init__(task)
        if not isinstance(task, MaskedLMTask):
            raise ValueError(f"task must be masked_lm, got {type(task).__name__}")
        check_values(DistillationConfig, cfg)
        if cfg.short_seq_prob and task.cfg.skip_masking:  # lengths are drawn from masks
            raise ValueError(f"short_seq_prob must be 0 with skip_masking, got {cfg.short_seq_prob}")
        self.cfg, self.dictionary = cfg, task.source_dictionary
        self.teacher = Teacher(cfg.teacher)
        self.teacher.check_task(task.source_dictionary, task.max_positions(), task.cfg.data)
        task.state.merge_state_dict({TEACHER_KEY: self.teacher.sha256})

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """
        Returns:
            The mean loss times the sample size; the sample size, the number of masked tokens; and values for the log.
        """
        self._check_shape(model)
        inputs, target = sample["net_input"]["src_tokens"], sample["target"]
        masked = target.ne(self.padding_idx)
        tokens, sample_size = self._shorten(torch.where(masked, target, inputs), masked), max(int(masked.sum()), 1)
        output, ours = compute_hidden_states(model, tokens)
        # Zero times the output, so that every parameter behind it has a gradient.
        loss = hidden_loss(ours, self.teacher(tokens), tokens.ne(self.padding_idx)) + output.float().sum() * 0
        log = {name: sample[name] for name in ("ntokens", "nsentences")}
        return loss * sample_size, sample_size, {**log, "loss": loss.detach() * sample_size, "sample_size": sample_size}

    def _shorten(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """Split a training batch into shorter blocks with ``short_seq_prob``."""
        if not (self.training and self.cfg.short_seq_prob):
            return tokens
        length = draw_length(masked, self.cfg.short_seq_prob)
        if length == tokens.size(1):
            return tokens
        return split_blocks(tokens, length, self.dictionary.bos(), self.dictionary.eos(), self.dictionary.pad())

    def _check_shape(self, model: Any) -> None:
        """Raise ValueError if the student's layers are not of the teacher's number and width, or some are dropped."""
        encoder = model.encoder.sentence_encoder
        if encoder.config.layerdrop:
            raise ValueError(f"encoder_layerdrop must be 0 in distillation, got {encoder.config.layerdrop}")
        shape = len(encoder.layers), encoder.embed_tokens.embedding_dim
        expected = self.teacher.layers, self.teacher.width
        if shape != expected:
            raise ValueError(
                f"the student must have {expected[0]} layers of width {expected[1]}, as the teacher, got {shape[0]} of "
                f"width {shape[1]}"
            )

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """The mean loss of all workers."""
        loss, size = (sum(log[key] for log in logging_outputs) for key in ("loss", "sample_size"))
        metrics.log_scalar("loss", loss / size, size, round=6)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def compute_hidden_states(model: Any, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The features of a fairseq model, (B, n, d), and the L hidden states (B, n, d) before them."""
    output, extra = model(tokens, features_only=True, return_all_hiddens=True)
    return output, [hidden.transpose(0, 1) for hidden in extra["inner_states"][1:]]  # the first is of the embeddings


def hidden_loss(student: Sequence[Tensor], teacher: Sequence[Tensor], real: Tensor) -> Tensor:
    """Mean squared error of hidden states, over layers, real positions and width.

    Args:
        student, teacher: L hidden states (B, n, d) each.
        real: (B, n), False at padding.
    """
    errors = [F.mse_loss(s[real].float(), t[real].float()) for s, t in zip(student, teacher, strict=True)]
    return torch.stack(errors).mean()


def draw_length(masked: Tensor, short_seq_prob: float) -> int:
    """The length of the blocks of a batch: n, or with probability ``short_seq_prob`` n halved once or more, rounded up,
    while it is at least 2 * ``SHORTEST``.

    It depends on the masks of the batch alone. Masks change in every epoch, so each epoch draws again; resumed training
    draws the same.

    Args:
        masked: (B, n), True where a token is masked.
    """
    n = masked.size(1)
    generator = random.Random(repr(masked.flatten().nonzero().flatten().tolist()))
    lengths, half = [], n
    while half >= 2 * SHORTEST:
        half = ceil_div(half, 2)
        lengths.append(half)
    return generator.choice(lengths) if lengths and generator.random() < short_seq_prob else n


def split_blocks(tokens: Tensor, length: int, bos: int, eos: int, pad: int) -> Tensor:
    """Split each block into shorter ones. ``bos`` and ``eos`` replace the first and last token of each.

    Args:
        tokens: (B, n), padded on the right.
        length: tokens per shorter block.

    Returns:
        (at most B ceil(n / length), length), without blocks of padding alone.
    """
    blocks = F.pad(tokens, (0, -tokens.size(1) % length), value=pad).view(-1, length)
    blocks = blocks[blocks[:, 0] != pad]
    blocks[:, 0] = bos
    last = blocks.ne(pad).sum(1, keepdim=True) - 1
    return torch.where(last > 0, blocks.scatter(1, last, eos), blocks)
