"""A state dict with the projections of another shape; the mathematics is in ``modules/resize.py``."""

from typing import Dict, List

import torch
from torch import Tensor

from ..config import LinformerConfig
from ..modules.encoder_layer import projection_of
from ..modules.projection import NO_WINDOWS
from ..modules.resize import resize_positions, resize_projection, same_ratio
from ..projected_dim import Dim
from .shapes import ATTENTION_HEADS, ENCODER, PADDING_IDX, POSITIONS, max_positions, projections, shape_of


def default_dims(state: Dict[str, Tensor], n: int) -> List[Dim]:
    """k of each layer for ``n`` positions that leaves the features of short inputs as they are."""
    windowed = all(
        "weight" not in entries or "conv" in entries or float(entries.get("windows", NO_WINDOWS)) != NO_WINDOWS
        for entries in projections(state).values()
    )

    def scaled(k: int) -> int:
        return same_ratio(k, max_positions(state), n, windowed)

    dims = shape_of(state).projected_dims
    return [scaled(k) if isinstance(k, int) else tuple(map(scaled, k)) for k in dims]


def with_projections(state: Dict[str, Tensor], config: LinformerConfig) -> Dict[str, Tensor]:
    """A state dict of RoBERTa or of ``linformer_roberta`` for an encoder of this shape; the old one is not changed.

    Position embeddings and projections are resized where n or k differ. Projections are new where there are none. A
    projection may be a matrix alone; all the entries that it needs are added.

    Raises:
        ValueError: a random projection would have to be resized.
    """
    old_prefixes = tuple(projections(state))
    new = {key: value for key, value in state.items() if not key.startswith(old_prefixes)}
    new[POSITIONS] = resize_positions(state[POSITIONS], config.max_positions, PADDING_IDX)
    new[ATTENTION_HEADS] = torch.tensor(float(config.attention_heads))
    old_config = shape_of(state, config.attention_heads) if old_prefixes else None
    for prefix, (layer, which) in _modules_of(config).items():
        module = projection_of(config, layer, which)
        entries = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        if entries:
            old = projection_of(old_config, layer, which)
            old.load_state_dict(entries)
            if (old.n, old_config.projected_dims[layer]) == (module.n, config.projected_dims[layer]):
                module.load_state_dict(entries)
            else:
                resize_projection(old, module)
        new.update({prefix + key: value for key, value in module.state_dict().items()})
    return new


def _modules_of(config: LinformerConfig):
    """Layer and name of each projection, by its prefix in a state dict."""
    if config.one_for_all_layers:
        return {f"{ENCODER}E.": (0, "E")}
    names = "EF" if config.separate_values else "E"
    return {f"{ENCODER}layers.{i}.self_attn.{name}.": (i, name) for i in range(config.layers) for name in names}
