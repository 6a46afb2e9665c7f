"""RoBERTa's masked LM head with an aligned product.

In half precision a GPU multiplies fast only if dimensions are multiples of 8, on newer ones of 64 (NVIDIA, "Matrix
Multiplication Background", tensor core requirements). RoBERTa's dictionary has 50,265 entries. Rows of zeros are
appended for the product, and their logits dropped: parameters, checkpoints and results are the same.
"""

import torch
import torch.nn.functional as F
from fairseq.models.roberta.model import RobertaLMHead
from torch import Tensor

MULTIPLE = 64


class AlignedLMHead(RobertaLMHead):
    """``RobertaLMHead``, aligned in half precision on a GPU."""

    def forward(self, features: Tensor, masked_tokens: Tensor | None = None, **kwargs: object) -> Tensor:
        """Logits (masked tokens, V) or (B, n, V) of features (B, n, d)."""
        if masked_tokens is not None:
            features = features[masked_tokens, :]
        x = self.layer_norm(self.activation_fn(self.dense(features)))
        multiple = MULTIPLE if is_half_on_gpu(x, self.weight) else 1
        return aligned_linear(x, self.weight, multiple) + self.bias


def aligned_linear(x: Tensor, weight: Tensor, multiple: int) -> Tensor:
    """x weight^T with the rows of ``weight`` padded to a multiple: (..., d) and (V, d) to (..., V)."""
    missing = -weight.size(0) % multiple
    if not missing:
        return F.linear(x, weight)
    return F.linear(x, F.pad(weight, (0, 0, 0, missing)))[..., : weight.size(0)]


def is_half_on_gpu(x: Tensor, weight: Tensor) -> bool:
    """Whether the product of these tensors is computed in half precision on a GPU, or on the meta device, on which a
    plan counts what a GPU does."""
    return (x.is_cuda or x.is_meta) and (
        weight.dtype in (torch.float16, torch.bfloat16) or torch.is_autocast_enabled("cuda")
    )
