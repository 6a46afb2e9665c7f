"""An encoder that returns its attention weights: a fairseq RoBERTa or Linformer, or a model of ``transformers``.

    B sentences, n positions, L layers, H heads, m columns (n; for a Linformer the k' <= k projected positions that n
    positions reach)

``loading.load_model`` builds one.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..modules import FullAttention, LinearMultiheadAttention, LinformerEncoder


@dataclass
class AttentionModel:
    """An encoder in eval mode with its tokenizer.

    Attributes:
        name: path or hub name.
        is_projected: whether the columns of its maps are a Linformer's projected positions.
        module: the module to call.
        encoder: the LinformerEncoder of a Linformer or of fairseq's RoBERTa, else None. That RoBERTa is loaded as one
            without projection, because fairseq's own attention returns the mean over heads even with
            ``need_head_weights``.
        n: maximum input length in tokens.
        tokenizer: a ``transformers`` tokenizer; None if not loaded.
        bos, eos: token IDs; None where the model has none.
    """

    name: str
    is_projected: bool
    module: nn.Module
    encoder: LinformerEncoder | None
    n: int
    tokenizer: Any = None
    bos: int | None = None
    eos: int | None = None

    @property
    def short_name(self) -> str:
        """Name for figures: the last part of ``name``; for a checkpoint also its folder, since file names repeat."""
        path = Path(self.name)
        return "/".join(path.absolute().parts[-2:]) if path.is_file() else path.name

    def read_maps(self, tokens: Tensor) -> list[Tensor]:
        """The context mapping matrices of each layer, (B, H, n, m), in single precision.

        Args:
            tokens: (B, n) token IDs, none of them padding.

        Raises:
            ValueError: the layers have no softmax attention.
        """
        tokens = tokens.to(next(self.module.parameters()).device)
        with torch.inference_mode():
            if self.encoder is None:
                output = self.module(input_ids=tokens, output_attentions=True, return_dict=True)
                maps = getattr(output, "attentions", None)
            else:
                maps = _run(self.encoder, tokens)
        if not maps or any(each is None or each.dim() != 4 for each in maps):
            raise ValueError(f"{self.name} returns no attention weights; its layers must have softmax attention")
        return [each.float() for each in maps]


def _run(encoder: LinformerEncoder, tokens: Tensor) -> list[Tensor]:
    maps: list[Tensor] = []

    def need_weights(module, arguments, keywords):
        return arguments, {**keywords, "need_weights": True}

    def take_weights(module, arguments, output):
        maps.append(output[1])
        return output[0], None

    with ExitStack() as hooks:
        for module in encoder.modules():
            if isinstance(module, (LinearMultiheadAttention, FullAttention)):
                hooks.enter_context(module.register_forward_pre_hook(need_weights, with_kwargs=True))
                hooks.enter_context(module.register_forward_hook(take_weights))
        encoder(tokens, padded=False)
    return maps
