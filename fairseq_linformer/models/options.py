"""The options of ``linformer_roberta``, the same for ``fairseq-train`` flags and YAML.

The options of the encoder and the classification head are generated from ``config.py``. An omitted option is None and
takes the architecture's value in ``resolve_options``, so that ``--arch linformer_roberta_large`` and ``model: {_name:
linformer_roberta_large}`` mean the same.
"""

from argparse import Namespace
from dataclasses import Field, dataclass, field, fields, make_dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import DEFAULT_MIN_PARAMS_TO_WRAP
from omegaconf import ListConfig, OmegaConf

from ..config import HeadConfig, LinformerConfig, check_values, format_projected_dim, setting
from . import authors_plugin
from .state_dicts import PADDING_IDX

_ENCODER_FIELDS = [f for f in fields(LinformerConfig) if f.name not in ("vocab_size", "padding_idx")]
OPTION_NAMES = {f.name: f.metadata.get("fairseq", f.name) for f in _ENCODER_FIELDS}
"""Field of ``LinformerConfig`` -> option of fairseq."""


def _to_option(declared: Field[Any]) -> tuple[str, Any, Any]:
    """Name, type and field of the fairseq option for a field of ``config.py``."""
    choices, deferred = declared.metadata.get("choices"), declared.metadata.get("deferred")
    kind: Any = ChoiceEnum(choices) if choices else declared.type
    default: Any = None if deferred else declared.default
    if default is None and kind is not Any:
        kind = Optional[kind]
    return declared.metadata.get("fairseq", declared.name), kind, field(default=default, metadata=declared.metadata)


_DeclaredOptions: Any = make_dataclass(
    "_DeclaredOptions", map(_to_option, [*_ENCODER_FIELDS, *fields(HeadConfig)]), bases=(FairseqDataclass,)
)


@dataclass
class LinformerRobertaConfig(_DeclaredOptions):
    """Options of RoBERTa and of the Linformer."""

    compressed: Optional[int] = setting(
        None, "authors' plugin: projected_dim is max_positions divided by this value, rounded down", at_least=1
    )
    shared_kv_compressed: Optional[int] = setting(None, "authors' plugin: 1 means sharing key-value", choices=(0, 1))
    shared_layer_kv_compressed: Optional[int] = setting(
        None, "authors' plugin: 1 means sharing layerwise", choices=(0, 1)
    )
    freeze_compress: Optional[int] = setting(None, "authors' plugin: 1 means freeze_projections", choices=(0, 1))

    load_checkpoint_heads: bool = setting(False, "(re-)register and load heads when loading checkpoints")
    untie_weights_roberta: bool = setting(False, "Untie weights between embeddings and classifiers in RoBERTa")
    encoder_layers_to_keep: Optional[str] = setting(
        None, "dropping layers is not supported; only none", choices=("none",)
    )
    quant_noise_pq: float = setting(0.0, "quantization noise is not supported; only 0", choices=(0,))
    quant_noise_pq_block_size: int = setting(8, "of RoBERTa's configurations; without effect")
    quant_noise_scalar: float = setting(0.0, "quantization noise is not supported; only 0", choices=(0,))
    spectral_norm_classification_head: bool = setting(
        False, "spectral normalization is not supported; only False", choices=(False,)
    )
    compile: bool = setting(
        False, "compile the encoder layers with torch.compile; the first batches take minutes, checkpoints are the same"
    )
    min_params_to_wrap: int = setting(DEFAULT_MIN_PARAMS_TO_WRAP, "of RoBERTa's configurations; no layer is wrapped")
    mha_reg_scale_factor: float = setting(
        0.0, "scaling factor for regularization of attention heads, in sentence_prediction", at_least=0
    )
    ffn_reg_scale_factor: float = setting(
        0.0, "scaling factor for regularization of FFN units, in sentence_prediction", at_least=0
    )
    mha_heads_to_keep: int = setting(-1, "pruning of heads is not supported; only -1 (keep all)", choices=(-1,))
    ffn_blocks_to_remove: int = setting(-1, "pruning of FFN units is not supported; only -1 (keep all)", choices=(-1,))


_OPTIONS = [f for f in fields(LinformerRobertaConfig) if not f.name.startswith("_")]


def _architecture(layers: int, embed_dim: int, heads: int, projected_dim: int | None, **options: Any) -> dict[str, Any]:
    return {
        "projection": LinformerConfig.projection,
        "layer_norm_eps": LinformerConfig.layer_norm_eps,
        **options,
        "encoder_layers": layers,
        "encoder_embed_dim": embed_dim,
        "encoder_ffn_embed_dim": 4 * embed_dim,
        "encoder_attention_heads": heads,
        "projected_dim": projected_dim,
        "layernorm_embedding": True,
    }


BERT_EPSILON = 1e-12
"""Of BERT's layer norms."""

# k = 256 is the paper's larger choice at n = 512 (Table 2). The two small architectures train on a CPU, with k = n / 2
# at n = 64 (k = 32) and n = 128 (k = 64).
ARCHITECTURES = {
    "linformer_roberta": _architecture(12, 768, 12, 256),
    "linformer_roberta_base": _architecture(12, 768, 12, 256),
    "linformer_roberta_large": _architecture(24, 1024, 16, 256),
    "linformer_roberta_mini": _architecture(4, 256, 4, 64),
    "linformer_roberta_tiny": _architecture(2, 128, 4, 32),
    # RoBERTa with BERT's epsilon, in checkpoints of earlier versions
    "roberta_eps": _architecture(12, 768, 12, None, projection="none", layer_norm_eps=BERT_EPSILON),
}


def resolve_options(cfg: Any, task_positions: Any = None) -> Namespace:
    """Value of every option: the one in ``cfg``, else the architecture's, else the default.

    Args:
        cfg: Namespace or DictConfig with some of the options and ``_name`` or ``arch``.
        task_positions: maximum length of the task's samples; None if unknown.
    """
    arch = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {arch!r}; choose from {', '.join(ARCHITECTURES)}")
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
        raise ValueError("max_positions must be set for a task without a maximum length, got None")
    check_values(LinformerRobertaConfig, args)
    args.encoder_layers_to_keep = None  # of "none" fairseq's RoBERTa makes one layer
    args.translated = authors_plugin.translate_options(args)
    if args.projected_dim is None and args.projection != "none":
        args.projected_dim = ARCHITECTURES[arch]["projected_dim"]
    config = to_linformer_config(args, PADDING_IDX + 1, PADDING_IDX)  # validates the shape
    args.checkpoint_activations, args.sharing = config.checkpoint_activations, config.sharing
    args.projected_dim = format_projected_dim(config.projected_dims) if config.projected_dims else None
    if isinstance(task_positions, int) and task_positions > args.max_positions:
        raise ValueError(
            f"max_positions must be at least the length of the task's samples ({task_positions}; tokens_per_sample), "
            f"got {args.max_positions}"
        )
    if args.compile and args.offload_activations:
        raise ValueError("compile must be False with offload_activations, got True")
    return args


COMPARED = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads", "sharing"),
    *("projection", "max_positions", "projected_dim", "local_window", "activation_fn", "encoder_normalize_before"),
    *("layer_norm_eps", "untie_weights_roberta"),
)
"""Options that a checkpoint and the model that loads it must share."""


def check_checkpoint_options(options: dict[str, Any], ours: Namespace) -> None:
    """Raise ValueError unless the options of a checkpoint are those of the model that loads it.

    fairseq compares shapes only, which do not show, for example, the number of heads or the local window.

    Args:
        options: those that the checkpoint has.
        ours: options of the model, of ``resolve_options``.
    """
    name = options.get("_name") or options.get("arch")
    if name not in ARCHITECTURES:
        raise ValueError(
            f"the checkpoint must be of linformer_roberta, got {name}; to convert a RoBERTa checkpoint, run "
            "`fairseq-linformer convert`"
        )
    theirs = resolve_options(Namespace(**options))
    for name in COMPARED:
        found, expected = getattr(theirs, name), getattr(ours, name)
        if name in ("sharing", "untie_weights_roberta") and theirs.translated:
            continue  # version 1 of the authors' code shared less than its options say
        if found != expected:
            hint = "; `fairseq-linformer convert` changes it" if name == "max_positions" else ""
            raise ValueError(f"the checkpoint has {name} {found}, this model has {expected}; they must be equal{hint}")


def collect_options(args: Namespace) -> dict[str, Any]:
    """All options of the model, by name."""
    return {option.name: getattr(args, option.name) for option in _OPTIONS}


def from_linformer_config(config: LinformerConfig) -> dict[str, Any]:
    """Options of an encoder of this shape."""
    return {option: getattr(config, name) for name, option in OPTION_NAMES.items()}


def to_linformer_config(args: Namespace, vocab_size: int, padding_idx: int) -> LinformerConfig:
    """Shape of the encoder with these options."""
    shape = {name: getattr(args, option) for name, option in OPTION_NAMES.items()}
    return LinformerConfig(vocab_size=vocab_size, padding_idx=padding_idx, fairseq_names=True, **shape)
