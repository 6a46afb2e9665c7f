"""The fairseq adapter: ``linformer_roberta`` around ``fairseq_linformer.modules``."""

import argparse
import collections
import typing

import numpy as np
import omegaconf
import torch
from fairseq.distributed.utils import _TensorPlaceholder

from .epochs import complete_epochs
from .linformer_roberta import LinformerRobertaEncoder, LinformerRobertaModel
from .optimizer import FusedAdam
from .options import ARCHITECTURES, LinformerRobertaConfig

# torch >= 2.6 loads weights only and refuses what it does not know. fairseq's checkpoints hold an argparse.Namespace,
# and when several processes resume, the first one sends the others its checkpoint with the configuration as OmegaConf's
# containers and marks in the place of tensors. A metric can leave a number of numpy's as the best so far. All of these
# are data; everything else stays refused.
torch.serialization.add_safe_globals([
    argparse.Namespace, omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.AnyNode,
    omegaconf.base.ContainerMetadata, omegaconf.base.Metadata, collections.defaultdict,
    dict, list, int, typing.Any, _TensorPlaceholder, np.float64(0).__reduce__()[0], np.dtype,
    type(np.dtype(np.float64)), type(np.dtype(np.float32)),
])  # fmt: skip

complete_epochs()

__all__ = ["ARCHITECTURES", "FusedAdam", "LinformerRobertaConfig", "LinformerRobertaEncoder", "LinformerRobertaModel"]
