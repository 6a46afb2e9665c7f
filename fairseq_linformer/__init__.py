"""Linformer (Wang et al. 2020) for fairseq: ``--user-dir fairseq_linformer``.

Importing this package registers ``linformer_roberta`` with fairseq, where fairseq is
installed. ``fairseq_linformer.modules`` needs PyTorch only.
"""

from importlib.util import find_spec

__version__ = "0.2.0"

if find_spec("fairseq") is not None:
    import argparse
    import collections
    import typing

    import omegaconf
    import torch
    from fairseq.distributed.utils import _TensorPlaceholder

    # torch >= 2.6 loads weights only and refuses what it does not know. fairseq's checkpoints hold
    # an argparse.Namespace, and when several processes resume, the first one sends the others its
    # checkpoint with the configuration as OmegaConf's containers and marks in the place of tensors.
    # All of these are data; everything else stays refused.
    torch.serialization.add_safe_globals([
        argparse.Namespace, omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.AnyNode,
        omegaconf.base.ContainerMetadata, omegaconf.base.Metadata, collections.defaultdict,
        dict, list, int, typing.Any, _TensorPlaceholder,
    ])  # fmt: skip

    from . import models  # noqa: F401  (registers)
