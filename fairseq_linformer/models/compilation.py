"""``--compile``: compile the encoder layers with ``torch.compile``.

Layers are compiled in place (``nn.Module.compile``), so parameters keep their names, and checkpoints do not depend on
it. Layers share the compiled code. Each combination of padding or none, all positions or some (in the last layer),
training or inference, and one length or any length is compiled separately.
"""

import os
import shutil
from argparse import Namespace
from collections.abc import Iterable
from functools import cache

import torch
from torch import nn

from ..errors import first_line

RECOMPILE_LIMIT = 64
"""Past its default limit of 8 variants of a layer, PyTorch silently stops compiling."""


def check_compile_options(args: Namespace) -> None:
    """Check that the layers can be compiled.

    Raises:
        ValueError: ``compile`` conflicts with another option, or this machine lacks a C++ compiler or triton.
    """
    if not args.compile:
        return
    for name in ("quant_noise_pq", "quant_noise_scalar"):
        if getattr(args, name) > 0:  # it overwrites weights in a hook
            raise ValueError(f"compile needs {name} to be 0, got {getattr(args, name)}")
    if args.offload_activations:
        raise ValueError("compile needs offload_activations to be off, got on")
    compilers = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    if not any(map(shutil.which, compilers)):
        raise ValueError(
            f"compile needs a C++ compiler, but {' or '.join(compilers)} was not found; set the environment variable "
            "CXX to another one"
        )
    if torch.cuda.is_available():
        from torch.utils._triton import has_triton

        if not has_triton():
            raise ValueError("compile needs triton on a GPU, which is not installed or does not support this GPU")
        _check_gpu()


@cache
def _check_gpu() -> None:
    """Compile a small function: triton may be installed, and have no kernels for an older GPU.

    Raises:
        ValueError: it fails.
    """
    try:
        torch.compile(torch.nn.functional.gelu)(torch.ones(8, device="cuda"))
    except Exception as error:  # compilers and drivers raise many types
        reason = f"{type(error).__name__}: {first_line(error)}"
        name = torch.cuda.get_device_name()
        raise ValueError(f"compile must be off on {name}, where torch.compile fails: {reason}") from None


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Compile layers in place; compilation runs at the first batch."""
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, RECOMPILE_LIMIT)
    for layer in layers:
        layer.compile()
