"""The whole encoder, batch first from the tokens to the last norm.

    B sentences, n positions, m positions whose output is needed, d width
"""

from typing import Callable, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..config import LinformerConfig
from .attention import gather
from .dropout import Dropout
from .encoder_layer import LinformerEncoderLayer, projection_of


class LinformerEncoder(nn.Module):
    """RoBERTa's encoder with linear attention.

    Parameters have the names of fairseq's ``TransformerEncoder``, so that a RoBERTa checkpoint is one of this without E
    and F. The matrix of layerwise sharing is ``E`` here; all others are ``layers.I.self_attn.E`` and ``.F``.

    Args:
        config: the shape.
        embed_tokens: (vocabulary, d) embedding to use; None makes one.
        linear, layer_norm: make the parts of a layer, as in ``LinformerEncoderLayer``.
        wrap_layer: what to put around each layer (sharding).
        embedding_noise: applied to the embeddings; fairseq's quantisation noise.
    """

    def __init__(
        self,
        config: LinformerConfig,
        embed_tokens: Optional[nn.Embedding] = None,
        linear=nn.Linear,
        layer_norm=nn.LayerNorm,
        wrap_layer: Callable[[nn.Module], nn.Module] = lambda layer: layer,
        embedding_noise: Optional[nn.Module] = None,
    ):
        super().__init__()
        self.config = config
        self.embed_tokens = embed_tokens or nn.Embedding(config.vocab_size, config.embed_dim, config.padding_idx)
        # fairseq counts positions from padding_idx + 1.
        self.embed_positions = nn.Embedding(
            config.max_positions + config.padding_idx + 1, config.embed_dim, config.padding_idx
        )
        self.layernorm_embedding = layer_norm(config.embed_dim) if config.layernorm_embedding else None
        self.quant_noise = embedding_noise
        self.dropout_module = Dropout(config.dropout)
        self.E = None
        if config.one_for_all_layers:
            self.E = projection_of(config)
        self.layers = nn.ModuleList(
            wrap_layer(LinformerEncoderLayer(config, i, self.E, linear, layer_norm)) for i in range(config.layers)
        )
        self.layer_norm = layer_norm(config.embed_dim) if config.normalize_before else None
        self.apply(init_bert_weights)

    def forward(
        self,
        tokens: Tensor,
        positions: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
        token_embeddings: Optional[Tensor] = None,
        padding_mask: Optional[Tensor] = None,
        padded: Optional[bool] = None,
    ) -> Tuple[Tensor, Optional[List[Tensor]]]:
        """
        Args:
            tokens: (B, n) integers, ``padding_idx`` at padding.
            positions: (B, m), the positions whose features are needed. The last layer computes no others; the result is
                the same. None for all positions.
            return_all_hiddens: return the input of the first layer and the output of each. Refused together with
                ``positions``.
            token_embeddings: (B, n, d), to use in place of the embeddings of ``tokens``.
            padding_mask: (B, n), True at padding; None for where ``tokens`` says it is.
            padded: False if nothing is padded; None for looking, which waits for a GPU.

        Returns:
            (B, m or n, d) features, and a list of (B, n, d) hidden states or None. What stands at padded positions has
            no meaning.

        Raises:
            ValueError: n is larger than ``max_positions``, or both ``positions`` and ``return_all_hiddens`` are given.
        """
        self._check_input(tokens, positions, return_all_hiddens)
        if padding_mask is None:
            padding_mask = tokens.eq(self.config.padding_idx)  # (B, n)
        x = self.embed(tokens, padding_mask, token_embeddings)
        if not (padding_mask.any() if padded is None else padded):
            padding_mask = None
        projection = None if self.E is None else self.E()

        hiddens = [x]
        layers = self._layers_of_this_pass()
        for i, layer in enumerate(layers, start=1):
            x = self._run(layer, x, padding_mask, projection, positions if i == len(layers) else None)
            if return_all_hiddens:
                hiddens.append(x)
        if positions is not None and not layers:
            x = gather(x, positions)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return x, hiddens if return_all_hiddens else None

    def embed(self, tokens: Tensor, padding_mask: Tensor, token_embeddings: Optional[Tensor] = None) -> Tensor:
        """Token plus position embeddings, normed and dropped out: (B, n, d)."""
        real = (~padding_mask).long()
        positions = real.cumsum(1) * real + self.config.padding_idx
        x = self.embed_tokens(tokens) if token_embeddings is None else token_embeddings
        x = x + self.embed_positions(positions)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x)
        return x if self.quant_noise is None else self.quant_noise(x)

    def _layers_of_this_pass(self) -> List[nn.Module]:
        """All layers, or in training those that layer drop leaves."""
        if not self.training or self.config.layerdrop == 0:
            return list(self.layers)
        kept = torch.empty(len(self.layers)).uniform_() > self.config.layerdrop
        return [layer for layer, keep in zip(self.layers, kept) if keep]

    def _run(self, layer: nn.Module, *inputs: Optional[Tensor]) -> Tensor:
        if not (self.config.checkpoint_activations and self.training and torch.is_grad_enabled()):
            return layer(*inputs)
        if not self.config.offload_activations:
            return checkpoint(layer, *inputs, use_reentrant=False)
        with torch.autograd.graph.save_on_cpu(pin_memory=inputs[0].is_cuda):
            return checkpoint(layer, *inputs, use_reentrant=False)

    def _check_input(self, tokens, positions, return_all_hiddens) -> None:
        n = tokens.size(1)
        if n > self.config.max_positions:
            raise ValueError(
                f"the input has {n} positions; this model takes at most {self.config.max_positions} "
                "(max_positions, the columns of E and F)"
            )
        if positions is not None and return_all_hiddens:
            raise ValueError("positions restricts the last layer; hidden states need all of them")


def init_bert_weights(module: nn.Module) -> None:
    """BERT's initialisation, as fairseq's ``init_bert_params``: N(0, 0.02), biases and padding zero. E and F are not
    touched."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        with torch.no_grad():
            module.weight[module.padding_idx].zero_()
