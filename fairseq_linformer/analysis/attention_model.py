"""An encoder whose attention weights can be read: a fairseq RoBERTa or Linformer, or a model of ``transformers``.

    B sentences, n positions, L layers, H heads, m columns (n, or the k' projected positions that n positions of a
    Linformer reach)

``loading.py`` makes one.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import torch
from torch import Tensor, nn

from ..errors import first_line
from ..modules import LinearMultiheadAttention, LinformerEncoder

Receiver = Callable[[int, Tensor], None]


@dataclass
class AttentionModel:
    """An encoder in eval mode with its tokenizer.

    Attributes:
        name: path or hub name.
        kind: ``roberta`` (a checkpoint of fairseq), ``linformer`` or ``transformers``.
        module: the module to call.
        encoder: the LinformerEncoder of the first two kinds. That of a RoBERTa has k = n and E = F = identity, which
            makes it RoBERTa exactly; fairseq's own attention returns the mean over heads, even with
            ``need_head_weights``.
        n: the longest input.
        tokenizer: of ``transformers``; None if it was not loaded.
        bos, eos, pad: token ids; None where the model has none.
        identity: JSON that differs between any two models or tokenizers.
        layers, heads: L and H, counted in a first forward pass.

    Raises:
        ValueError: no attention weights, or layers with different numbers of heads.
    """

    name: str
    kind: str
    module: nn.Module
    encoder: Optional[LinformerEncoder]
    n: int
    tokenizer: Any
    bos: Optional[int]
    eos: Optional[int]
    pad: Optional[int]
    identity: Dict[str, Any]
    layers: int = field(init=False)
    heads: int = field(init=False)

    def __post_init__(self):
        shapes = self.map_shapes(min(4, self.n))
        heads = {shape[1] for shape in shapes}
        if len(heads) > 1:
            raise ValueError(f"{self.name} has layers of {sorted(heads)} heads; all must have the same number")
        self.layers, self.heads = len(shapes), heads.pop()

    @property
    def short_name(self) -> str:
        """For figures: a checkpoint with its folder (fairseq calls them all checkpoint_last.pt), anything else by its
        last name."""
        path = Path(self.name)
        return "/".join(path.absolute().parts[-2:]) if path.is_file() else path.name

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def map_shapes(self, length: int) -> List[torch.Size]:
        """(1, H, length, m) of each layer, for an input of ``length`` tokens."""
        token = next(token for token in (self.eos, self.bos, 0) if token is not None)
        shapes: List[torch.Size] = []
        self.maps(torch.full((1, length), token), lambda layer, weights: shapes.append(weights.shape))
        return shapes

    def maps(self, tokens: Tensor, receive: Receiver, padding_mask: Optional[Tensor] = None) -> None:
        """Run sentences and pass the context mapping matrices to ``receive``: of a LinformerEncoder layer by layer, of
        ``transformers`` after all layers.

        Args:
            tokens: (B, n) integers.
            receive: called with (layer, weights (B, H, n, m)).
            padding_mask: (B, n), True at padding, which follows the sentence; None if there is none.

        Raises:
            ValueError: the model gives no attention weights, or none of this shape.
        """
        if padding_mask is None:
            padding_mask = torch.zeros_like(tokens, dtype=torch.bool)
        run = self._run_transformers if self.encoder is None else self._run_encoder
        with torch.inference_mode():
            run(tokens.to(self.device), padding_mask.to(self.device), receive)

    def _run_encoder(self, tokens: Tensor, padding_mask: Tensor, receive: Receiver) -> None:
        def need_weights(module, arguments, keywords):
            return arguments, {**keywords, "need_weights": True}

        def pass_weights(layer, module, arguments, output):
            receive(layer, output[1])
            return output[0], None

        with ExitStack() as hooks:
            for layer, module in enumerate(attention_layers(self.encoder)):
                hooks.enter_context(module.register_forward_pre_hook(need_weights, with_kwargs=True))
                hooks.enter_context(module.register_forward_hook(partial(pass_weights, layer)))
            self.encoder(tokens, padding_mask=padding_mask)

    def _run_transformers(self, tokens: Tensor, padding_mask: Tensor, receive: Receiver) -> None:
        B, n = tokens.shape
        try:
            output = self.module(input_ids=tokens, attention_mask=(~padding_mask).long(), output_attentions=True,
                                 return_dict=True)  # fmt: skip
        except TypeError as error:
            if "output_attentions" not in str(error):
                raise
            output = None
        except (RuntimeError, IndexError, ValueError) as error:
            raise ValueError(f"{self.name} cannot run on sentences of {n} tokens: {first_line(error)}") from None
        weights = getattr(output, "attentions", None)
        if not weights or any(map_ is None for map_ in weights):
            raise ValueError(f"{self.name} gives no attention weights; its layers must have softmax attention")
        for layer, map_ in enumerate(weights):
            if map_.dim() != 4 or (map_.size(0), *map_.shape[2:]) != (B, n, n):
                shape = tuple(map_.shape)
                raise ValueError(f"{self.name} gives weights of shape {shape}; it must be ({B}, heads, {n}, {n})")
            receive(layer, map_.float())


def attention_layers(encoder: LinformerEncoder) -> List[LinearMultiheadAttention]:
    """The attention module of each layer."""
    return [module for module in encoder.modules() if isinstance(module, LinearMultiheadAttention)]
