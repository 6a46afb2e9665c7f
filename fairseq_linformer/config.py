"""Configuration of a Linformer encoder.

    n = max_positions and k = projected_dim as in the paper, d = embed_dim (its d_m), H = attention_heads (its h),
    d_h = d / H (its d_k)

Each field is declared once, with its help text, allowed values and names in fairseq and ``transformers``. The options
of ``fairseq-train`` and ``fairseq-hydra-train`` (``models/options.py``) and the configuration for ``transformers``
(``huggingface/configuration_linformer.py``) are generated from these fields.
"""

import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, InitVar, dataclass, field, fields
from itertools import groupby
from typing import Any, NoReturn

SHARING = ("none", "headwise", "key-value", "layerwise")
PROJECTIONS = ("linear", "mean-pool", "max-pool", "conv", "random")
POOLS = ("mean-pool", "max-pool")
"""Projections without a matrix or kernel to share."""
PROJECTION_INITS = {
    "linear": ("average", "staggered", "graded", "normal", "xavier", "jl"),
    "conv": ("average", "normal"),
}
"""Initializations of the learned projections; rows correspond to windows with those before ``normal``."""


def default_init(projection: str, sharing: str | None) -> str | None:
    """The default of ``projection_init``; None if nothing is learned."""
    if projection not in PROJECTION_INITS:
        return None
    return "staggered" if projection == "linear" and sharing != "layerwise" else "average"


PROJECTION_OPTIONS = """
    projected_dim sharing projection_init projection_lr_scale freeze_projections local_window
""".split()
"""Options that full attention does not have."""
ACTIVATIONS = ("gelu", "gelu_accurate", "gelu_fast", "linear", "relu", "tanh")
Dim = int | tuple[int, ...]
"""k of a layer, or of each head in it."""
_ITEM = re.compile(r"(\d+(?:/\d+)*)(?:x([1-9]\d*))?")
"""An entry of ``parse_projected_dim``'s notation, such as 128/64x2: the numbers, and how often they are repeated."""


def setting(default: Any = MISSING, help: str = "", **metadata: Any) -> Any:
    """A dataclass field with its documentation and allowed values.

    Args:
        default: the default; a field without one is required.
        help: help text of the option.
        metadata: ``choices``, the allowed values; ``at_least`` and ``at_most`` (inclusive), ``above`` and ``below``
            (exclusive), the bounds of a number; ``fairseq`` and ``transformers``, the names there if different;
            ``deferred``, True if fairseq leaves the option None until the architecture, the task or another option
            provides the value.
    """
    return field(default=default, metadata={"help": help, **metadata})


PROBABILITY = {"at_least": 0, "below": 1}
SIZE = {"at_least": 1, "deferred": True}
POSITIONS_LIMIT = 1 << 20
"""Largest n; E and F of a layer then have 2 GiB at k = 256."""
LAYERS_LIMIT = 1 << 10
"""Largest number of layers, so that a foreign configuration cannot make loading take hours."""


def check_values(declared: Any, values: Any, names: Mapping[str, str] | None = None) -> None:
    """Check values against the limits of the fields.

    Args:
        declared: dataclass with fields from ``setting``.
        values: object with these fields as attributes; None and missing attributes are skipped.
        names: field name to its name in error messages.

    Raises:
        ValueError: a value is not allowed; the message names the field, what is allowed and the value.
    """
    for declaration in fields(declared):
        value = getattr(values, declaration.name, None)
        if value is not None:
            check_value(declaration, value, (names or {}).get(declaration.name, declaration.name))


def check_value(declaration: Field[Any], value: Any, name: str) -> None:
    """Check a value against the limits of its field; see ``check_values``."""
    limits, kind = declaration.metadata, declaration.type
    bounds = {words: limits[words] for words in _BOUNDS if words in limits}
    if choices := limits.get("choices"):
        if value not in choices:
            _reject(name, f"one of {', '.join(map(str, choices))}", value)
    elif kind is bool:
        if not isinstance(value, bool):
            _reject(name, "true or false", value)
    elif bounds or kind in (int, float):
        if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
            _reject(name, "an integer" if kind is int else "a number", value)
        if not math.isfinite(value):
            _reject(name, "finite", value)
        if not all(_BOUNDS[words](value, bound) for words, bound in bounds.items()):
            described = (f"{words.replace('_', ' ')} {bound:,}" for words, bound in bounds.items())
            _reject(name, " and ".join(described), value)


def flag_of(name: str) -> str:
    """
    >>> flag_of("max_positions")
    '--max-positions'
    """
    return f"--{name.replace('_', '-')}"


def _reject(name: str, allowed: str, value: Any) -> NoReturn:
    raise ValueError(f"{name} must be {allowed}, got {value!r}")


_BOUNDS = {"at_least": operator.ge, "above": operator.gt, "at_most": operator.le, "below": operator.lt}


@dataclass
class LinformerConfig:
    """Shape of the encoder. Fields are named as in fairseq, without the prefix ``encoder_``.

    Args:
        fairseq_names: use fairseq's field names in error messages.

    Raises:
        ValueError: a value or combination is not allowed; the message names the field, what is allowed and the value.
    """

    vocab_size: int = setting(help="size of the dictionary, with special symbols", at_least=1)
    max_positions: int = setting(
        512,
        "n, the longest input in tokens and the number of columns of E and F (default: the task's length)",
        **SIZE,
        at_most=POSITIONS_LIMIT,
        transformers="max_position_embeddings",
    )
    projected_dim: Any = setting(
        None,
        "k, the number of positions that keys and values are projected to: one number, one per layer as in "
        "256x4,128x8, or with --sharing none one per head as in 128/64/64/32x2,64x10 (default: the architecture's)",
        deferred=True,
    )
    """Rows of E and F, 1 <= k <= n; see ``parse_projected_dim``. The default is 256."""
    sharing: str | None = setting(
        None,
        "parameter sharing of E and F: none (E and F per head), headwise (E and F per layer), key-value (one E = F per "
        "layer), layerwise (one E = F for the model) (default: headwise)",
        choices=SHARING,
        deferred=True,
    )
    """Named as in section 4 of the paper."""
    projection: str = setting(
        "linear",
        "kind of projection: linear, pooling or convolution over windows of n / k positions, a fixed random matrix, or "
        "none, which is full attention, without E and F",
        choices=(*PROJECTIONS, "none"),
        deferred=True,
    )
    """Pooling and convolution are the "general projections" of section 4; the random matrix is N(0, 1/k)."""
    projection_init: str | None = setting(
        None,
        "initialization of E and F: average (of windows); staggered (average, shifted by half a window in every second "
        "layer, with overlapping windows of keys); graded (staggered, with windows of one position for the first k / 2 "
        "positions and longer ones for the others); normal (standard deviation 0.02, as in the authors' code); "
        "xavier; jl (variance 1/k) (default: staggered if each layer has its own linear E, else average)",
        choices=PROJECTION_INITS["linear"],
    )
    """See ``modules/linear.py`` and ``resolved_init``."""
    projection_lr_scale: float | None = setting(
        None,
        "learning rate of E and F relative to that of the other weights, above 0 and at most 1 "
        "(default: 16 / n, or 16 / window length for conv, but at most 1)",
        above=0,
        at_most=1,
    )
    """See ``default_lr_scale`` in ``modules/projection.py``. Weight decay pulls E and F toward their initialization."""
    freeze_projections: bool = setting(False, "do not train E and F")
    local_window: int = setting(
        0,
        "W: each position also attends to the keys at most W positions away, in the same softmax; 0 is equation (7)",
        at_least=0,
    )
    """See ``modules/local_window.py``."""

    layers: int = setting(
        12,
        "num encoder layers",
        **SIZE,
        at_most=LAYERS_LIMIT,
        fairseq="encoder_layers",
        transformers="num_hidden_layers",
    )
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
    # Deferred because fairseq turns a bool that defaults to True into a flag that disables it.
    layernorm_embedding: bool = setting(True, "add layernorm to embedding (on unless YAML says false)", deferred=True)
    layer_norm_eps: float = setting(
        1e-5, "epsilon of the layer norms; BERT's is 1e-12", at_least=1e-15, below=1, deferred=True
    )

    dropout: float = setting(0.1, "dropout probability", **PROBABILITY, transformers="hidden_dropout_prob")
    attention_dropout: float = setting(
        0.1, "dropout probability for attention weights", **PROBABILITY, transformers="attention_probs_dropout_prob"
    )
    activation_dropout: float = setting(0.0, "dropout probability after activation in FFN", **PROBABILITY)
    layerdrop: float = setting(0.0, "LayerDrop probability for encoder", **PROBABILITY, fairseq="encoder_layerdrop")
    """Fan et al. 2019."""

    padding_idx: int = setting(
        1,
        "token ID of padding; as in fairseq, positions of real tokens start at padding_idx + 1",
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
            raise ValueError(f"{heads} must divide {width} ({self.embed_dim}), got {self.attention_heads}")
        if not 0 <= self.padding_idx < self.vocab_size:
            _reject("padding_idx", f"a token ID between 0 and {self.vocab_size - 1}", self.padding_idx)
        if self.offload_activations:
            self.checkpoint_activations = True
        if self.projection == "none":
            for name in PROJECTION_OPTIONS:
                if value := getattr(self, name):
                    _reject(name, "unset with projection 'none', which has no E and F", value)
            return
        self.projected_dim = 256 if self.projected_dim is None else self.projected_dim
        self.sharing = self.sharing or "headwise"
        self._check_projected_dim()
        self._check_projections()

    @property
    def projected_dims(self) -> list[Dim]:
        """k of each layer, or of each head in a layer; empty without projections."""
        if self.projection == "none":
            return []
        return parse_projected_dim(self.projected_dim, self.layers, self.attention_heads)

    @property
    def has_single_projection(self) -> bool:
        """All layers share one E, which also projects values."""
        return self.sharing == "layerwise" and self.projection not in POOLS

    @property
    def has_separate_values(self) -> bool:
        """Values have their own projection F."""
        return self.sharing in ("none", "headwise") and self.projection not in POOLS

    @property
    def resolved_init(self) -> str:
        """``projection_init`` or its default, of learned projections."""
        return self.projection_init or str(default_init(self.projection, self.sharing))

    def _check_projected_dim(self) -> None:
        dims = self.projected_dims
        every_k = [k for dim in dims for k in ((dim,) if isinstance(dim, int) else dim)]
        if not 1 <= min(every_k) <= max(every_k) <= self.max_positions:
            allowed = f"between 1 and max_positions ({self.max_positions})"
            raise ValueError(f"projected_dim must be {allowed}, got {self.projected_dim}")
        if self.has_single_projection and len(set(dims)) > 1:
            _reject("projected_dim", f"one number with sharing {self.sharing!r}", self.projected_dim)
        if self.sharing != "none" and not all(isinstance(dim, int) for dim in dims):
            _reject("projected_dim", f"one number per layer with sharing {self.sharing!r}", self.projected_dim)

    def _check_projections(self) -> None:
        inits = PROJECTION_INITS.get(self.projection, ())
        if self.sharing == "layerwise":  # a single E cannot be shifted in every second layer
            inits = tuple(init for init in inits if init != "staggered")
        if self.projection_init is not None and self.projection_init not in inits:
            allowed = f"one of {', '.join(inits)}" if inits else "unset"
            with_these = f"with projection {self.projection!r} and sharing {self.sharing!r}"
            _reject("projection_init", f"{allowed} {with_these}", self.projection_init)
        if self.local_window >= self.max_positions:
            _reject("local_window", f"less than max_positions ({self.max_positions})", self.local_window)
        is_trained = self.projection in PROJECTION_INITS and not self.freeze_projections
        if self.projection_lr_scale is not None and not is_trained:
            reason = "freeze_projections" if self.freeze_projections else f"projection {self.projection!r}"
            allowed = f"unset with {reason}, which does not train E and F"
            _reject("projection_lr_scale", allowed, self.projection_lr_scale)


@dataclass
class HeadConfig:
    """Configuration of the classification head, which reads the first position."""

    pooler_activation_fn: str = setting("tanh", "activation function to use for pooler layer", choices=ACTIVATIONS)
    pooler_dropout: float = setting(
        0.0, "dropout probability in the masked_lm pooler layers", **PROBABILITY, transformers="classifier_dropout"
    )


def parse_projected_dim(value: Any, layers: int, heads: int) -> list[Dim]:
    """Parse k of each layer (section 4, "nonuniform projected dimension"); an integer if its heads have the same k.

        256                     the same in all layers and heads
        256x4,128x8             256 in the first four layers, 128 in the other eight
        128/128/64/64x2,64x10   in the first two layers 128 in two heads and 64 in two, then 64
        [256, 256, 128]         one per layer, in YAML or Python
        [[128, 64], [64, 64]]   one per head and layer

    Raises:
        ValueError: the notation is invalid, or does not have one entry per layer or head.
    """
    entries = _parse_entries(value, layers + 1)
    if len(entries) == 1:
        entries = entries * layers
    if len(entries) != layers:
        _reject("projected_dim", f"one number or one for each of {layers} layers", value)
    for entry in entries:
        if len(entry) not in (1, heads):
            raise ValueError(f"projected_dim must have one number or one for each of {heads} heads, got {value!r}")
    return [entry[0] if len(set(entry)) == 1 else tuple(entry) for entry in entries]


def _parse_entries(value: Any, limit: int) -> list[list[int]]:
    """The numbers of each entry, which is repeated at most ``limit`` times."""
    if isinstance(value, str):
        items = [match for item in value.split(",") if (match := _ITEM.fullmatch(item.strip()))]
        if len(items) == value.count(",") + 1:
            repeated = [item for item in items for _ in range(min(int(item[2] or 1), limit))]
            return [[int(k) for k in item[1].split("/")] for item in repeated]
    elif _is_count(value):
        return [[value]]
    elif isinstance(value, Sequence) and value:
        entries = [list(e) if isinstance(e, Sequence) and not isinstance(e, str) else [e] for e in value]
        if all(entry and all(map(_is_count, entry)) for entry in entries):
            return entries
    _reject("projected_dim", "a number, a list of numbers or a string such as '256x4,128x8'", value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def format_projected_dim(dims: Sequence[Dim]) -> int | str:
    """The shortest notation for k of each layer; ``parse_projected_dim`` inverts it."""
    runs = [(k, len(list(run))) for k, run in groupby(dims)]
    if len(runs) == 1 and isinstance(runs[0][0], int):
        return runs[0][0]
    items = [(str(k) if isinstance(k, int) else "/".join(map(str, k)), count) for k, count in runs]
    return ",".join(item if count == 1 else f"{item}x{count}" for item, count in items)
