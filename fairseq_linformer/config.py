"""The shape of a Linformer: one dataclass, checked once, read everywhere.

Letters: n = ``max_positions`` and k = ``projected_dim`` as in the paper, d = ``embed_dim``
(its d_m), H = ``attention_heads`` (its h), d_h = d / H (its d_k).
"""

from dataclasses import dataclass

SHARING = ("none", "headwise", "key-value", "layerwise")
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
    projected_dim: int = 256
    """k: the rows of E and F, 1 <= k <= n."""
    sharing: str = "headwise"
    """Which layers and heads use the same matrix: ``none`` (an E and an F for each head),
    or, named as in section 4 of the paper, ``headwise`` (an E and an F for each layer),
    ``key-value`` (one E = F for each layer) or ``layerwise`` (one for the model)."""
    projection_lr_scale: float = 0.0625
    """Learning rate of E and F relative to that of the other weights; for which
    optimizers it is that, see ``modules/projection.py``."""
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
            "vocab_size", "max_positions", "projected_dim", "layers", "embed_dim",
            "ffn_embed_dim", "attention_heads",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.projected_dim > self.max_positions:
            raise ValueError(
                f"projected_dim is {self.projected_dim}; it must be between 1 and "
                f"max_positions, which is {self.max_positions}"
            )
        if self.embed_dim % self.attention_heads:
            raise ValueError(
                f"attention_heads is {self.attention_heads}; it must divide embed_dim, "
                f"which is {self.embed_dim}"
            )
        for name, allowed in (("sharing", SHARING), ("activation_fn", ACTIVATIONS)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}"
                )
        for name in ("dropout", "attention_dropout", "activation_dropout", "layerdrop"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be in [0, 1)")
        # Below 1e-4 the parameter E / scale would not fit half precision, which ends at 65,504.
        if not 1e-4 <= self.projection_lr_scale <= 1:
            raise ValueError(
                f"projection_lr_scale is {self.projection_lr_scale}; it must be in [0.0001, 1]; "
                "to keep E and F as they are, use freeze_projections"
            )
        if not 0 <= self.padding_idx < self.vocab_size:
            raise ValueError(
                f"padding_idx is {self.padding_idx}; it must be an entry of the dictionary, "
                f"0 to {self.vocab_size - 1}"
            )
        if self.offload_activations:
            self.checkpoint_activations = True
