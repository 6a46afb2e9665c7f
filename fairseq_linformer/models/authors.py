"""The authors' plugin, ``examples/linformer`` in fairseq: its options and its checkpoints.

    --compressed R                    k = max_positions // R
    --shared-kv-compressed 1          key-value sharing
    --shared-layer-kv-compressed 1    layerwise sharing
    --freeze-compress 1               E and F stay as they start

Their model projects with ``compress_k`` and ``compress_v`` where this one has E and F, without windows: every sentence
attends to all k. So do loaded checkpoints, and features are equal on unpadded input. (On padded input theirs depend on
the padding.)
"""

import re
from argparse import Namespace
from typing import Dict, Optional, Tuple

import torch
from torch import Tensor

from .shapes import EMBEDDINGS, ENCODER, OUTPUT_EMBEDDINGS, current_names

OPTIONS = ("compressed", "shared_kv_compressed", "shared_layer_kv_compressed", "freeze_compress")
_COMPRESS = re.compile(re.escape(ENCODER) + r"layers\.\d+\.self_attn\.compress_([kv])\.(weight|bias)")


def translate(args: Namespace) -> Optional[str]:
    """Replace the authors' options in ``args`` by this model's.

    Args:
        args: with ``max_positions``, ``projected_dim``, ``sharing``, ``freeze_projections`` and the authors' options,
            None where not given.

    Returns:
        What they were translated to, as options; None if none of them was given.

    Raises:
        ValueError: a value is not allowed, or contradicts an option of this model.
    """
    given = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    if not given:
        return None
    ratio = given.get("compressed", 4)  # their default
    if not 1 <= ratio <= args.max_positions:
        raise ValueError(f"compressed is {ratio}; it must be between 1 and max_positions, {args.max_positions}")
    if args.projected_dim is not None:
        raise ValueError(
            f"projected_dim is {args.projected_dim} and the authors' {', '.join(given)} is given; only one can be"
        )
    sharing = "headwise"
    if given.get("shared_layer_kv_compressed"):
        sharing = "layerwise"
    elif given.get("shared_kv_compressed"):
        sharing = "key-value"
    if args.sharing not in (None, sharing):
        raise ValueError(f"sharing is {args.sharing} and the authors' options mean {sharing}; leave one of them out")
    args.projected_dim, args.sharing = args.max_positions // ratio, sharing
    args.freeze_projections = args.freeze_projections or bool(given.get("freeze_compress"))
    for name in OPTIONS:
        setattr(args, name, None)
    frozen = " --freeze-projections" if args.freeze_projections else ""
    return f"--projected-dim {args.projected_dim} --sharing {sharing}{frozen}"


def is_authors(state: Dict[str, Tensor]) -> bool:
    """Was this state dict saved by the authors' model?"""
    return any(".compress_k." in key for key in state)


def convert(state: Dict[str, Tensor]) -> Tuple[Dict[str, Tensor], bool, bool]:
    """The state dict with this model's names; the old one is not changed.

    Their ``version`` 1 did not share what it should have: with layerwise sharing each layer had a matrix of its own for
    keys and values, and the output embeddings were not the input embeddings. Such a checkpoint becomes what it was:
    key-value sharing, untied.

    Returns:
        the state dict, whether its layers are of version 1, and whether its output embeddings are untied.
    """
    renamed = current_names(state)
    old = _version(renamed, ENCODER + "layers.0.version") < 2
    shared = None if old else renamed.get(ENCODER + "compress_layer.weight")
    one_a_layer = old and any(".shared_compress_layer." in key for key in renamed)
    new = {}
    for key, value in renamed.items():
        compress = _COMPRESS.fullmatch(key)
        if compress is None:
            if not re.search(r"\.(version|(shared_)?compress_layer\.\w+)$", key):
                new[key] = value
        elif shared is None and compress[2] == "weight" and not (one_a_layer and compress[1] == "v"):
            new[re.sub(r"compress_[kv]", {"k": "E", "v": "F"}[compress[1]], key)] = value
    if shared is not None:
        new[ENCODER + "E.weight"] = shared
    untied = _version(renamed, "encoder.version") < 2 and {EMBEDDINGS, OUTPUT_EMBEDDINGS} <= new.keys()
    return new, old, untied and not torch.allclose(new[EMBEDDINGS], new[OUTPUT_EMBEDDINGS])


def _version(state: Dict[str, Tensor], key: str) -> int:
    """Checkpoints older than the buffer are of version 1."""
    return int(state.get(key, 1))
