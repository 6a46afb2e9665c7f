"""The shape of a Linformer: one dataclass, checked once, read everywhere.

Letters: n = ``max_positions`` and k = ``projected_dim`` as in the paper, d = ``embed_dim`` (its d_m), H =
``attention_heads`` (its h), d_h = d / H (its d_k).

Each field is declared once, with its help text, its allowed values and its names elsewhere. The options of
``fairseq-train`` and ``fairseq-hydra-train`` (``models/options.py``) and the configuration of ``transformers``
(``huggingface/configuration_linformer.py``) are generated from these fields.
"""

import math
from dataclasses import MISSING, InitVar, dataclass, field, fields
from typing import Any, List, Mapping, Optional

from .projected_dim import Dim, parse

SHARING = ("none", "headwise", "key-value", "layerwise")
PROJECTIONS = ("linear", "mean-pool", "max-pool", "conv", "random")
POOLS = ("mean-pool", "max-pool")
"""Projections without a matrix or kernel; there is nothing to share."""
STARTS = {"linear": ("average", "staggered", "normal", "xavier", "jl"), "conv": ("average", "normal")}
"""Starts of the projections that learn."""
ACTIVATIONS = ("gelu", "gelu_accurate", "gelu_fast", "linear", "relu", "tanh")


def setting(default: Any = MISSING, help: str = "", **metadata: Any) -> Any:
    """A dataclass field that documents and limits itself.

    Args:
        default: its default; without one it is required.
        help: what it means; the help text of its flag.
        metadata: ``choices``, the allowed values; ``at_least`` (inclusive) and ``below`` (exclusive), the bounds of a
            number; ``fairseq`` and ``transformers``, its names there if they differ; ``deferred``, True if fairseq
            leaves it None until the architecture, the task or another option provides the value.
    """
    return field(default=default, metadata={"help": help, **metadata})


PROBABILITY = {"at_least": 0, "below": 1}
SIZE = {"at_least": 1, "deferred": True}


def check_values(declared: Any, values: Any, names: Optional[Mapping[str, str]] = None) -> None:
    """Check each value against the limits of its field.

    Args:
        declared: the dataclass.
        values: an object with its fields as attributes; what is None or missing is not checked.
        names: what to call a field in the error, by field name.

    Raises:
        ValueError: a value is not allowed; the sentence names the field, the value and what is allowed.
    """
    for declaration in fields(declared):
        value, limits = getattr(values, declaration.name, None), declaration.metadata
        if value is None:
            continue
        name = (names or {}).get(declaration.name, declaration.name)
        choices, lowest, bound = limits.get("choices"), limits.get("at_least"), limits.get("below", math.inf)
        if choices and value not in choices:
            allowed = ", ".join(map(str, choices))
            raise ValueError(f"{name} is {value!r}; it must be {'one of ' if len(choices) > 1 else ''}{allowed}")
        if lowest is not None and not lowest <= value < bound:
            allowed = f"at least {lowest}" if bound == math.inf else f"in [{lowest}, {bound})"
            raise ValueError(f"{name} is {value}; it must be {allowed}")


@dataclass
class LinformerConfig:
    """The shape of the encoder. Fields have fairseq's names where fairseq has one, without its prefix ``encoder_``.

    Args:
        fairseq_names: call the fields by their fairseq names in errors.

    Raises:
        ValueError: a value or a combination that cannot be built; the sentence names the field, the value and what is
            allowed.
    """

    vocab_size: int = setting(help="entries of the dictionary, special symbols included", at_least=1)
    max_positions: int = setting(
        512,
        "n: positions of the longest input, columns of E and F (default: the task's length)",
        **SIZE,
        transformers="max_position_embeddings",
    )
    projected_dim: Any = setting(
        256,
        "k: positions that keys and values are projected to; a number, or one for each layer as in 256x4,128x8, "
        "or with sharing none one for each head as in 128/64/64/32x2,64x10",
        deferred=True,
    )
    """The rows of E and F, 1 <= k <= n; see ``projected_dim.py``."""
    sharing: str = setting(
        "headwise",
        "which layers and heads share a projection: none (E and F for each head), headwise (for each layer; the "
        "default), key-value (one E = F for each layer), layerwise (one for the model)",
        choices=SHARING,
        deferred=True,
    )
    """Named as in section 4 of the paper."""
    projection: str = setting(
        "linear",
        "what E and F are: linear maps, pooling or convolution of windows of n / k positions, or a fixed random matrix",
        choices=PROJECTIONS,
    )
    """Pooling and convolution are section 4's "general projections"; the random matrix is N(0, 1/k)."""
    projection_init: Optional[str] = setting(
        None,
        "how E and F start: average (of windows); staggered (windows half a window later in every second layer, those "
        "of keys overlap; the default where a layer has its own linear E); normal (of standard deviation 0.02, as the "
        "authors'); xavier; jl (of variance 1/k)",
        choices=STARTS["linear"],
    )
    """See ``modules/projection.py``; ``start`` is the resolved value."""
    projection_lr_scale: Optional[float] = setting(
        None,
        "learning rate of E and F relative to the other weights, above 0 and at most 1 "
        "(default: 16 / n, for conv 16 / window; at most 1)",
    )
    """See ``modules/rate.py``."""
    freeze_projections: bool = setting(False, "do not train E and F")

    layers: int = setting(12, "num encoder layers", **SIZE, fairseq="encoder_layers", transformers="num_hidden_layers")
    embed_dim: int = setting(
        768, "encoder embedding dimension", **SIZE, fairseq="encoder_embed_dim", transformers="hidden_size"
    )
    ffn_embed_dim: int = setting(
        3072,
        "encoder embedding dimension for FFN",
        **SIZE,
        fairseq="encoder_ffn_embed_dim",
        transformers="intermediate_size",
    )
    attention_heads: int = setting(
        12, "num encoder attention heads", **SIZE, fairseq="encoder_attention_heads", transformers="num_attention_heads"
    )
    activation_fn: str = setting("gelu", "activation function to use", choices=ACTIVATIONS, transformers="hidden_act")
    normalize_before: bool = setting(
        False, "apply layernorm before each encoder block", fairseq="encoder_normalize_before"
    )
    # Deferred because fairseq turns a bool that defaults to True into a flag that switches it off.
    layernorm_embedding: bool = setting(True, "add layernorm to embedding (on unless YAML says false)", deferred=True)

    dropout: float = setting(0.1, "dropout probability", **PROBABILITY, transformers="hidden_dropout_prob")
    attention_dropout: float = setting(
        0.1, "dropout probability for attention weights", **PROBABILITY, transformers="attention_probs_dropout_prob"
    )
    activation_dropout: float = setting(0.0, "dropout probability after activation in FFN", **PROBABILITY)
    layerdrop: float = setting(0.0, "LayerDrop probability for encoder", **PROBABILITY, fairseq="encoder_layerdrop")
    """Fan et al. 2019."""

    padding_idx: int = setting(
        1,
        "dictionary entry that pads a batch; as in fairseq the first real token has position padding_idx + 1",
        transformers="pad_token_id",
    )
    checkpoint_activations: bool = setting(False, "recompute activations of each layer in backward")
    offload_activations: bool = setting(
        False, "keep checkpointed activations in host memory; sets --checkpoint-activations"
    )
    fairseq_names: InitVar[bool] = False

    def __post_init__(self, fairseq_names: bool) -> None:
        names = {f.name: f.metadata["fairseq"] for f in fields(self) if fairseq_names and "fairseq" in f.metadata}
        check_values(LinformerConfig, self, names)
        if self.embed_dim % self.attention_heads:
            heads, width = (names.get(name, name) for name in ("attention_heads", "embed_dim"))
            raise ValueError(f"{heads} is {self.attention_heads}; it must divide {width}, which is {self.embed_dim}")
        if not 0 <= self.padding_idx < self.vocab_size:
            raise ValueError(
                f"padding_idx is {self.padding_idx}; it must be an entry of the dictionary, 0 to {self.vocab_size - 1}"
            )
        if self.offload_activations:
            self.checkpoint_activations = True
        self._check_projections()

    @property
    def projected_dims(self) -> List[Dim]:
        """k of each layer, or of each head of each layer."""
        return parse(self.projected_dim, self.layers, self.attention_heads)

    @property
    def one_for_all_layers(self) -> bool:
        """All layers use the same E."""
        return self.sharing == "layerwise" and self.projection not in POOLS

    @property
    def separate_values(self) -> bool:
        """Values have a projection F of their own."""
        return self.sharing in ("none", "headwise") and self.projection not in POOLS

    @property
    def start(self) -> str:
        """How E and F start."""
        if self.projection_init is not None:
            return self.projection_init
        return "staggered" if self.projection == "linear" and self.sharing != "layerwise" else "average"

    def _check_projections(self) -> None:
        dims = self.projected_dims
        every_k = [k for dim in dims for k in ((dim,) if isinstance(dim, int) else dim)]
        if not 1 <= min(every_k) <= max(every_k) <= self.max_positions:
            raise ValueError(
                f"projected_dim is {self.projected_dim}; it must be between 1 and max_positions, which is "
                f"{self.max_positions}"
            )
        if self.one_for_all_layers and len(set(dims)) > 1:
            raise ValueError(
                f"projected_dim is {self.projected_dim!r}; with layerwise sharing all layers have one E, "
                "and it must be one number"
            )
        if self.sharing != "none" and not all(isinstance(dim, int) for dim in dims):
            raise ValueError(
                f"projected_dim is {self.projected_dim!r}; only with sharing none can heads differ, "
                f"not with {self.sharing}"
            )
        # One E for all layers cannot begin later in every second one.
        starts = [s for s in STARTS.get(self.projection, ()) if not (s == "staggered" and self.sharing == "layerwise")]
        if self.projection_init is not None and self.projection_init not in starts:
            allowed = f"one of {', '.join(starts)}" if starts else "left out, because this kind has one start only"
            raise ValueError(
                f"projection_init is {self.projection_init!r}; with projection {self.projection} and sharing "
                f"{self.sharing} it must be {allowed}"
            )
        if self.projection_lr_scale is None:
            return
        if self.projection not in STARTS or self.freeze_projections:
            frozen = self.freeze_projections
            why = "freeze_projections is on" if frozen else f"projection {self.projection} does not learn"
            raise ValueError(f"projection_lr_scale is {self.projection_lr_scale}; {why}, and it must be left out")
        if not 0 < self.projection_lr_scale <= 1:
            raise ValueError(
                f"projection_lr_scale is {self.projection_lr_scale}; it must be above 0 and at most 1; "
                "to keep E and F as they are, use freeze_projections"
            )


@dataclass
class HeadConfig:
    """The classification head on the first position."""

    pooler_activation_fn: str = setting("tanh", "activation function to use for pooler layer", choices=ACTIVATIONS)
    pooler_dropout: float = setting(
        0.0, "dropout probability in the masked_lm pooler layers", **PROBABILITY, transformers="classifier_dropout"
    )
