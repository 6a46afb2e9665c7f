"""The shape of a Linformer: one dataclass, checked once, read everywhere.

Letters: n = ``max_positions`` and k = ``projected_dim`` as in the paper, d = ``embed_dim``
(its d_m), H = ``attention_heads`` (its h), d_h = d / H (its d_k).
"""

from dataclasses import dataclass
from typing import Any, List, Optional

from .projected_dim import Dim, parse

SHARING = ("none", "headwise", "key-value", "layerwise")
PROJECTIONS = ("linear", "mean-pool", "max-pool", "conv", "random")
POOLS = ("mean-pool", "max-pool")
"""Those without a matrix or kernel; there is nothing to share."""
STARTS = {
    "linear": ("average", "staggered", "normal", "xavier", "jl"),
    "conv": ("average", "normal"),
}
"""How the kinds that learn can start."""
ACTIVATIONS = ("gelu", "gelu_accurate", "gelu_fast", "linear", "relu", "tanh")


@dataclass
class LinformerConfig:
    """What the modules need to know. Names are fairseq's where fairseq has one.

    Raises:
        ValueError: a value or a combination that cannot be built; the sentence
            names the field, the value and what is allowed.
    """

    vocab_size: int
    """Entries of the dictionary, special symbols included."""
    max_positions: int = 512
    """n: the longest input, and the columns of E and F."""
    projected_dim: Any = 256
    """k: the rows of E and F, 1 <= k <= n. A number, or a form or list with one for each layer
    or, without sharing, for each head; see ``projected_dim.py``."""
    sharing: str = "headwise"
    """Which layers and heads use the same matrix: ``none`` (an E and an F for each head),
    or, named as in section 4 of the paper, ``headwise`` (an E and an F for each layer),
    ``key-value`` (one E = F for each layer) or ``layerwise`` (one for the model)."""
    projection: str = "linear"
    """What E and F are: ``linear`` maps that are learnt, or of section 4's "general
    projections" ``mean-pool``, ``max-pool`` and ``conv`` (kernel and stride n / k), or a
    ``random`` matrix, N(0, 1/k), that stays as it is."""
    projection_init: Optional[str] = None
    """How E and F start. ``average``: as averages of windows. ``staggered``: in every second layer
    the windows begin half a window later, and where E is not F those of E overlap. ``normal``,
    ``xavier`` and ``jl``: at random; see ``modules/projection.py``. None for ``staggered`` where
    it can be, with a linear projection for each layer, else for ``average``."""
    projection_lr_scale: Optional[float] = None
    """Learning rate of E and F relative to that of the other weights; None for the rule of
    ``modules/rate.py``."""
    freeze_projections: bool = False
    """Leave E and F as they start (or as they were loaded)."""

    layers: int = 12
    embed_dim: int = 768
    ffn_embed_dim: int = 3072
    attention_heads: int = 12
    activation_fn: str = "gelu"
    normalize_before: bool = False
    """Normalise the input of each block (pre-norm) instead of its output."""
    layernorm_embedding: bool = True
    """Normalise the sum of token and position embeddings."""

    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation_dropout: float = 0.0
    layerdrop: float = 0.0
    """Probability that a layer is skipped in training (Fan et al. 2019)."""

    padding_idx: int = 1
    """Dictionary entry that pads a batch; position embeddings are counted from it, as
    in fairseq: the first real token has position ``padding_idx + 1``."""
    checkpoint_activations: bool = False
    """Recompute each layer in the backward pass instead of storing its activations."""
    offload_activations: bool = False
    """Keep what checkpointing stores in host memory. Implies ``checkpoint_activations``."""

    def __post_init__(self):
        for name in (
            "vocab_size", "max_positions", "layers", "embed_dim", "ffn_embed_dim", "attention_heads",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.embed_dim % self.attention_heads:
            raise ValueError(
                f"attention_heads is {self.attention_heads}; it must divide embed_dim, "
                f"which is {self.embed_dim}"
            )
        for name, allowed in (
            ("sharing", SHARING), ("projection", PROJECTIONS), ("activation_fn", ACTIVATIONS),
        ):  # fmt: skip
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}"
                )
        for name in ("dropout", "attention_dropout", "activation_dropout", "layerdrop"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be in [0, 1)")
        if not 0 <= self.padding_idx < self.vocab_size:
            raise ValueError(
                f"padding_idx is {self.padding_idx}; it must be an entry of the dictionary, "
                f"0 to {self.vocab_size - 1}"
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
        for k in (k for dim in dims for k in ((dim,) if isinstance(dim, int) else dim)):
            if not 1 <= k <= self.max_positions:
                raise ValueError(
                    f"projected_dim is {self.projected_dim}; it must be between 1 and "
                    f"max_positions, which is {self.max_positions}"
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
            raise ValueError(
                f"projection_init is {self.projection_init!r}; with projection {self.projection} and sharing {self.sharing} "
                "it must be " + (f"one of {', '.join(starts)}" if starts else "left out, because nothing of it is chosen")
            )
        if self.projection_lr_scale is None:
            return
        if self.projection not in STARTS or self.freeze_projections:
            why = "freeze_projections is on" if self.freeze_projections else f"projection {self.projection} does not learn"
            raise ValueError(f"projection_lr_scale is {self.projection_lr_scale}; {why}, and it must be left out")
        if not 0 < self.projection_lr_scale <= 1:
            raise ValueError(
                f"projection_lr_scale is {self.projection_lr_scale}; it must be above 0 and at most 1; "
                "to keep E and F as they are, use freeze_projections"
            )
