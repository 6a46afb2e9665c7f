"""An encoder that returns its attention weights: a model of ``transformers``, or a fairseq RoBERTa or Linformer as one.

    B sentences, n positions, L layers, H heads, m columns (n; for a Linformer the k' <= k projected positions that n
    positions reach)

``loading.load_model`` builds one.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class AttentionModel:
    """An encoder in eval mode with its tokenizer.

    Attributes:
        name: path or hub name.
        module: the model of ``transformers``.
        n: maximum input length in tokens.
        tokenizer: a ``transformers`` tokenizer.
    """

    name: str
    module: nn.Module
    n: int
    tokenizer: Any

    def read_maps(self, tokens: Tensor) -> list[Tensor]:
        """The context mapping matrices of each layer, (B, H, n, m), in single precision.

        Args:
            tokens: (B, n) token IDs, none of them padding.

        Raises:
            ValueError: the layers have no softmax attention.
        """
        tokens = tokens.to(next(self.module.parameters()).device)
        with torch.inference_mode():
            output = self.module(input_ids=tokens, output_attentions=True, return_dict=True)
        maps = getattr(output, "attentions", None)
        if not maps or any(each is None or each.dim() != 4 for each in maps):
            raise ValueError(f"{self.name} returns no attention weights; its layers must have softmax attention")
        return [each.float() for each in maps]
