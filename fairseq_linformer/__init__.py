"""Linformer (Wang et al. 2020) for fairseq: ``--user-dir fairseq_linformer``.

Importing this package registers ``linformer_roberta`` with fairseq, where fairseq is
installed. ``fairseq_linformer.modules`` needs PyTorch only.
"""

from importlib.util import find_spec

__version__ = "0.2.0"

if find_spec("fairseq") is not None:
    import argparse

    import torch

    # fairseq's checkpoints hold an argparse.Namespace. torch >= 2.6 loads weights only and
    # refuses what it does not know; this name is data, everything else stays refused.
    torch.serialization.add_safe_globals([argparse.Namespace])

    from . import models  # noqa: F401  (registers)
