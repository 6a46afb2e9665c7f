"""Resizing of state dicts to other projections; the mathematics is in ``modules/resize.py``."""

from typing import Any

from torch import Tensor

from ..config import LinformerConfig
from ..modules.encoder_layer import build_projection
from ..modules.linear import HeadProjections
from ..modules.projection import Projection
from ..modules.resize import resize_positions, resize_projection, scale_projected_dim
from ..projected_dim import Dim
from .shapes import ENCODER, PADDING_IDX, POSITIONS, is_projection_entry


def scale_projected_dims(state: dict[str, Tensor], config: LinformerConfig, n: int) -> list[Dim]:
    """k of each layer of a model that keeps the features of short inputs with ``n`` positions."""
    modules: dict[tuple[int, str], Any] = {
        position: _load(build_projection(config, *position), state, prefix)
        for prefix, position in projection_prefixes(config).items()
    }
    heads = {key: list(m.heads) if isinstance(m, HeadProjections) else [m] for key, m in modules.items()}
    windowed = all(head.layout is not None for each in heads.values() for head in each)

    def scale(head: Any) -> int:
        return scale_projected_dim(head.k, head.n, n, head.layout if windowed else None)

    dims: list[Dim] = []
    for layer, dim in enumerate(config.projected_dims):
        scaled = [scale(head) for head in heads.get((layer, "E"), heads[0, "E"])]
        dims.append(scaled[0] if isinstance(dim, int) else tuple(scaled))
    return dims


def fit_state_dict(
    state: dict[str, Tensor], config: LinformerConfig, old_config: LinformerConfig | None = None
) -> dict[str, Tensor]:
    """Convert a state dict of RoBERTa or ``linformer_roberta`` to an encoder of this shape, without modifying it.

    Position embeddings and projections are resized if n or k differ; missing projections are initialized. Entries that
    a plain matrix lacks are added.

    Args:
        old_config: shape of the state dict's projections; None if it is ``config``.
    """
    old_config = old_config or config
    new = {key: value for key, value in state.items() if not is_projection_entry(key)}
    new[POSITIONS] = resize_positions(state[POSITIONS], config.max_positions, PADDING_IDX)
    for prefix, (layer, which) in projection_prefixes(config).items():
        module = build_projection(config, layer, which)
        if any(key.startswith(prefix) for key in state):
            old = _load(build_projection(old_config, layer, which), state, prefix)
            if (old.n, old_config.projected_dims[layer]) == (module.n, config.projected_dims[layer]):
                module = old
            else:
                resize_projection(old, module)
        new.update({prefix + key: value for key, value in module.state_dict().items()})
    return new


def _load(module: Projection, state: dict[str, Tensor], prefix: str) -> Projection:
    """Load the entries of a prefix into a module, and return it."""
    module.load_state_dict({key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)})
    return module


def projection_prefixes(config: LinformerConfig, encoder: str = ENCODER) -> dict[str, tuple[int, str]]:
    """Prefix in the state dict -> layer and name of each projection.

    Args:
        encoder: prefix of the encoder.
    """
    if config.has_single_projection:
        return {f"{encoder}E.": (0, "E")}
    names = "EF" if config.has_separate_values else "E"
    return {f"{encoder}layers.{i}.self_attn.{name}.": (i, name) for i in range(config.layers) for name in names}
