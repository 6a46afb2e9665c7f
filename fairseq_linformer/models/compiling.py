"""``--compile``: PyTorch's compiler on the encoder layers.

Each layer is compiled in place (``nn.Module.compile``), so parameters keep their names and a checkpoint is the same
with and without. Layers are alike and share the compiled code; it is made for each of: with and without padding, all
positions or some (the last layer), training or not, one length and then any length.
"""

import os
import shutil
from argparse import Namespace
from typing import Iterable

import torch
from torch import nn

from ..modules import LinformerEncoderLayer

VARIANTS = 64
"""How often PyTorch may compile a layer. Past its own limit of 8, one kind of input, it silently stops compiling."""


def check(args: Namespace) -> None:
    """Refuse what cannot be compiled.

    Raises:
        ValueError: another option stands against it, or PyTorch's compiler lacks what it needs on this machine.
    """
    if not args.compile:
        return
    for name in ("quant_noise_pq", "quant_noise_scalar"):
        if getattr(args, name) > 0:  # it overwrites weights in a hook
            raise ValueError(f"compile is on and {name} is {getattr(args, name)}; only one of them can be")
    if args.offload_activations:
        raise ValueError("compile and offload_activations are on; only one of them can be")
    compilers = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    if not any(map(shutil.which, compilers)):
        raise ValueError(
            f"compile is on; PyTorch's compiler needs a C++ compiler, and {' or '.join(compilers)} was not found (the "
            "environment variable CXX names another)"
        )
    if torch.cuda.is_available():
        from torch.utils._triton import has_triton

        if not has_triton():
            raise ValueError(
                "compile is on; PyTorch's compiler needs triton, which is not installed or does not support this GPU"
            )


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Compile each layer where it is; that happens at its first batch.

    Raises:
        ValueError: a layer is wrapped for fully sharded data parallelism.
    """
    import torch._dynamo

    layers = list(layers)
    for layer in layers:
        if not isinstance(layer, LinformerEncoderLayer):
            raise ValueError(
                f"compile is on, and layers are wrapped in {type(layer).__name__} (--ddp-backend fully_sharded); only "
                "one of them can be"
            )
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, VARIANTS)
    for layer in layers:
        layer.compile()
