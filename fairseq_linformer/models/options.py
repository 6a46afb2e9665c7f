"""The options of ``linformer_roberta``, the same for ``fairseq-train`` flags and YAML.

An option that is left out is None here and takes the value of the architecture; that
happens once, in ``resolve``, so that ``--arch linformer_roberta_large`` and
``model: {_name: linformer_roberta_large}`` mean the same.
"""

import math
from argparse import Namespace
from dataclasses import dataclass, field, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import DEFAULT_MIN_PARAMS_TO_WRAP
from omegaconf import ListConfig, OmegaConf

from ..config import ACTIVATIONS, PROJECTIONS, SHARING, STARTS, LinformerConfig
from ..projected_dim import parse, short_form
from . import authors, compiling


def option(help: str, default: Any = None) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass
class LinformerRobertaConfig(FairseqDataclass):
    """RoBERTa's options, and the Linformer's."""

    projected_dim: Any = option(
        "k: positions that keys and values are projected to; a number, or one for each layer as in 256x4,128x8, "
        "or with sharing none one for each head as in 128/64/64/32x2,64x10"
    )
    sharing: Optional[ChoiceEnum(SHARING)] = option(
        "which layers and heads share a projection: none (E and F for each head), headwise (for each "
        "layer; the default), key-value (one E = F for each layer), layerwise (one for the model)"
    )
    projection: ChoiceEnum(PROJECTIONS) = option(
        "what E and F are: linear maps, pooling or convolution of windows of n / k positions, or a fixed random matrix",
        LinformerConfig.projection,
    )
    projection_init: Optional[ChoiceEnum(STARTS["linear"])] = option(
        "how E and F start: average (of windows); staggered (windows half a window later in every second layer, those "
        "of keys overlap; the default where a layer has its own linear E); normal (of standard deviation 0.02, as the "
        "authors'); xavier; jl (of variance 1/k)"
    )
    projection_lr_scale: Optional[float] = option(
        "learning rate of E and F relative to the other weights, above 0 and at most 1 (default: 16 / n, for conv 16 / window; at most 1)"
    )
    freeze_projections: bool = option("do not train E and F", False)
    resize_checkpoint: bool = option(
        "load a checkpoint of another max_positions or projected_dim too, as `fairseq-linformer convert resize` would", False
    )
    compressed: Optional[int] = option("authors' plugin: projected_dim is max_positions divided by this, rounded down")
    shared_kv_compressed: Optional[int] = option("authors' plugin: 1 is sharing key-value")
    shared_layer_kv_compressed: Optional[int] = option("authors' plugin: 1 is sharing layerwise")
    freeze_compress: Optional[int] = option("authors' plugin: 1 is freeze_projections")

    encoder_layers: Optional[int] = option("num encoder layers")
    encoder_embed_dim: Optional[int] = option("encoder embedding dimension")
    encoder_ffn_embed_dim: Optional[int] = option("encoder embedding dimension for FFN")
    encoder_attention_heads: Optional[int] = option("num encoder attention heads")
    activation_fn: ChoiceEnum(ACTIVATIONS) = option("activation function to use", "gelu")
    pooler_activation_fn: ChoiceEnum(ACTIVATIONS) = option(
        "activation function to use for pooler layer", "tanh"
    )
    encoder_normalize_before: bool = option("apply layernorm before each encoder block", False)
    # None and not True: fairseq makes of a bool that is True a flag that switches it off.
    layernorm_embedding: Optional[bool] = option(
        "add layernorm to embedding (on unless YAML says false)"
    )
    dropout: float = option("dropout probability", 0.1)
    attention_dropout: float = option("dropout probability for attention weights", 0.1)
    activation_dropout: float = option("dropout probability after activation in FFN", 0.0)
    pooler_dropout: float = option("dropout probability in the masked_lm pooler layers", 0.0)
    max_positions: Optional[int] = option(
        "n: positions of the longest input, columns of E and F (default: the task's length)"
    )
    load_checkpoint_heads: bool = option(
        "(re-)register and load heads when loading checkpoints", False
    )
    untie_weights_roberta: bool = option(
        "Untie weights between embeddings and classifiers in RoBERTa", False
    )
    encoder_layerdrop: float = option("LayerDrop probability for encoder", 0.0)
    encoder_layers_to_keep: Optional[str] = option(
        "which layers to *keep* when pruning as a comma-separated list"
    )
    quant_noise_pq: float = option("iterative PQ quantization noise at training time", 0.0)
    quant_noise_pq_block_size: int = option("block size of quantization noise at training time", 8)
    quant_noise_scalar: float = option(
        "scalar quantization noise and scalar quantization at training time", 0.0
    )
    spectral_norm_classification_head: bool = option(
        "Apply spectral normalization on the classification head", False
    )
    checkpoint_activations: bool = option("recompute activations of each layer in backward", False)
    offload_activations: bool = option(
        "keep checkpointed activations in host memory; sets --checkpoint-activations", False
    )
    compile: bool = option(
        "compile the encoder layers with PyTorch's compiler; the first batches take minutes, checkpoints are the same", False
    )
    min_params_to_wrap: int = option(
        "minimum number of params for a layer to be wrapped with FSDP() when training with "
        "--ddp-backend=fully_sharded; 0 with --checkpoint-activations",
        DEFAULT_MIN_PARAMS_TO_WRAP,
    )
    mha_reg_scale_factor: float = option(
        "scaling factor for regularization of attention heads, in sentence_prediction", 0.0
    )
    ffn_reg_scale_factor: float = option("scaling factor for regularization of FFN units, in sentence_prediction", 0.0)
    mha_heads_to_keep: int = option("pruning of heads is not supported; only -1, keep all", -1)
    ffn_blocks_to_remove: int = option("pruning of FFN units is not supported; only -1, keep all", -1)


def _architecture(layers: int, embed_dim: int, heads: int, projected_dim: int) -> dict:
    return {
        "encoder_layers": layers,
        "encoder_embed_dim": embed_dim,
        "encoder_ffn_embed_dim": 4 * embed_dim,
        "encoder_attention_heads": heads,
        "projected_dim": projected_dim,
        "layernorm_embedding": True,
    }


# k = 256 is the paper's larger choice at n = 512 (Table 2). The two small ones train on
# a CPU: k = 32 is half of n = 64, k = 64 half of n = 128.
ARCHITECTURES = {
    "linformer_roberta": _architecture(12, 768, 12, 256),
    "linformer_roberta_base": _architecture(12, 768, 12, 256),
    "linformer_roberta_large": _architecture(24, 1024, 16, 256),
    "linformer_roberta_mini": _architecture(4, 256, 4, 64),
    "linformer_roberta_tiny": _architecture(2, 128, 4, 32),
}


def resolve(cfg: Any, task_positions: Any) -> Namespace:
    """Every option with its value: what ``cfg`` says, else the architecture, else the default.

    Args:
        cfg: a Namespace or DictConfig with some of the options and ``_name`` or ``arch``.
        task_positions: the length of the task's samples; None if it has none.

    Raises:
        ValueError: the architecture is unknown, an option of the authors' plugin contradicts
            another, pruning is asked for, lengths, layers or block sizes do not fit, or no length
            is given at all.
    """
    arch = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    if arch not in ARCHITECTURES:
        raise ValueError(f"the architecture is {arch!r}; it must be one of {', '.join(ARCHITECTURES)}")
    args = Namespace(arch=arch)
    for f in fields(LinformerRobertaConfig):
        if f.name.startswith("_"):
            continue
        value = getattr(cfg, f.name, None)
        if isinstance(value, ListConfig):
            value = OmegaConf.to_container(value)
        if value is None and f.name not in ("projected_dim", "sharing"):
            value = ARCHITECTURES[arch].get(f.name, f.default)
        setattr(args, f.name, getattr(value, "value", value))  # a choice in YAML is an Enum
    if args.max_positions is None:
        args.max_positions = task_positions
    args.translated = None
    if args.max_positions is not None:
        args.translated = authors.translate(args)
    args.sharing = args.sharing or LinformerConfig.sharing
    if args.projected_dim is None:
        args.projected_dim = ARCHITECTURES[arch]["projected_dim"]
    args.checkpoint_activations = args.checkpoint_activations or args.offload_activations
    _check(args, task_positions)
    return args


def _check(args: Namespace, task_positions: Any) -> None:
    if args.max_positions is None:
        raise ValueError("max_positions is not given, and the task has no length to take it from")
    if isinstance(task_positions, int) and task_positions > args.max_positions:
        raise ValueError(
            f"max_positions is {args.max_positions}, and the task makes samples of up to {task_positions} "
            "tokens (tokens_per_sample); they must be at most max_positions long"
        )
    for name in ("mha_heads_to_keep", "ffn_blocks_to_remove"):
        if getattr(args, name) != -1:
            raise ValueError(
                f"{name} is {getattr(args, name)}; linformer_roberta does not prune heads or FFN units, "
                "only -1 is allowed"
            )
    for name in ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads",
                 "quant_noise_pq_block_size"):  # fmt: skip
        if getattr(args, name) < 1:
            raise ValueError(f"{name} is {getattr(args, name)}; it must be at least 1")
    for name in ("pooler_dropout", "encoder_layerdrop", "quant_noise_pq", "quant_noise_scalar"):
        if not 0 <= getattr(args, name) < 1:
            raise ValueError(f"{name} is {getattr(args, name)}; it must be in [0, 1)")
    for name in ("mha_reg_scale_factor", "ffn_reg_scale_factor"):
        if not 0 <= getattr(args, name) < math.inf:
            raise ValueError(f"{name} is {getattr(args, name)}; it must be 0 or more")
    if args.encoder_embed_dim % args.encoder_attention_heads:
        raise ValueError(
            f"encoder_attention_heads is {args.encoder_attention_heads}; it must divide encoder_embed_dim, "
            f"which is {args.encoder_embed_dim}"
        )
    args.projected_dim = short_form(parse(args.projected_dim, args.encoder_layers, args.encoder_attention_heads))
    _check_quantisation_noise(args)
    compiling.check(args)
    if args.encoder_layers_to_keep:
        _check_layers_to_keep(args)


def _check_quantisation_noise(args: Namespace) -> None:
    if args.quant_noise_pq == 0:
        return
    for name in ("encoder_embed_dim", "encoder_ffn_embed_dim"):
        if getattr(args, name) % args.quant_noise_pq_block_size:
            raise ValueError(
                f"quant_noise_pq_block_size is {args.quant_noise_pq_block_size}; it must divide "
                f"{name}, which is {getattr(args, name)}"
            )
    if args.checkpoint_activations:
        # fairseq's noise overwrites the weights; the recomputation would draw it a second time.
        raise ValueError(
            f"quant_noise_pq is {args.quant_noise_pq} and checkpoint_activations is on; only one of them can be"
        )


def _check_layers_to_keep(args: Namespace) -> None:
    """Also set ``encoder_layers`` to how many are left, and remember how many there were;
    ``projected_dim`` is for all those that there were."""
    parts = args.encoder_layers_to_keep.split(",")
    allowed = [str(i) for i in range(args.encoder_layers)]
    if not all(part in allowed for part in parts) or parts != sorted(set(parts), key=int):
        raise ValueError(
            f"encoder_layers_to_keep is {args.encoder_layers_to_keep!r}; it must be different layers between 0 "
            f"and {args.encoder_layers - 1} in rising order, separated by commas"
        )
    dims = parse(args.projected_dim, args.encoder_layers, args.encoder_attention_heads)
    args.projected_dim = short_form([dims[int(part)] for part in parts])
    args.encoder_layers_before = args.encoder_layers
    args.encoder_layers = len(parts)


def as_options(args: Namespace) -> dict:
    """All options of the model by name, as a configuration holds them."""
    return {f.name: getattr(args, f.name) for f in fields(LinformerRobertaConfig) if not f.name.startswith("_")}


_NAMES = {
    "layers": "encoder_layers",
    "embed_dim": "encoder_embed_dim",
    "ffn_embed_dim": "encoder_ffn_embed_dim",
    "attention_heads": "encoder_attention_heads",
    "normalize_before": "encoder_normalize_before",
    "layerdrop": "encoder_layerdrop",
}
"""Fields of LinformerConfig whose options have another name."""


def from_linformer_config(config: LinformerConfig) -> dict:
    """The options that a shape of the modules stands for."""
    known = LinformerRobertaConfig.__dataclass_fields__
    values = {_NAMES.get(f.name, f.name): getattr(config, f.name) for f in fields(LinformerConfig)}
    return {name: value for name, value in values.items() if name in known}


def to_linformer_config(args: Namespace, vocab_size: int, padding_idx: int) -> LinformerConfig:
    """The shape of the modules that these options ask for."""
    names = {f.name: _NAMES.get(f.name, f.name) for f in fields(LinformerConfig)}
    shape = {field: getattr(args, option) for field, option in names.items() if hasattr(args, option)}
    return LinformerConfig(**{**shape, "vocab_size": vocab_size, "padding_idx": padding_idx})
