"""The fairseq adapter: ``linformer_roberta`` around ``fairseq_linformer.modules``."""

import argparse
import collections
import typing
from typing import Any, cast

import numpy as np
import omegaconf
import torch
from fairseq.distributed.utils import _TensorPlaceholder

from .cpu_amp import patch_amp
from .datasets import patch_dataset_loading
from .dictionaries import patch_dictionaries
from .epoch_iterator import patch_epoch_iterator
from .fairseq_fixes import fix_best_metric, fix_copies, fix_end_of_loading, fix_half_precision
from .linformer_roberta import LinformerRobertaEncoder, LinformerRobertaModel
from .optimizer import FusedAdam
from .options import ARCHITECTURES, LinformerRobertaConfig
from .program_errors import patch_error_reports
from .roberta_eps import RobertaEpsModel
from .safe_loading import patch_checkpoint_loading, patch_eval

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 9):
    raise ImportError(f"fairseq-linformer needs PyTorch 2.9 or newer, got {torch.__version__}")

# torch.load(weights_only=True), the default since torch 2.6, rejects unknown types. fairseq's checkpoints hold an
# argparse.Namespace and sometimes NumPy numbers (best metrics). When several processes resume, the first one sends the
# others OmegaConf containers and tensor placeholders. These types are plain data; all others stay rejected.
torch.serialization.add_safe_globals(
    [
        argparse.Namespace,
        omegaconf.DictConfig,
        omegaconf.ListConfig,
        omegaconf.AnyNode,
        omegaconf.base.ContainerMetadata,
        omegaconf.base.Metadata,
        collections.defaultdict,
        dict,
        list,
        int,
        typing.Any,
        _TensorPlaceholder,
        cast(Any, np.float64(0).__reduce__()[0]),  # numpy's scalar constructor, whose module depends on the version
        np.dtype,
        type(np.dtype(np.float64)),
        type(np.dtype(np.float32)),
    ]
)

patch_amp()
patch_epoch_iterator()
patch_checkpoint_loading()
patch_dictionaries()
patch_dataset_loading()
patch_eval()
fix_best_metric()
fix_copies()
fix_end_of_loading()
fix_half_precision()
patch_error_reports()

__all__ = [
    "ARCHITECTURES",
    "FusedAdam",
    "LinformerRobertaConfig",
    "LinformerRobertaEncoder",
    "LinformerRobertaModel",
    "RobertaEpsModel",
]
