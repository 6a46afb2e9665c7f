"""Options and checkpoints of the authors' plugin, ``examples/linformer`` in fairseq.

    --compressed R                    k = max_positions // R
    --shared-kv-compressed 1          key-value sharing
    --shared-layer-kv-compressed 1    layerwise sharing
    --freeze-compress 1               do not train E and F

Their model names E and F ``compress_k`` and ``compress_v``. It has no windows: every sentence attends to all k
positions. Loaded checkpoints do the same, so features are equal on unpadded input. (On padded input the features of
their model depend on the padding.)
"""

import re
from argparse import Namespace

import torch
from torch import Tensor

from ..modules.projection import upgrade_entries
from ..modules.windows import NO_WINDOWS
from .state_dicts import EMBEDDINGS, ENCODER, OUTPUT_EMBEDDINGS, upgrade_names

OPTIONS = ("compressed", "shared_kv_compressed", "shared_layer_kv_compressed", "freeze_compress")
_COMPRESS = re.compile(re.escape(ENCODER) + r"layers\.\d+\.self_attn\.compress_([kv])\.(weight|bias)")


def translate_options(args: Namespace) -> str | None:
    """Replace the authors' options in ``args`` with this model's.

    Args:
        args: has ``max_positions``, ``projected_dim``, ``sharing``, ``freeze_projections`` and the authors' options,
            None if unset.

    Returns:
        The equivalent command-line options; None if no option of theirs is set.
    """
    options = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    if not options:
        return None
    ratio = options.get("compressed", 4)  # their default
    if args.projected_dim is not None:
        raise ValueError(
            f"projected_dim must be unset with the authors' {', '.join(options)}, got {args.projected_dim}"
        )
    sharing = "headwise"
    if options.get("shared_layer_kv_compressed"):
        sharing = "layerwise"
    elif options.get("shared_kv_compressed"):
        sharing = "key-value"
    if args.sharing not in (None, sharing):
        raise ValueError(f"sharing must be {sharing} or unset with the authors' options, got {args.sharing}")
    args.projected_dim, args.sharing = args.max_positions // ratio, sharing
    args.freeze_projections = args.freeze_projections or bool(options.get("freeze_compress"))
    for name in OPTIONS:
        setattr(args, name, None)
    frozen = " --freeze-projections" if args.freeze_projections else ""
    return f"--projected-dim {args.projected_dim} --sharing {sharing}{frozen}"


def is_authors_state_dict(state: dict[str, Tensor]) -> bool:
    """Whether the authors' model saved this state dict."""
    return any(".compress_k." in key for key in state)


def convert_state_dict(state: dict[str, Tensor]) -> tuple[dict[str, Tensor], str | None, bool]:
    """Convert the authors' state dict to this model's names, without modifying it.

    ``version`` 1 of their code shared less than its options said: with layerwise sharing each layer had its own matrix
    for keys and values, and output embeddings were not tied to input embeddings. Such a checkpoint is converted to
    key-value sharing, untied.

    Returns:
        The state dict, its sharing if it is of version 1, else None, and whether its output embeddings are untied.
    """
    renamed = upgrade_names(state)
    is_version_1 = _version(renamed, ENCODER + "layers.0.version") < 2
    shared = None if is_version_1 else renamed.get(ENCODER + "compress_layer.weight")
    is_shared_per_layer = is_version_1 and any(".shared_compress_layer." in key for key in renamed)
    new = {}
    for key, value in renamed.items():
        compress = _COMPRESS.fullmatch(key)
        if compress is None:
            if not re.search(r"\.(version|(shared_)?compress_layer\.\w+)$", key):
                new[key] = value
        elif shared is None and compress[2] == "weight" and not (is_shared_per_layer and compress[1] == "v"):
            new |= _projection(re.sub(r"compress_[kv]\.weight", {"k": "E", "v": "F"}[compress[1]], key), value)
    if shared is not None:
        new |= _projection(ENCODER + "E", shared)
    may_be_untied = _version(renamed, "encoder.version") < 2 and {EMBEDDINGS, OUTPUT_EMBEDDINGS} <= new.keys()
    is_untied = may_be_untied and not torch.allclose(new[EMBEDDINGS], new[OUTPUT_EMBEDDINGS])
    has_values = any(".self_attn.F." in key for key in new)
    sharing = None if not is_version_1 else "headwise" if has_values else "key-value"
    return new, sharing, is_untied


def _projection(name: str, matrix: Tensor) -> dict[str, Tensor]:
    """The entries of an E or F that has this matrix, and no windows."""
    entries = {f"{name}.weight": matrix, f"{name}.windows": torch.tensor(NO_WINDOWS)}
    upgrade_entries(entries, f"{name}.")
    return entries


def _version(state: dict[str, Tensor], key: str) -> int:
    """Version of the code that saved a state dict; without the buffer it is 1."""
    return int(state.get(key, 1))
