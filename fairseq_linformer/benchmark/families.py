"""The families of Table 1, and today's alternatives, as existing libraries implement them: random weights, equal sizes.

    (B, n) tokens to (B, n, d), of Reformer (B, n, 2 d): its layers are reversible and have two streams

Recurrent is ``torch.nn.LSTM``; sparse is BigBird's and Longformer's attention, Reformer is Reformer; these and
Nystromformer, FNet and ModernBERT are those of ``transformers``.
"""

from functools import partial
from typing import Callable, Dict

import torch
from torch import Tensor, nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from .encoders import transformer


class Recurrent(nn.Module):
    """A stack of LSTMs of width d."""

    def __init__(self, config: LinformerConfig):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.embed_dim)
        self.lstm = nn.LSTM(config.embed_dim, config.embed_dim, config.layers, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.lstm(self.embed(tokens))[0]


class _Ours(nn.Module):
    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens: Tensor) -> Tensor:
        return self.encoder(tokens, padded=False)[0]


class _Theirs(nn.Module):
    """A model of ``transformers``, with a mask that all tokens are real."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        mask = {} if type(self.model).__name__ == "FNetModel" else {"attention_mask": torch.ones_like(tokens)}
        return self.model(tokens, **mask).last_hidden_state


def families() -> Dict[str, Callable[[LinformerConfig], nn.Module]]:
    """Functions from the shape of the Linformer to each model."""
    theirs = {name: partial(_of_transformers, name) for name in THEIRS}
    return {
        "recurrent": Recurrent,
        "transformer-eager": lambda c: _Ours(transformer(c, "eager")),
        "transformer-sdpa": lambda c: _Ours(transformer(c, "sdpa")),
        **theirs,
        "linformer": lambda c: _Ours(LinformerEncoder(c)),
    }


BIGBIRD_FULL = 704
"""``transformers``, BigBirdModel.forward: (5 + 2 random blocks) * block size."""
THEIRS = ("bigbird", "longformer", "reformer", "nystromformer", "fnet", "modernbert")


def _of_transformers(name: str, c: LinformerConfig) -> nn.Module:
    """
    Raises:
        ImportError: ``transformers`` is not installed.
        ValueError: this kind of attention cannot have such a length, or would become full attention by itself.
    """
    import transformers as t

    shape = dict(vocab_size=c.vocab_size, hidden_size=c.embed_dim, num_hidden_layers=c.layers,
                 num_attention_heads=c.attention_heads,
                 intermediate_size=c.ffn_embed_dim, max_position_embeddings=c.max_positions + 2,
                 pad_token_id=1)  # fmt: skip
    if name == "bigbird":  # blocks of 64 and 3 random ones
        if c.max_positions <= BIGBIRD_FULL:
            raise ValueError(f"n is {c.max_positions}; up to {BIGBIRD_FULL} positions BigBird computes full attention, "
                             "which is not sparse")  # fmt: skip
        model = t.BigBirdModel(t.BigBirdConfig(**shape, attention_type="block_sparse"), add_pooling_layer=False)
    elif name == "longformer":  # windows of 512
        model = t.LongformerModel(t.LongformerConfig(**shape, attention_window=512), add_pooling_layer=False)
    elif name == "nystromformer":  # 64 landmarks
        model = t.NystromformerModel(t.NystromformerConfig(**shape, segment_means_seq_len=c.max_positions))
    elif name == "fnet":
        del shape["num_attention_heads"]
        model = t.FNetModel(t.FNetConfig(**shape), add_pooling_layer=False)
    elif name == "modernbert":
        # Layers 0, 3, 6 and so on are global (so of two layers one), the others have windows of 128.
        # Its feed-forward is gated and has three maps where the others have two: two thirds of f are as many
        # parameters.
        shape |= dict(bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2,
                      intermediate_size=2 * c.ffn_embed_dim // 3)  # fmt: skip
        model = t.ModernBertModel(t.ModernBertConfig(**shape, reference_compile=False))
    else:
        model = t.ReformerModel(_reformer(c, t))
    return _Theirs(model)


def _reformer(c: LinformerConfig, t):
    """LSH attention in every second layer and local in the others, as its own default; positions factored in two."""
    side = 2 ** (c.max_positions.bit_length() // 2)
    if c.max_positions % side:
        raise ValueError(f"n is {c.max_positions}; it must be a multiple of {side} for Reformer's positions")
    return t.ReformerConfig(
        attn_layers=[("local", "lsh")[i % 2] for i in range(c.layers)], hidden_size=c.embed_dim,
        num_attention_heads=c.attention_heads,
        attention_head_size=c.embed_dim // c.attention_heads, feed_forward_size=c.ffn_embed_dim,
        vocab_size=c.vocab_size,
        max_position_embeddings=c.max_positions, axial_pos_shape=(c.max_positions // side, side),
        axial_pos_embds_dim=(c.embed_dim // 4, c.embed_dim - c.embed_dim // 4), is_decoder=False, num_hashes=1,
    )  # fmt: skip
