"""The mathematics of the Linformer in pure PyTorch: needs neither fairseq nor transformers."""

from .attention import LinearMultiheadAttention
from .encoder import Linformer, LinformerEncoder
from .encoder_layer import LinformerEncoderLayer
from .full_attention import FullAttention
from .linear import LinearProjection
from .pooling import Convolution, MaxPool, MeanPool
from .projection import Projection

__all__ = [
    "Convolution",
    "FullAttention",
    "LinearMultiheadAttention",
    "LinearProjection",
    "Linformer",
    "LinformerEncoder",
    "LinformerEncoderLayer",
    "MaxPool",
    "MeanPool",
    "Projection",
]
