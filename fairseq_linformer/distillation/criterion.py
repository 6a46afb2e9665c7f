"""``linformer_distillation``: a student learns the hidden states and logits of a teacher, and the task.

    fairseq-train DATA --user-dir fairseq_linformer --criterion linformer_distillation --teacher roberta/model.pt ...

    loss = hidden_weight * MSE of hidden states + logits_weight * KL of logits + task_weight * the task's loss

It works with ``masked_lm`` and ``sentence_prediction``. As in fairseq's criterions of these tasks, gradients are
averaged over masked tokens or sentences; the mean over hidden states is multiplied by the same number.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import OmegaConf
from torch import Tensor

from .losses import get_hidden_states, hidden_loss, logits_loss
from .short_blocks import draw_length, split_blocks
from .teacher import Teacher

TERMS = ("hidden", "logits", "task")
TEACHER_KEY = "teacher_sha256"
"""Key of the teacher's checksum in the task's state, in checkpoints."""


@dataclass
class DistillationConfig(FairseqDataclass):
    """Options of ``--criterion linformer_distillation``."""

    teacher: str = field(default="???", metadata={"help": "fairseq checkpoint of the teacher"})
    hidden_weight: Optional[float] = field(
        default=None,
        metadata={
            "help": "weight of the mean squared error of hidden states (default: 1 if teacher and student have equal "
            "width and number of layers, else 0)"
        },
    )
    logits_weight: float = field(
        default=1.0,
        metadata={"help": "weight of the KL divergence of predictions (mean squared error with --regression-target)"},
    )
    task_weight: float = field(default=1.0, metadata={"help": "weight of the task's loss"})
    temperature: float = field(default=1.0, metadata={"help": "temperature of the logits, above 0"})
    unmasked: bool = field(
        default=False,
        metadata={
            "help": "masked_lm: read the text without masks and learn hidden states only; needs --logits-weight 0 and "
            "--task-weight 0"
        },
    )
    short_seq_prob: float = field(
        default=0.0,
        metadata={
            "help": "with --unmasked: probability that a training batch is split into blocks of n/2, n/4, ... tokens, "
            "at least 16, to learn short inputs too; blocks of fewer than 32 tokens are not split"
        },
    )
    classification_head_name: str = field(
        default="sentence_classification_head", metadata={"help": "name of the classification head, of both models"}
    )
    regression_target: bool = field(default=False, metadata={"help": "sentence_prediction: the target is a score"})


@register_criterion("linformer_distillation", dataclass=DistillationConfig)
class DistillationCriterion(FairseqCriterion):
    """Weighted sum of two distillation losses and the task's loss.

    Raises:
        ValueError: an option is missing or out of range, or the teacher does not fit the task.
    """

    def __init__(self, cfg: DistillationConfig, task: Any):
        super().__init__(task)
        _check_options(cfg)
        if not isinstance(task, (MaskedLMTask, SentencePredictionTask)):
            raise ValueError(f"task must be masked_lm or sentence_prediction, got {type(task).__name__}")
        self.is_classifier = isinstance(task, SentencePredictionTask)
        self.is_regression = cfg.regression_target
        if cfg.unmasked and self.is_classifier:
            raise ValueError("unmasked must be False with sentence_prediction, which has no masks, got True")
        if cfg.regression_target and not self.is_classifier:
            raise ValueError("regression_target must be False with masked_lm, whose targets are tokens, got True")
        if cfg.short_seq_prob and task.cfg.skip_masking:
            raise ValueError("skip_masking must be False with short_seq_prob, which draws lengths from masks, got True")
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

        Raises:
            ValueError: as ``choose_weights``.
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
            terms["logits"] = self._logits_loss(output, expected)
        log: dict[str, Any] = {"ntokens": sample["ntokens"], "nsentences": sample["nsentences"]}
        if weights["task"]:
            targets = self._select_targets(sample)
            terms["task"] = self._task_loss(output, targets)
            if not self.is_classifier:
                log["npredicted"] = len(targets)
            elif not self.is_regression:
                log["ncorrect"] = (output.argmax(-1) == targets).sum()
        # Zero times the output, so that every parameter behind it has a gradient.
        loss = sum((weights[name] * value for name, value in terms.items()), output.float().sum() * 0) * sample_size
        log |= {f"{name}_loss": value.detach() * sample_size for name, value in terms.items()}
        log |= {"loss": loss.detach(), "sample_size": sample_size}
        return loss, sample_size, log

    def _logits_loss(self, output: Tensor, expected: Tensor) -> Tensor:
        if not len(output):  # no token of the batch is masked: all workers log, and reduce, the same terms
            return output.float().sum()
        if self.is_regression:
            return F.mse_loss(output.float(), expected.float())
        return logits_loss(output, expected, self.cfg.temperature)

    def _task_loss(self, output: Tensor, targets: Tensor) -> Tensor:
        if not len(output):
            return output.float().sum()
        if self.is_regression:
            return F.mse_loss(output.view(-1).float(), targets.float())
        return F.cross_entropy(output.float(), targets)

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

    def _select_targets(self, sample: dict[str, Any]) -> Tensor:
        """The classes or scores (B,), or the masked tokens."""
        target: Tensor = sample["target"]
        return target.view(-1) if self.is_classifier else target[target.ne(self.padding_idx)]

    def choose_weights(self, model: Any) -> dict[str, float]:
        """The weight of each term for a student.

        Raises:
            ValueError: it has another shape than the teacher, and the weights do not allow that.
        """
        encoder = model.encoder.sentence_encoder
        shape = len(encoder.layers), encoder.embed_tokens.embedding_dim
        expected = self.teacher.layers, self.teacher.width
        shapes = (
            f"the student has {shape[0]} layers of width {shape[1]}, the teacher {expected[0]} of width {expected[1]}"
        )
        hidden = self.cfg.hidden_weight
        if hidden is None:
            hidden = float(shape == expected)
        elif hidden and shape != expected:
            raise ValueError(f"hidden_weight must be 0 for models of different shapes ({shapes}), got {hidden}")
        if hidden and (layerdrop := _get_layerdrop(encoder)):
            raise ValueError(
                f"encoder_layerdrop must be 0 with hidden_weight above 0, which compares every layer, got {layerdrop}"
            )
        weights = {"hidden": hidden, "logits": self.cfg.logits_weight, "task": self.cfg.task_weight}
        if not any(weights.values()):
            if self.cfg.unmasked:
                raise ValueError(f"unmasked needs a student of the teacher's shape, but {shapes}")
            raise ValueError(
                "logits_weight or task_weight must be above 0, because hidden states of different shapes are not "
                f"compared ({shapes}), got 0 for both"
            )
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


def _check_options(cfg: DistillationConfig) -> None:
    if OmegaConf.is_config(cfg) and OmegaConf.is_missing(cfg, "teacher"):
        raise ValueError("teacher must be a fairseq checkpoint; pass --teacher, or criterion.teacher in YAML")
    weights = {f"{name}_weight": getattr(cfg, f"{name}_weight") for name in TERMS}
    for name, value in weights.items():
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a finite number, at least 0, got {value}")
    if not any(value is None or value > 0 for value in weights.values()):
        raise ValueError("hidden_weight, logits_weight or task_weight must be above 0, got 0 for all")
    if not 0 < cfg.temperature < math.inf:
        raise ValueError(f"temperature must be a finite number above 0, got {cfg.temperature}")
    if cfg.temperature != 1 and (cfg.logits_weight == 0 or cfg.regression_target):
        raise ValueError(f"temperature must be 1 if logits_weight is 0 or the target is a score, got {cfg.temperature}")
    if not 0 <= cfg.short_seq_prob < 1:
        raise ValueError(f"short_seq_prob must be in [0, 1), got {cfg.short_seq_prob}")
    if cfg.short_seq_prob and not cfg.unmasked:
        raise ValueError(
            f"short_seq_prob must be 0 without unmasked, since short blocks lose their masks, got {cfg.short_seq_prob}"
        )
    if cfg.unmasked and (cfg.logits_weight or cfg.task_weight):
        raise ValueError(
            "logits_weight and task_weight must be 0 with unmasked, which has no masked tokens to predict, got "
            f"{cfg.logits_weight} and {cfg.task_weight}"
        )


def _get_layerdrop(encoder: Any) -> float:
    """LayerDrop of a Linformer's encoder, or of fairseq's."""
    config = getattr(encoder, "config", None)
    return float(getattr(config, "layerdrop", 0.0) if config else getattr(encoder, "encoder_layerdrop", 0.0))
