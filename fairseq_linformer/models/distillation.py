"""``linformer_distillation``: a student learns the hidden states and logits of a teacher, and the task.

    fairseq-train DATA --user-dir fairseq_linformer --criterion linformer_distillation --teacher roberta/model.pt ...

    loss = hidden_weight * MSE of hidden states + logits_weight * KL of logits + task_weight * the task's loss

    B sentences or blocks, n positions, d width, V classes or size of the dictionary, L layers

It works with ``masked_lm`` and ``sentence_prediction``. As in fairseq's criterions of these tasks, gradients are
averaged over masked tokens or sentences; the mean over hidden states is multiplied by the same number.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils, utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import build_model
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from torch import Tensor

from ..config import PROBABILITY, check_values, setting
from ..files import sha256
from ..modules.windows import ceil_div
from .state_dicts import CLASSIFICATION_HEADS, EMBEDDINGS, count_layers, head_names, max_positions, upgrade_names
from .stub_task import StubTask

TERMS = ("hidden", "logits", "task")
TEACHER_KEY = "teacher_sha256"
"""Key of the teacher's checksum in the task's state, in checkpoints."""
NEW_LM_HEAD = "new, untrained"
"""``provenance["imported"]["lm_head"]`` of a checkpoint converted from an encoder without masked LM head."""
SHORTEST = 16
"""Smallest length of a block."""


class Teacher:
    """A fairseq model in eval mode, without gradients; on a GPU in half precision, on a CPU under the caller's
    autocast.

    It is not a module, so that its criterion neither trains nor saves its parameters.

    Args:
        path: checkpoint of RoBERTa or a Linformer.
        head: classification head to keep; None for none.
        num_classes: its number of classes.
        name: name of the teacher in messages; None for the path.

    Attributes:
        sha256: checksum of the file.
        vocab_size, max_positions, layers, width: V, n, L and d.
        has_trained_lm_head: False if it was converted from an encoder without masked LM head.
    """

    def __init__(self, path: str, head: str | None = None, num_classes: int | None = None, name: str | None = None):
        self.path, self.name = Path(path), name or path
        checkpoint = checkpoint_utils.load_checkpoint_to_cpu(path)
        state = upgrade_names(checkpoint["model"])
        bias = state.get(f"{CLASSIFICATION_HEADS}{head}.out_proj.bias")
        if head is not None and (bias is None or len(bias) != num_classes):
            found = f"it has {len(bias)}" if bias is not None else f"it has {', '.join(head_names(state)) or 'no head'}"
            raise ValueError(f"teacher {self.name} must have the head {head!r} with {num_classes} classes, but {found}")
        self.sha256 = sha256(path)
        self.vocab_size, self.width = state[EMBEDDINGS].shape
        self.max_positions, self.layers = max_positions(state), count_layers(state)
        imported = (checkpoint.get("provenance") or {}).get("imported") or {}
        self.has_trained_lm_head = imported.get("lm_head") != NEW_LM_HEAD
        options = checkpoint["cfg"].model if checkpoint.get("cfg") else checkpoint["args"]
        self._model = build_model(options, StubTask(self.vocab_size, self.max_positions), from_checkpoint=True)
        if head is not None:
            inner_dim = len(state[f"{CLASSIFICATION_HEADS}{head}.dense.bias"])
            self._model.register_classification_head(head, num_classes, inner_dim)
        self._model.load_state_dict(state, model_cfg=options)
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
    def __call__(self, tokens: Tensor, **options: Any) -> tuple[Tensor, dict[str, Any]]:
        """The outputs of ``RobertaModel.forward``, on the device of ``tokens``."""
        parameter = next(self._model.parameters())
        if parameter.device != tokens.device:
            dtype = torch.float32
            if tokens.is_cuda:
                is_native = torch.cuda.is_bf16_supported(including_emulation=False)
                dtype = torch.bfloat16 if is_native else torch.float16
            self._model.to(tokens.device, dtype)
        output: tuple[Tensor, dict[str, Any]] = self._model(tokens, **options)
        return output


@dataclass
class DistillationConfig(FairseqDataclass):
    """Options of ``--criterion linformer_distillation``."""

    teacher: str = setting("???", "fairseq checkpoint of the teacher")
    hidden_weight: Optional[float] = setting(
        None,
        "weight of the mean squared error of hidden states (default: 1 if teacher and student have equal width and "
        "number of layers, else 0)",
        at_least=0,
    )
    logits_weight: float = setting(
        1.0, "weight of the KL divergence of predictions (mean squared error with --regression-target)", at_least=0
    )
    task_weight: float = setting(1.0, "weight of the task's loss", at_least=0)
    temperature: float = setting(1.0, "temperature of the logits, at least 0.01", at_least=0.01)
    unmasked: bool = setting(
        False,
        "masked_lm: read the text without masks and learn hidden states only; needs --logits-weight 0 and "
        "--task-weight 0",
    )
    short_seq_prob: float = setting(
        0.0,
        "with --unmasked: probability that a training batch is split into blocks of n/2, n/4, ... tokens, at least 16, "
        "to learn short inputs too; blocks of fewer than 32 tokens are not split",
        **PROBABILITY,
    )
    classification_head_name: str = setting(
        "sentence_classification_head", "name of the classification head, of both models"
    )
    regression_target: bool = setting(False, "sentence_prediction: the target is a score")


@register_criterion("linformer_distillation", dataclass=DistillationConfig)
class DistillationCriterion(FairseqCriterion):
    """Weighted sum of the losses against the teacher and the task's loss."""

    def __init__(self, cfg: DistillationConfig, task: Any):
        super().__init__(task)
        _check_options(cfg, task)
        self.is_classifier = isinstance(task, SentencePredictionTask)
        self.is_regression = self.is_classifier and cfg.regression_target
        self.cfg, self.dictionary = cfg, task.source_dictionary
        head = cfg.classification_head_name if self.is_classifier and cfg.logits_weight > 0 else None
        self.teacher = Teacher(cfg.teacher, head, getattr(task.cfg, "num_classes", None))
        if cfg.logits_weight and not self.is_classifier and not self.teacher.has_trained_lm_head:
            raise ValueError(
                f"logits_weight must be 0, because the masked LM head of the teacher {cfg.teacher} is untrained, got "
                f"{cfg.logits_weight}"
            )
        self.teacher.check_task(task.source_dictionary, task.max_positions(), task.cfg.data)
        task.state.merge_state_dict({TEACHER_KEY: self.teacher.sha256})

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """
        Returns:
            The mean loss times the sample size; the sample size (masked tokens or sentences); and values for the log.
        """
        weights = self.choose_weights(model)
        tokens, sample_size, options = self._choose_outputs(sample, weights)
        output, extra = model(tokens, **options)
        terms: dict[str, Tensor] = {}
        if weights["hidden"] or weights["logits"]:
            if not weights["logits"]:  # its predictions are not needed, and it may have no such head
                options = {"features_only": True, "return_all_hiddens": True}
            expected, expected_extra = self.teacher(tokens, **options)
        if weights["hidden"]:
            ours, theirs = get_hidden_states(extra), get_hidden_states(expected_extra)
            terms["hidden"] = hidden_loss(ours, theirs, tokens.ne(self.padding_idx))
        if weights["logits"]:
            terms["logits"] = self._compare(output, expected, soft=True)
        log: dict[str, Any] = {"ntokens": sample["ntokens"], "nsentences": sample["nsentences"]}
        if weights["task"]:
            targets = sample["target"]
            targets = targets.view(-1) if self.is_classifier else targets[targets.ne(self.padding_idx)]
            terms["task"] = self._compare(output, targets)
            if not self.is_classifier:
                log["npredicted"] = len(targets)
            elif not self.is_regression:
                log["ncorrect"] = (output.argmax(-1) == targets).sum()
        # Zero times the output, so that every parameter behind it has a gradient.
        loss = sum((weights[name] * value for name, value in terms.items()), output.float().sum() * 0) * sample_size
        log |= {f"{name}_loss": value.detach() * sample_size for name, value in terms.items()}
        log |= {"loss": loss.detach(), "sample_size": sample_size}
        return loss, sample_size, log

    def _compare(self, output: Tensor, expected: Tensor, soft: bool = False) -> Tensor:
        """Loss of the predictions (rows, V) against the teacher's, if ``soft``, or the targets (rows,)."""
        if not len(output):  # no token of the batch is masked: all workers log, and reduce, the same terms
            return output.float().sum()
        if self.is_regression:
            return F.mse_loss(output.view(-1).float(), expected.view(-1).float())
        if soft:
            return logits_loss(output, expected, self.cfg.temperature)
        return F.cross_entropy(output.float(), expected)

    def _choose_outputs(self, sample: dict[str, Any], weights: dict[str, float]) -> tuple[Tensor, int, dict[str, Any]]:
        """The tokens to read, the sample size (at least 1), and the options of ``forward`` of both models."""
        tokens, target = sample["net_input"]["src_tokens"], sample["target"]
        predicts = weights["logits"] > 0 or weights["task"] > 0
        options: dict[str, Any] = {"return_all_hiddens": weights["hidden"] > 0}
        if not predicts:
            options["features_only"] = True
        if self.is_classifier:
            if predicts:
                options["classification_head_name"] = self.cfg.classification_head_name
            return tokens, target.size(0), options
        masked = target.ne(self.padding_idx)
        if self.cfg.unmasked:
            tokens = self._shorten(torch.where(masked, target, tokens), masked)
        if predicts:
            options["masked_tokens"] = masked
        return tokens, max(int(masked.sum()), 1), options

    def _shorten(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """Split a training batch into shorter blocks with ``short_seq_prob``."""
        length = tokens.size(1)
        if self.training and self.cfg.short_seq_prob:
            length = draw_length(masked, self.cfg.short_seq_prob)
        if length == tokens.size(1):
            return tokens
        return split_blocks(tokens, length, self.dictionary.bos(), self.dictionary.eos(), self.dictionary.pad())

    def choose_weights(self, model: Any) -> dict[str, float]:
        """The weight of each term for a student; ValueError if its shape is not the teacher's, as the weights need."""
        encoder = model.encoder.sentence_encoder
        shape = len(encoder.layers), encoder.embed_tokens.embedding_dim
        expected = self.teacher.layers, self.teacher.width
        shapes = (
            f"the student has {shape[0]} layers of width {shape[1]}, the teacher {expected[0]} of width {expected[1]}"
        )
        weights: dict[str, float] = {name: getattr(self.cfg, f"{name}_weight") for name in TERMS}
        if weights["hidden"] is None:
            weights["hidden"] = float(shape == expected)
        if weights["hidden"] and shape != expected:
            raise ValueError(
                f"hidden_weight must be 0 for models of different shapes ({shapes}), got {weights['hidden']}"
            )
        if not any(weights.values()):
            raise ValueError(f"hidden_weight, logits_weight or task_weight must be above 0 ({shapes}), got 0 for all")
        return weights

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Aggregate the logs of workers: losses in nats (fairseq's own criterions use bits), accuracy or perplexity."""

        def total(key: str) -> Any:
            return sum(log.get(key, 0) for log in logging_outputs)

        size = total("sample_size")
        metrics.log_scalar("loss", total("loss") / size, size, round=6)
        for name in TERMS:
            if any(f"{name}_loss" in log for log in logging_outputs):
                metrics.log_scalar(f"{name}_loss", total(f"{name}_loss") / size, size, round=6)
        if any("ncorrect" in log for log in logging_outputs):
            metrics.log_scalar("accuracy", 100.0 * total("ncorrect") / total("nsentences"), size, round=1)
        elif any("npredicted" in log for log in logging_outputs):
            metrics.log_derived(
                "ppl", lambda meters: utils.get_perplexity(meters["task_loss"].avg / math.log(2)), priority=10
            )

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def _check_options(cfg: DistillationConfig, task: Any) -> None:
    """Raise ValueError if an option is out of range, or conflicts with another one or the task."""
    if not isinstance(task, (MaskedLMTask, SentencePredictionTask)):
        raise ValueError(f"task must be masked_lm or sentence_prediction, got {type(task).__name__}")
    check_values(DistillationConfig, cfg)
    is_classifier = isinstance(task, SentencePredictionTask)
    if cfg.unmasked and (is_classifier or cfg.logits_weight or cfg.task_weight):
        raise ValueError(
            "unmasked needs masked_lm, logits_weight 0 and task_weight 0, since no tokens are masked, got "
            f"{cfg.logits_weight} and {cfg.task_weight}"
        )
    if cfg.short_seq_prob and (not cfg.unmasked or task.cfg.skip_masking):
        raise ValueError(
            "short_seq_prob needs unmasked, since short blocks lose their masks, and not skip_masking, since lengths "
            f"are drawn from masks, got {cfg.short_seq_prob}"
        )


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
