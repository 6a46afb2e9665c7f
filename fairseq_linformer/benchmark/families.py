"""The model families of Table 1 and later alternatives, with equal sizes and random weights.

    (B, n) tokens to (B, n, d); Reformer returns (B, n, 2 d), because its reversible layers have two streams

The recurrent model is ``torch.nn.LSTM``. BigBird, Longformer, Reformer, Nystromformer, FNet and ModernBERT come from
``transformers``.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from .encoders import build_transformer


class Recurrent(nn.Module):
    """A stack of LSTMs of width d."""

    def __init__(self, config: LinformerConfig):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.embed_dim)
        self.lstm = nn.LSTM(config.embed_dim, config.embed_dim, config.layers, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.lstm(self.embed(tokens))[0]


class EncoderFeatures(nn.Module):
    """Returns only the features of a ``LinformerEncoder``."""

    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens: Tensor) -> Tensor:
        return self.encoder(tokens, padded=False)[0]


class TransformersFeatures(nn.Module):
    """Returns the features of a ``transformers`` model, with an attention mask of ones."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        mask = {} if type(self.model).__name__ == "FNetModel" else {"attention_mask": torch.ones_like(tokens)}
        return self.model(tokens, **mask).last_hidden_state


BIGBIRD_FULL = 704
"""Up to this length BigBirdModel of ``transformers`` uses full attention: (5 + 2 random blocks) * block size."""
TRANSFORMERS_FAMILIES = ("bigbird", "longformer", "reformer", "nystromformer", "fnet", "modernbert")


def _build_transformers_family(name: str, c: LinformerConfig) -> nn.Module:
    """
    Raises:
        ImportError: ``transformers`` is not installed.
        ValueError: the family does not support this length, or computes full attention at it.
    """
    import transformers as t

    shape = dict(
        vocab_size=c.vocab_size,
        hidden_size=c.embed_dim,
        num_hidden_layers=c.layers,
        num_attention_heads=c.attention_heads,
        intermediate_size=c.ffn_embed_dim,
        max_position_embeddings=c.max_positions + 2,
        pad_token_id=1,
    )
    if name == "bigbird":  # blocks of 64 and 3 random ones
        if c.max_positions <= BIGBIRD_FULL:
            raise ValueError(
                f"n must be above {BIGBIRD_FULL} for BigBird, which uses full attention for shorter inputs, "
                f"got {c.max_positions}"
            )
        model = t.BigBirdModel(t.BigBirdConfig(**shape, attention_type="block_sparse"), add_pooling_layer=False)
    elif name == "longformer":  # windows of 512
        model = t.LongformerModel(t.LongformerConfig(**shape, attention_window=512), add_pooling_layer=False)
    elif name == "nystromformer":  # 64 landmarks
        model = t.NystromformerModel(t.NystromformerConfig(**shape, segment_means_seq_len=c.max_positions))
    elif name == "fnet":
        del shape["num_attention_heads"]
        model = t.FNetModel(t.FNetConfig(**shape), add_pooling_layer=False)
    elif name == "modernbert":
        # Layers 0, 3, 6, ... are global, the others have windows of 128. The gated feed-forward has three matrices
        # instead of two, so two thirds of f give the same number of parameters.
        shape |= dict(
            bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2, intermediate_size=2 * c.ffn_embed_dim // 3
        )
        model = t.ModernBertModel(t.ModernBertConfig(**shape, reference_compile=False))
    else:
        model = t.ReformerModel(_reformer(c, t))
    return TransformersFeatures(model)


def _reformer(c: LinformerConfig, t):
    """Alternating local and LSH attention, as by default, and axial position embeddings."""
    side = 2 ** (c.max_positions.bit_length() // 2)
    if c.max_positions % side:
        raise ValueError(f"n must be a multiple of {side} for Reformer's axial positions, got {c.max_positions}")
    return t.ReformerConfig(
        attn_layers=[("local", "lsh")[i % 2] for i in range(c.layers)],
        hidden_size=c.embed_dim,
        num_attention_heads=c.attention_heads,
        attention_head_size=c.embed_dim // c.attention_heads,
        feed_forward_size=c.ffn_embed_dim,
        vocab_size=c.vocab_size,
        max_position_embeddings=c.max_positions,
        axial_pos_shape=(c.max_positions // side, side),
        axial_pos_embds_dim=(c.embed_dim // 4, c.embed_dim - c.embed_dim // 4),
        is_decoder=False,
        num_hashes=1,
    )


FAMILIES: dict[str, Callable[[LinformerConfig], nn.Module]] = {
    "recurrent": Recurrent,
    "transformer-eager": lambda c: EncoderFeatures(build_transformer(c, "eager")),
    "transformer-sdpa": lambda c: EncoderFeatures(build_transformer(c, "sdpa")),
    **{name: partial(_build_transformers_family, name) for name in TRANSFORMERS_FAMILIES},
    "linformer": lambda c: EncoderFeatures(LinformerEncoder(c)),
}
"""Builder of each model from the Linformer's configuration."""
