"""Reads the numbers of a pretraining run from its configuration."""

import math
import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from omegaconf import DictConfig, OmegaConf
from torch._subclasses import FakeTensorMode

from ..benchmark.formulas import Batch, PlannedModel
from ..config import LinformerConfig
from ..models.dictionaries import read_masked_lm_dictionary
from ..models.options import ARCHITECTURES, OPTION_NAMES, resolve_options, to_linformer_config
from ..models.shapes import PADDING_IDX
from ..models.stub_task import StubTask
from .compose import compose_config

VOCAB_SIZE = 50265
"""Size of RoBERTa's dictionary, with <mask>."""
ROBERTA_ARCHITECTURES = ("roberta", "roberta_base", "roberta_large", "roberta_prenorm", "roberta_eps")
"""fairseq's RoBERTa, and ``roberta_eps`` of this plugin; each has a default for every option."""
UNSUPPORTED_MODEL_OPTIONS = """
    quant_noise_pq quant_noise_scalar encoder_layers_to_keep offload_activations encoder_layerdrop adaptive_input
    no_token_positional_embeddings
""".split()
UNSUPPORTED_OPTIONS = """
    ema.store_ema optimizer.fp16_adam_stats common.tpu distributed_training.gradient_as_bucket_view
    distributed_training.cpu_offload distributed_training.pipeline_model_parallel
""".split()
"""Options that the formulas do not cover."""
SUPPORTED_VALUES = {
    "task._name": ("masked_lm",),
    "optimizer._name": ("adam",),
    "distributed_training.ddp_backend": ("c10d", "pytorch_ddp", "legacy_ddp", "no_c10d"),
    "distributed_training.zero_sharding": ("none",),
}
"""Values of other options that the formulas cover."""


@dataclass(frozen=True)
class PlannedRun:
    """A pretraining run."""

    architecture: str
    model: PlannedModel
    positions: int
    """n (``tokens_per_sample``)."""
    num_masked: int
    """Masked tokens per sequence, rounded up."""
    sequences: int
    """Sequences per GPU and micro-batch (``batch_size``, ``max_tokens``)."""
    max_tokens: int | None
    """Limit of tokens per micro-batch (``max_tokens``)."""
    batch_multiple: int
    """Larger batches have a multiple of this many sequences (``required_batch_size_multiple``)."""
    update_freq: int
    gpus: int
    updates: int
    warmup: int
    precision: str
    checkpoint_activations: bool
    ddp: str
    bucket_mb: int
    cpu: bool

    @property
    def sequences_per_update(self) -> int:
        return self.sequences * self.update_freq * self.gpus

    @property
    def tokens_per_update(self) -> int:
        return self.sequences_per_update * self.positions

    def accepts_batch(self, sequences: int) -> bool:
        """Whether fairseq builds batches of this size; with a multiple of 8 it reduces 12 sequences to 8."""
        return sequences < self.batch_multiple or sequences % self.batch_multiple == 0

    def batch(self, sequences: int) -> Batch:
        return Batch(sequences, self.positions, self.num_masked)


def read_run(config, overrides: Sequence[str] = (), vocab_size: int | None = None) -> PlannedRun:
    """Compose a configuration and read its numbers.

    Args:
        config: a YAML, or an override of the ``base.yaml`` above it.
        overrides: hydra overrides.
        vocab_size: None for that of ``task.data`` if its dictionary exists, otherwise RoBERTa's.

    Raises:
        ValueError: the configuration is invalid, or the formulas do not cover it.
    """
    return build_run(compose_config(config, overrides), vocab_size)


def build_run(cfg: DictConfig, vocab_size: int | None = None) -> PlannedRun:
    """Read the numbers of a composed configuration. Raises ValueError if the formulas do not cover it."""
    _check_supported(cfg)
    n = cfg.task.tokens_per_sample
    if n < 1:
        raise ValueError(f"task.tokens_per_sample must be at least 1, got {n}")
    options: Any = OmegaConf.to_container(cfg.model, resolve=True, enum_to_str=True)
    architecture, model, resolved = build_model_shape(options, n, vocab_size or _vocab_size(cfg))
    _check_model_supported(resolved, n)
    run = PlannedRun(
        architecture=architecture,
        model=model,
        positions=n,
        num_masked=math.ceil(round(cfg.task.mask_prob * n, 6)),
        sequences=_sequences(cfg, n),
        max_tokens=cfg.dataset.max_tokens,
        batch_multiple=cfg.dataset.required_batch_size_multiple,
        update_freq=cfg.optimization.update_freq[0],
        gpus=cfg.distributed_training.distributed_world_size,
        updates=cfg.optimization.max_update,
        warmup=cfg.lr_scheduler.get("warmup_updates") or 0,
        precision=_precision(cfg),
        checkpoint_activations=bool(resolved.checkpoint_activations),
        ddp=str(cfg.distributed_training.ddp_backend),
        bucket_mb=cfg.distributed_training.bucket_cap_mb,
        cpu=bool(cfg.common.cpu),
    )
    if not run.accepts_batch(run.sequences):
        raise ValueError(
            f"dataset.batch_size must be a multiple of required_batch_size_multiple ({run.batch_multiple}; fairseq "
            f"rounds other batches down), got {run.sequences}"
        )
    return run


def build_model_shape(options: Mapping[str, Any], n: int, vocab_size: int) -> tuple[str, PlannedModel, Namespace]:
    """The name of the architecture, the model, and all its options.

    Args:
        options: the options that are set, with ``_name``.
        n: positions of the task.

    Raises:
        ValueError: the model is neither a Linformer nor RoBERTa, or an option is not allowed.
    """
    name = options.get("_name")
    if name in ARCHITECTURES:
        args = resolve_options(Namespace(**options), n)
        shape = to_linformer_config(args, vocab_size, PADDING_IDX)
        return name, PlannedModel(shape, untied=args.untie_weights_roberta), args
    if name not in ROBERTA_ARCHITECTURES:
        raise ValueError(f"unknown model {name!r}; choose from {', '.join((*ARCHITECTURES, *ROBERTA_ARCHITECTURES))}")
    args = Namespace(**{key: value for key, value in options.items() if key != "_name"})
    ARCH_CONFIG_REGISTRY[name](args)
    args.max_positions = getattr(args, "max_positions", None) or n
    args.checkpoint_activations = getattr(args, "checkpoint_activations", False)
    if args.activation_fn not in ("gelu", "relu"):
        raise ValueError(f"model.activation_fn must be gelu or relu with RoBERTa, got {args.activation_fn}")
    known = {field: getattr(args, option) for field, option in OPTION_NAMES.items() if hasattr(args, option)}
    known["projected_dim"] = 1  # ignored
    shape = LinformerConfig(vocab_size=vocab_size, padding_idx=PADDING_IDX, **known)
    return name, PlannedModel(shape, linear=False, untied=args.untie_weights_roberta), args


def count_built_parameters(cfg: DictConfig) -> int:
    """Number of trainable parameters of the model that fairseq builds, on fake tensors."""
    with FakeTensorMode():
        model = build_model(cfg.model, StubTask(VOCAB_SIZE, cfg.task.tokens_per_sample))
        return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _check_supported(cfg: DictConfig) -> None:
    for key, supported in SUPPORTED_VALUES.items():
        value = str(OmegaConf.select(cfg, key))
        if value not in supported:
            raise ValueError(f"{key} must be {' or '.join(supported)} for the planner, got {value}")
    for key in UNSUPPORTED_OPTIONS:
        if OmegaConf.select(cfg, key):
            raise ValueError(f"{key} is not supported by the planner; omit it")
    freq = cfg.optimization.update_freq
    if len(freq) != 1:
        raise ValueError(f"optimization.update_freq must be one number for the planner, got {list(freq)}")
    world = "distributed_training.distributed_world_size"
    bucket, multiple = "distributed_training.bucket_cap_mb", "dataset.required_batch_size_multiple"
    for key in ("optimization.update_freq[0]", "optimization.max_update", world, bucket, multiple):
        value = OmegaConf.select(cfg, key)
        if value < 1:
            raise ValueError(f"{key} must be at least 1, got {value}")
    if not 0 < cfg.task.mask_prob < 1:
        raise ValueError(f"task.mask_prob must be above 0 and below 1, got {cfg.task.mask_prob}")


def _check_model_supported(options: Namespace, n: int) -> None:
    for name in UNSUPPORTED_MODEL_OPTIONS:
        if value := getattr(options, name, None):
            raise ValueError(f"model.{name}={value} is not supported by the planner; omit it")
    if options.max_positions < n:
        raise ValueError(
            f"model.max_positions must be at least task.tokens_per_sample ({n}), got {options.max_positions}"
        )


def _sequences(cfg: DictConfig, n: int) -> int:
    """Sequences of n tokens per micro-batch that ``batch_size`` and ``max_tokens`` allow."""
    batch_size, max_tokens = cfg.dataset.batch_size, cfg.dataset.max_tokens
    limits = [batch_size] if batch_size else []
    limits += [max_tokens // n] if max_tokens else []
    if not limits or min(limits) < 1:
        raise ValueError(
            f"dataset.batch_size and dataset.max_tokens must allow a sequence of {n:,} tokens, "
            f"got {batch_size} and {max_tokens}"
        )
    return min(limits)


def _precision(cfg: DictConfig) -> str:
    common = cfg.common
    if common.amp:
        raise ValueError(
            "common.amp is not supported by the planner; use fp16, bf16, memory-efficient or fp32 training"
        )
    for kind in ("fp16", "bf16"):
        if common.get(f"memory_efficient_{kind}"):
            return f"memory-efficient {kind}"
    return "fp16" if common.fp16 else "bf16" if common.bf16 else "fp32"


def _vocab_size(cfg: DictConfig) -> int:
    """Size of the dictionary of ``task.data`` if it exists, otherwise of RoBERTa's."""
    if OmegaConf.is_missing(cfg.task, "data"):
        return VOCAB_SIZE
    path = Path(str(cfg.task.data).split(os.pathsep)[0]) / "dict.txt"
    if not path.is_file():
        return VOCAB_SIZE
    return len(read_masked_lm_dictionary(path))
