"""An encoder that returns its attention weights: a fairseq RoBERTa or Linformer, or a model of ``transformers``.

    B sentences, n positions, L layers, H heads, m columns (n; for a Linformer the k' <= k projected positions that n
    positions reach)

``loading.load_model`` builds one.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import first_line
from ..modules import LinearMultiheadAttention, LinformerEncoder, MeanPool
from ..modules.linear import HeadProjections, LinearProjection
from ..modules.projection import Projection

Receiver = Callable[[int, Tensor], None]


@dataclass
class AttentionModel:
    """An encoder in eval mode with its tokenizer.

    Attributes:
        name: path or hub name.
        kind: ``roberta`` (a fairseq checkpoint), ``linformer`` or ``transformers``.
        module: the module to call.
        encoder: the LinformerEncoder of the first two kinds, else None. A RoBERTa is loaded as a Linformer with k = n
            and E = F = identity, because fairseq's own attention returns the mean over heads even with
            ``need_head_weights``.
        n: maximum input length in tokens.
        tokenizer: a ``transformers`` tokenizer; None if not loaded.
        bos, eos, pad: token IDs; None where the model has none.
        identity: JSON that identifies model and tokenizer.
        layers, heads: L and H, from a first forward pass.

    Raises:
        ValueError: the model returns no attention weights, or its layers have different numbers of heads.
    """

    name: str
    kind: str
    module: nn.Module
    encoder: LinformerEncoder | None
    n: int
    tokenizer: Any
    bos: int | None
    eos: int | None
    pad: int | None
    identity: dict[str, Any]
    layers: int = field(init=False)
    heads: int = field(init=False)

    def __post_init__(self):
        shapes = self.map_shapes(min(4, self.n))
        heads = {shape[1] for shape in shapes}
        if len(heads) > 1:
            raise ValueError(f"{self.name} must have the same number of heads in all layers, got {sorted(heads)}")
        self.layers, self.heads = len(shapes), heads.pop()

    @property
    def short_name(self) -> str:
        """Name for figures: the last part of ``name``; for a checkpoint also its folder, since file names repeat."""
        path = Path(self.name)
        return "/".join(path.absolute().parts[-2:]) if path.is_file() else path.name

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def map_shapes(self, length: int) -> list[torch.Size]:
        """(1, H, length, m) of each layer, for an input of ``length`` tokens."""
        token = next(token for token in (self.eos, self.bos, 0) if token is not None)
        shapes: list[torch.Size] = []
        self.read_maps(torch.full((1, length), token), lambda layer, weights: shapes.append(weights.shape))
        return shapes

    def read_maps(self, tokens: Tensor, receive: Receiver, padding_mask: Tensor | None = None) -> None:
        """Run the model and pass its context mapping matrices to ``receive``: layer by layer for a LinformerEncoder,
        after the last layer for ``transformers``.

        Args:
            tokens: (B, n) token IDs.
            receive: called with (layer, weights (B, H, n, m)).
            padding_mask: (B, n), True at padding, which is on the right; None without padding.

        Raises:
            ValueError: the model returns no attention weights, or weights of another shape.
        """
        if padding_mask is None:
            padding_mask = torch.zeros_like(tokens, dtype=torch.bool)
        tokens, padding_mask = tokens.to(self.device), padding_mask.to(self.device)
        with torch.inference_mode():
            if self.encoder is None:
                self._run_transformers(tokens, padding_mask, receive)
            else:
                self._run_encoder(self.encoder, tokens, padding_mask, receive)

    def _run_encoder(self, encoder: LinformerEncoder, tokens: Tensor, padding_mask: Tensor, receive: Receiver) -> None:
        def need_weights(module, arguments, keywords):
            return arguments, {**keywords, "need_weights": True}

        def pass_weights(layer, module, arguments, output):
            receive(layer, output[1])
            return output[0], None

        with ExitStack() as hooks:
            for layer, module in enumerate(attention_layers(encoder)):
                hooks.enter_context(module.register_forward_pre_hook(need_weights, with_kwargs=True))
                hooks.enter_context(module.register_forward_hook(partial(pass_weights, layer)))
            encoder(tokens, padding_mask=padding_mask, use_length_groups=False)

    def _run_transformers(self, tokens: Tensor, padding_mask: Tensor, receive: Receiver) -> None:
        B, n = tokens.shape
        output: Any = None
        try:
            output = self.module(
                input_ids=tokens, attention_mask=(~padding_mask).long(), output_attentions=True, return_dict=True
            )
        except TypeError as error:
            if "output_attentions" not in str(error):
                raise
        except (RuntimeError, IndexError, ValueError) as error:
            raise ValueError(f"{self.name} cannot run on sentences of {n} tokens: {first_line(error)}") from None
        weights = getattr(output, "attentions", None)
        if not weights or any(map_ is None for map_ in weights):
            raise ValueError(f"{self.name} returns no attention weights; its layers must have softmax attention")
        for layer, map_ in enumerate(weights):
            if map_.dim() != 4 or (map_.size(0), *map_.shape[2:]) != (B, n, n):
                shape = tuple(map_.shape)
                raise ValueError(f"{self.name} must return weights of shape ({B}, heads, {n}, {n}), got {shape}")
            receive(layer, map_.float())


def attention_layers(encoder: LinformerEncoder) -> list[LinearMultiheadAttention]:
    """The attention module of each layer."""
    return [module for module in encoder.modules() if isinstance(module, LinearMultiheadAttention)]


def projection_matrices(encoder: LinformerEncoder) -> dict[str, Tensor]:
    """The projection matrices of an encoder, by name.

    Returns:
        ``E`` (layerwise sharing) or ``layers.I.E`` and ``layers.I.F``: (k, n), or (H, k, n) if each head has its own;
        ``layers.I.E.heads.J`` if k differs between heads. Max pooling and convolution are not matrices and are omitted.
    """
    named: dict[str, Projection | None] = {"E": encoder.E}
    for i, attention in enumerate(attention_layers(encoder)):
        named |= {f"layers.{i}.E": attention.E, f"layers.{i}.F": attention.F}
    matrices: dict[str, Tensor | None] = {}
    with torch.no_grad():
        for name, projection in named.items():
            if isinstance(projection, HeadProjections):
                matrices |= {f"{name}.heads.{j}": projection_matrix(head) for j, head in enumerate(projection.heads)}
            else:
                matrices[name] = projection_matrix(projection)
    return {name: matrix for name, matrix in matrices.items() if matrix is not None}


def projection_matrix(projection: Projection | None) -> Tensor | None:
    """(k, n) or (H, k, n), detached; None if the projection is not a matrix."""
    if isinstance(projection, LinearProjection):
        return projection().detach()
    return projection.layout.average() if isinstance(projection, MeanPool) else None
