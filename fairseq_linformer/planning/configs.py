"""A YAML for ``fairseq-hydra-train`` in numbers; it is composed as fairseq composes it."""

import logging
import math
import os
import warnings
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from fairseq.dataclass.initialize import add_defaults, hydra_init
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch._subclasses import FakeTensorMode

from ..config import LinformerConfig
from ..models.bare_task import BareTask
from ..models.options import ARCHITECTURES, OPTION_NAMES, resolve, to_linformer_config
from ..models.shapes import PADDING_IDX
from .formulas import Batch, Model

VOCABULARY = 50265
"""Entries of RoBERTa's dictionary, with <mask>."""
ROBERTA = ("roberta", "roberta_base", "roberta_large", "roberta_prenorm")
"""Architectures of fairseq's own RoBERTa; fairseq has a default for each of their options."""
MODEL_UNKNOWN = ("quant_noise_pq", "quant_noise_scalar", "encoder_layers_to_keep", "offload_activations",
                 "encoder_layerdrop", "adaptive_input", "no_token_positional_embeddings")  # fmt: skip
UNKNOWN = ("ema.store_ema", "optimizer.fp16_adam_stats", "common.tpu", "distributed_training.gradient_as_bucket_view",
           "distributed_training.cpu_offload", "distributed_training.pipeline_model_parallel")  # fmt: skip
"""Options that the formulas do not cover, of the model and of the rest."""
KNOWN = {
    "task._name": ("masked_lm",),
    "optimizer._name": ("adam",),
    "distributed_training.ddp_backend": ("c10d", "pytorch_ddp", "legacy_ddp", "no_c10d", "fully_sharded"),
    "distributed_training.zero_sharding": ("none",),
}
"""Of other options, the values that they cover."""


@dataclass(frozen=True)
class Run:
    """A pretraining run."""

    architecture: str
    model: Model
    positions: int
    """n of a sequence (``tokens_per_sample``)."""
    masked: int
    """Masked tokens of a sequence, rounded up."""
    sequences: int
    """On a GPU at once (``batch_size``)."""
    multiple: int
    """fairseq makes larger batches of a multiple of this many sequences (``required_batch_size_multiple``)."""
    update_freq: int
    gpus: int
    updates: int
    warmup: int
    precision: str
    checkpointed: bool
    ddp: str
    bucket_mb: int
    wrap_from: int
    """Parameters from which on fully sharded data parallelism wraps a layer."""
    cpu: bool

    @property
    def sequences_of_update(self) -> int:
        return self.sequences * self.update_freq * self.gpus

    @property
    def tokens_of_update(self) -> int:
        return self.sequences_of_update * self.positions

    @property
    def sharded(self) -> bool:
        return self.ddp == "fully_sharded"

    def allows(self, sequences: int) -> bool:
        """fairseq makes batches of so many sequences; with a multiple of 8 it makes 8 of 12."""
        return sequences < self.multiple or sequences % self.multiple == 0

    def batch(self, sequences: int) -> Batch:
        return Batch(sequences, self.positions, self.masked)


def split_config(config) -> Tuple[Path, List[str]]:
    """The base YAML, and the override that chooses ``config`` if it is a file in a folder of overrides beside it.

    Raises:
        ValueError: there is no such file.
    """
    path = Path(config)
    if not path.is_file() or path.suffix != ".yaml":
        beside = sorted(p.name for p in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        example = "configs/pretrain/base.yaml is one"
        known = f"in {path.parent} there are {', '.join(beside)}" if beside else example
        raise ValueError(f"there is no configuration {config}; {known}")
    base = path.parent.parent / "base.yaml"
    if path.name != "base.yaml" and base.is_file():
        return base, [f"+{path.parent.name}={path.stem}"]
    return path, []


def compose_config(config, overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration as fairseq-hydra-train would have it.

    Raises:
        ValueError: a file, a key or a value is not what it must be; in one sentence.
    """
    base, chosen = split_config(config)
    logging.getLogger("hydra").setLevel(logging.WARNING)
    hydra_init(base.stem)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(base.parent.absolute()), version_base="1.1"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # hydra's, about how fairseq registers its schema
            cfg = compose(base.stem, [*chosen, *overrides])
        if cfg.model is None:
            raise ValueError(f"{config} names no model; model._name is wanted")
        add_defaults(cfg)
    except (HydraException, OmegaConfBaseException) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        name = f"{config} {' '.join(overrides)}".strip()
        if len(name) > 200:
            name = f"{Path(config).name} with {len(overrides)} overrides"
        raise ValueError(f"{name}: {'; '.join(lines[:2])}") from None
    return cfg


def read_run(config, overrides: Sequence[str] = (), vocabulary: Optional[int] = None) -> Run:
    """
    Args:
        config: a YAML, or an override of the ``base.yaml`` above it.
        overrides: as hydra's.
        vocabulary: entries of the dictionary; None for those of ``task.data`` if it is there, else RoBERTa's.

    Raises:
        ValueError: as ``compose_config``; or it asks for something that cannot be planned.
    """
    return run_of(compose_config(config, overrides), vocabulary)


def run_of(cfg: DictConfig, vocabulary: Optional[int] = None) -> Run:
    """A composed configuration in numbers."""
    _refuse(cfg)
    n = cfg.task.tokens_per_sample
    options = OmegaConf.to_container(cfg.model, resolve=True, enum_to_str=True)
    architecture, model, resolved = model_of_options(options, n, vocabulary or _vocabulary(cfg))
    _refuse_of_model(resolved, n)
    run = Run(
        architecture=architecture,
        model=model,
        positions=n,
        masked=math.ceil(round(cfg.task.mask_prob * n, 6)),
        sequences=_sequences(cfg, n),
        multiple=cfg.dataset.required_batch_size_multiple,
        update_freq=cfg.optimization.update_freq[0],
        gpus=cfg.distributed_training.distributed_world_size,
        updates=cfg.optimization.max_update,
        warmup=cfg.lr_scheduler.get("warmup_updates") or 0,
        precision=_precision(cfg),
        checkpointed=bool(resolved.checkpoint_activations),
        ddp=str(cfg.distributed_training.ddp_backend),
        bucket_mb=cfg.distributed_training.bucket_cap_mb,
        wrap_from=getattr(resolved, "min_params_to_wrap", None) or 0,
        cpu=bool(cfg.common.cpu),
    )
    if not run.allows(run.sequences):
        raise ValueError(f"dataset.batch_size is {run.sequences}; fairseq would make a smaller batch, of a multiple of "
                         f"{run.multiple} sequences (required_batch_size_multiple)")  # fmt: skip
    return run


def model_of_options(options: Mapping[str, Any], n: int, vocabulary: int) -> Tuple[str, Model, Namespace]:
    """The name of the architecture, the shape, and all options of the model.

    Args:
        options: those that are set, with ``_name``.
        n: positions of the task.

    Raises:
        ValueError: it is neither a Linformer nor RoBERTa, or an option is not allowed.
    """
    name = options.get("_name")
    if name in ARCHITECTURES:
        args = resolve(Namespace(**options), n)
        shape = to_linformer_config(args, vocabulary, PADDING_IDX)
        return name, Model(shape, untied=args.untie_weights_roberta), args
    if name not in ROBERTA:
        raise ValueError(f"the model is {name!r}; it must be one of {', '.join((*ARCHITECTURES, *ROBERTA))}")
    args = Namespace(**{key: value for key, value in options.items() if key != "_name"})
    ARCH_CONFIG_REGISTRY[name](args)
    args.max_positions = getattr(args, "max_positions", None) or n
    args.checkpoint_activations = getattr(args, "checkpoint_activations", False)
    if args.activation_fn not in ("gelu", "relu"):
        raise ValueError(f"model.activation_fn is {args.activation_fn}; the planner knows gelu and relu in RoBERTa")
    known = {field: getattr(args, option) for field, option in OPTION_NAMES.items() if hasattr(args, option)}
    shape = LinformerConfig(vocab_size=vocabulary, padding_idx=PADDING_IDX, **{**known, "projected_dim": 1})  # k is not read
    return name, Model(shape, linear=False, untied=args.untie_weights_roberta), args


def count_built(cfg: DictConfig, vocabulary: int = VOCABULARY) -> int:
    """Parameters that learn in the model that fairseq builds, without memory for it."""
    with FakeTensorMode():
        model = build_model(cfg.model, BareTask(vocabulary, cfg.task.tokens_per_sample))
        return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _refuse(cfg: DictConfig) -> None:
    """Whatever the formulas do not cover."""
    for key, known in KNOWN.items():
        value = str(OmegaConf.select(cfg, key))
        if value not in known:
            raise ValueError(f"{key} is {value}; to be planned it must be {' or '.join(known)}")
    for key in UNKNOWN:
        if OmegaConf.select(cfg, key):
            raise ValueError(f"{key} is on; the planner does not know it, leave it out")
    freq = cfg.optimization.update_freq
    if len(freq) != 1:
        raise ValueError(f"optimization.update_freq is {list(freq)}; to be planned it must be one number")
    world = "distributed_training.distributed_world_size"
    for key in ("optimization.update_freq[0]", "optimization.max_update", world):
        value = OmegaConf.select(cfg, key)
        if value < 1:
            raise ValueError(f"{key} is {value}; it must be at least 1 to be planned")
    if not 0 < cfg.task.mask_prob < 1:
        raise ValueError(f"task.mask_prob is {cfg.task.mask_prob}; it must be above 0 and less than 1")


def _refuse_of_model(options: Namespace, n: int) -> None:
    for name in MODEL_UNKNOWN:
        if getattr(options, name, None):
            raise ValueError(f"model.{name} is {getattr(options, name)}; the planner does not know it, leave it out")
    if options.max_positions < n:
        raise ValueError(f"model.max_positions is {options.max_positions}; it must be at least task.tokens_per_sample, "
                         f"which is {n}")  # fmt: skip


def _sequences(cfg: DictConfig, n: int) -> int:
    """Full sequences of a micro-batch: as many as ``batch_size`` and ``max_tokens`` allow."""
    limits = [cfg.dataset.batch_size] if cfg.dataset.batch_size else []
    limits += [cfg.dataset.max_tokens // n] if cfg.dataset.max_tokens else []
    if not limits or min(limits) < 1:
        raise ValueError(f"dataset.batch_size is {cfg.dataset.batch_size} and dataset.max_tokens "
                         f"{cfg.dataset.max_tokens}; they must allow a sequence of {n:,} tokens")  # fmt: skip
    return min(limits)


def _precision(cfg: DictConfig) -> str:
    common = cfg.common
    if common.amp:
        raise ValueError("common.amp is on; to be planned it must be fp16, bf16, memory-efficient or single precision")
    for kind in ("fp16", "bf16"):
        if common.get(f"memory_efficient_{kind}"):
            return f"memory-efficient {kind}"
    return "fp16" if common.fp16 else "bf16" if common.bf16 else "fp32"


def _vocabulary(cfg: DictConfig) -> int:
    """Entries of the dictionary of the data, else of RoBERTa's."""
    if OmegaConf.is_missing(cfg.task, "data"):
        return VOCABULARY
    path = Path(str(cfg.task.data).split(os.pathsep)[0]) / "dict.txt"
    if not path.is_file():
        return VOCABULARY
    from fairseq.data import Dictionary

    dictionary = Dictionary.load(str(path))
    dictionary.add_symbol("<mask>")  # as the task does
    return len(dictionary)
