"""Fits a state dict to an encoder with other projections; the mathematics is in ``modules/resize.py``."""

from torch import Tensor

from ..config import LinformerConfig
from ..modules.encoder_layer import build_projection
from ..modules.projection import NO_WINDOWS
from ..modules.resize import resize_positions, resize_projection, scale_projected_dim
from ..projected_dim import Dim
from .shapes import ENCODER, PADDING_IDX, POSITIONS, group_projections, infer_config, max_positions, record_options


def scale_projected_dims(state: dict[str, Tensor], n: int) -> list[Dim]:
    """k of each layer that keeps the features of short inputs with ``n`` positions."""
    windowed = all(
        not entries.keys() & {"weight", "delta"}
        or "conv" in entries
        or float(entries.get("windows", NO_WINDOWS)) != NO_WINDOWS
        for entries in group_projections(state).values()
    )

    def scale(k: int) -> int:
        return scale_projected_dim(k, max_positions(state), n, windowed)

    dims = infer_config(state).projected_dims
    return [scale(k) if isinstance(k, int) else tuple(map(scale, k)) for k in dims]


def fit_state_dict(state: dict[str, Tensor], config: LinformerConfig) -> dict[str, Tensor]:
    """Convert a state dict of RoBERTa or ``linformer_roberta`` to an encoder of this shape, without modifying it.

    Position embeddings and projections are resized if n or k differ; missing projections are initialized. Entries that
    a plain matrix lacks are added.

    Raises:
        ValueError: a random projection needs resizing.
    """
    old_prefixes = tuple(group_projections(state))
    new = {key: value for key, value in state.items() if not key.startswith(old_prefixes)}
    new[POSITIONS] = resize_positions(state[POSITIONS], config.max_positions, PADDING_IDX)
    new.update(record_options(config))
    old_config = infer_config(state, config) if old_prefixes else None
    for prefix, (layer, which) in projection_prefixes(config).items():
        module = build_projection(config, layer, which)
        entries = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        if entries and old_config is not None:
            old = build_projection(old_config, layer, which)
            old.load_state_dict(entries)
            if (old.n, old_config.projected_dims[layer]) == (module.n, config.projected_dims[layer]):
                module.load_state_dict(entries)
            else:
                resize_projection(old, module)
        new.update({prefix + key: value for key, value in module.state_dict().items()})
    return new


def projection_prefixes(config: LinformerConfig, encoder: str = ENCODER) -> dict[str, tuple[int, str]]:
    """Prefix in the state dict -> layer and name of each projection.

    Args:
        encoder: prefix of the encoder.
    """
    if config.has_single_projection:
        return {f"{encoder}E.": (0, "E")}
    names = "EF" if config.has_separate_values else "E"
    return {f"{encoder}layers.{i}.self_attn.{name}.": (i, name) for i in range(config.layers) for name in names}
