"""The options of ``linformer_roberta``, the same for ``fairseq-train`` flags and YAML.

Those of the encoder and of the classification head are generated from ``config.py``. An option that is left out is None
here and takes the value of the architecture; that happens once, in ``resolve``, so that ``--arch
linformer_roberta_large`` and ``model: {_name: linformer_roberta_large}`` mean the same.
"""

from argparse import Namespace
from dataclasses import Field, dataclass, field, fields, make_dataclass
from typing import Any, Dict, Optional, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import DEFAULT_MIN_PARAMS_TO_WRAP
from omegaconf import ListConfig, OmegaConf

from ..config import PROBABILITY, HeadConfig, LinformerConfig, check_values, setting
from ..projected_dim import parse, short_form
from . import authors, compiling
from .shapes import PADDING_IDX

# Read from the task's dictionary.
_NO_OPTIONS = ("vocab_size", "padding_idx")
_ENCODER_FIELDS = [f for f in fields(LinformerConfig) if f.name not in _NO_OPTIONS]
OPTION_NAMES = {f.name: f.metadata.get("fairseq", f.name) for f in _ENCODER_FIELDS}
"""What fairseq calls a field of ``LinformerConfig``."""


def _as_option(declared: Field) -> Tuple[str, Any, Field]:
    """A field of ``config.py`` as an option of fairseq: name, type, field."""
    choices, deferred = declared.metadata.get("choices"), declared.metadata.get("deferred")
    kind = ChoiceEnum(choices) if choices else declared.type
    default = None if deferred else declared.default
    if default is None and kind is not Any:
        kind = Optional[kind]
    return declared.metadata.get("fairseq", declared.name), kind, field(default=default, metadata=declared.metadata)


_DeclaredOptions = make_dataclass(
    "_DeclaredOptions", map(_as_option, [*_ENCODER_FIELDS, *fields(HeadConfig)]), bases=(FairseqDataclass,)
)


@dataclass
class LinformerRobertaConfig(_DeclaredOptions):
    """RoBERTa's options, and the Linformer's."""

    resize_checkpoint: bool = setting(
        False,
        "load a checkpoint of another max_positions or projected_dim too, as `fairseq-linformer convert resize` would",
    )
    compressed: Optional[int] = setting(
        None, "authors' plugin: projected_dim is max_positions divided by this, rounded down"
    )
    shared_kv_compressed: Optional[int] = setting(None, "authors' plugin: 1 is sharing key-value", choices=(0, 1))
    shared_layer_kv_compressed: Optional[int] = setting(None, "authors' plugin: 1 is sharing layerwise", choices=(0, 1))
    freeze_compress: Optional[int] = setting(None, "authors' plugin: 1 is freeze_projections", choices=(0, 1))

    load_checkpoint_heads: bool = setting(False, "(re-)register and load heads when loading checkpoints")
    untie_weights_roberta: bool = setting(False, "Untie weights between embeddings and classifiers in RoBERTa")
    encoder_layers_to_keep: Optional[str] = setting(
        None, "which layers to *keep* when pruning as a comma-separated list"
    )
    quant_noise_pq: float = setting(0.0, "iterative PQ quantization noise at training time", **PROBABILITY)
    quant_noise_pq_block_size: int = setting(8, "block size of quantization noise at training time", at_least=1)
    quant_noise_scalar: float = setting(
        0.0, "scalar quantization noise and scalar quantization at training time", **PROBABILITY
    )
    spectral_norm_classification_head: bool = setting(False, "Apply spectral normalization on the classification head")
    compile: bool = setting(
        False,
        "compile the encoder layers with PyTorch's compiler; the first batches take minutes, checkpoints are the same",
    )
    min_params_to_wrap: int = setting(
        DEFAULT_MIN_PARAMS_TO_WRAP,
        "minimum number of params for a layer to be wrapped with FSDP() when training with "
        "--ddp-backend=fully_sharded; 0 with --checkpoint-activations",
    )
    mha_reg_scale_factor: float = setting(
        0.0, "scaling factor for regularization of attention heads, in sentence_prediction", at_least=0
    )
    ffn_reg_scale_factor: float = setting(
        0.0, "scaling factor for regularization of FFN units, in sentence_prediction", at_least=0
    )
    mha_heads_to_keep: int = setting(-1, "pruning of heads is not supported; only -1, keep all", choices=(-1,))
    ffn_blocks_to_remove: int = setting(-1, "pruning of FFN units is not supported; only -1, keep all", choices=(-1,))


_OPTIONS = [f for f in fields(LinformerRobertaConfig) if not f.name.startswith("_")]


def _architecture(layers: int, embed_dim: int, heads: int, projected_dim: int) -> Dict[str, Any]:
    return {
        "encoder_layers": layers,
        "encoder_embed_dim": embed_dim,
        "encoder_ffn_embed_dim": 4 * embed_dim,
        "encoder_attention_heads": heads,
        "projected_dim": projected_dim,
        "layernorm_embedding": True,
    }


# k = 256 is the paper's larger choice at n = 512 (Table 2). The two small ones train on a CPU: k = 32 is half of n =
# 64, k = 64 half of n = 128.
ARCHITECTURES = {
    "linformer_roberta": _architecture(12, 768, 12, 256),
    "linformer_roberta_base": _architecture(12, 768, 12, 256),
    "linformer_roberta_large": _architecture(24, 1024, 16, 256),
    "linformer_roberta_mini": _architecture(4, 256, 4, 64),
    "linformer_roberta_tiny": _architecture(2, 128, 4, 32),
}


def resolve(cfg: Any, task_positions: Any = None) -> Namespace:
    """Every option with its value: the one in ``cfg``, else the architecture's, else the default.

    Args:
        cfg: a Namespace or DictConfig with some of the options and ``_name`` or ``arch``.
        task_positions: the length of the task's samples; None if it has none.

    Raises:
        ValueError: the architecture is unknown, a value is not allowed, two options contradict each other, the task's
            samples are longer than the model, or no length is given at all.
    """
    arch = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    if arch not in ARCHITECTURES:
        raise ValueError(f"the architecture is {arch!r}; it must be one of {', '.join(ARCHITECTURES)}")
    args = Namespace(arch=arch)
    for option in _OPTIONS:
        value = getattr(cfg, option.name, None)
        if isinstance(value, ListConfig):
            value = OmegaConf.to_container(value)
        if value is None and option.name not in ("projected_dim", "sharing"):  # the authors' options may provide these
            value = ARCHITECTURES[arch].get(option.name, option.default)
        setattr(args, option.name, getattr(value, "value", value))  # a choice in YAML is an Enum
    if args.max_positions is None:
        args.max_positions = task_positions
    if args.max_positions is None:
        raise ValueError("max_positions is not given, and the task has no length to take it from")
    check_values(LinformerRobertaConfig, args)
    args.translated = authors.translate(args)
    args.sharing = args.sharing or LinformerConfig.sharing
    if args.projected_dim is None:
        args.projected_dim = ARCHITECTURES[arch]["projected_dim"]
    args.checkpoint_activations = args.checkpoint_activations or args.offload_activations
    to_linformer_config(args, PADDING_IDX + 1, PADDING_IDX)  # refuses a shape that cannot be built
    args.projected_dim = short_form(parse(args.projected_dim, args.encoder_layers, args.encoder_attention_heads))
    if isinstance(task_positions, int) and task_positions > args.max_positions:
        raise ValueError(
            f"max_positions is {args.max_positions}, and the task makes samples of up to {task_positions} tokens "
            "(tokens_per_sample); they must be at most max_positions long"
        )
    _check_quantisation_noise(args)
    compiling.check(args)
    if args.encoder_layers_to_keep:
        _keep_layers(args)
    return args


def _check_quantisation_noise(args: Namespace) -> None:
    if args.quant_noise_pq == 0:
        return
    for name in ("encoder_embed_dim", "encoder_ffn_embed_dim"):
        if getattr(args, name) % args.quant_noise_pq_block_size:
            raise ValueError(
                f"quant_noise_pq_block_size is {args.quant_noise_pq_block_size}; it must divide {name}, which is "
                f"{getattr(args, name)}"
            )
    if args.checkpoint_activations:
        # fairseq's noise overwrites the weights; the recomputation would draw it a second time.
        raise ValueError(
            f"quant_noise_pq is {args.quant_noise_pq} and checkpoint_activations is on; only one of them can be"
        )


def _keep_layers(args: Namespace) -> None:
    """Set ``encoder_layers`` and ``projected_dim`` to those that are kept, and ``encoder_layers_before``."""
    parts = args.encoder_layers_to_keep.split(",")
    allowed = [str(i) for i in range(args.encoder_layers)]
    if not all(part in allowed for part in parts) or parts != sorted(set(parts), key=int):
        raise ValueError(
            f"encoder_layers_to_keep is {args.encoder_layers_to_keep!r}; it must be different layers between 0 and "
            f"{args.encoder_layers - 1} in rising order, separated by commas"
        )
    dims = parse(args.projected_dim, args.encoder_layers, args.encoder_attention_heads)
    args.projected_dim = short_form([dims[int(part)] for part in parts])
    args.encoder_layers_before = args.encoder_layers
    args.encoder_layers = len(parts)


def as_options(args: Namespace) -> Dict[str, Any]:
    """All options of the model by name, as a configuration holds them."""
    return {option.name: getattr(args, option.name) for option in _OPTIONS}


def from_linformer_config(config: LinformerConfig) -> Dict[str, Any]:
    """The options of an encoder of this shape."""
    return {option: getattr(config, name) for name, option in OPTION_NAMES.items()}


def to_linformer_config(args: Namespace, vocab_size: int, padding_idx: int) -> LinformerConfig:
    """The shape of the encoder with these options.

    Raises:
        ValueError: it cannot be built; the sentence names the option, its value and what is allowed.
    """
    shape = {name: getattr(args, option) for name, option in OPTION_NAMES.items()}
    return LinformerConfig(vocab_size=vocab_size, padding_idx=padding_idx, fairseq_names=True, **shape)
