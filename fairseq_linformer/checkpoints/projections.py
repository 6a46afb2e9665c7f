"""The projections of a state dict, whole."""

from typing import Dict

import torch
from torch import Tensor

from ..config import LinformerConfig
from ..models.shapes import ATTENTION_HEADS, ENCODER, projections
from ..modules.encoder_layer import projection_of


def with_projections(state: Dict[str, Tensor], config: LinformerConfig) -> Dict[str, Tensor]:
    """The state dict with all that the projections of ``config`` have: loaded from what is there of a
    projection, be it a matrix alone, and new where nothing is. The old one is not changed."""
    found = projections(state)
    new = {key: value for key, value in state.items() if not any(key.startswith(prefix) for prefix in found)}
    places = {f"{ENCODER}E.": (0, "E")}
    if not config.one_for_all_layers:
        names = "EF" if config.separate_values else "E"
        places = {f"{ENCODER}layers.{i}.self_attn.{name}.": (i, name) for i in range(config.layers) for name in names}
    for prefix, place in places.items():
        module = projection_of(config, *place)
        theirs = {key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}
        if theirs:
            module.load_state_dict(theirs)
        new.update({prefix + key: value for key, value in module.state_dict().items()})
    new[ATTENTION_HEADS] = torch.tensor(float(config.attention_heads))
    return new
