"""The mathematics of the Linformer in pure PyTorch: needs neither fairseq nor transformers."""

from .attention import LinearMultiheadAttention
from .encoder import LinformerEncoder
from .encoder_layer import LinformerEncoderLayer
from .projection import Projection

__all__ = [
    "LinearMultiheadAttention",
    "LinformerEncoder",
    "LinformerEncoderLayer",
    "Projection",
]
