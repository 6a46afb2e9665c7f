"""Whether a state dict fits a model, and its resizing to other projections, whose mathematics is in
``modules/resize.py``.
"""

from typing import Any

import torch
from torch import Tensor

from ..config import LinformerConfig
from ..modules.encoder_layer import build_projection
from ..modules.linear import HeadProjections
from ..modules.projection import Projection
from ..modules.resize import resize_positions, resize_projection, scale_projected_dim
from ..projected_dim import Dim
from .options import OPTION_NAMES
from .shapes import (
    CLASSIFICATION_HEADS,
    EMBEDDINGS,
    ENCODER,
    OPTION_BUFFERS,
    OUTPUT_EMBEDDINGS,
    PADDING_IDX,
    POSITIONS,
    group_projections,
    infer_config,
    is_projection_entry,
    max_positions,
    record_options,
)

_COMPARED_FIELDS = (
    "vocab_size embed_dim layers max_positions attention_heads projection sharing projected_dim local_window "
    "layer_norm_eps"
).split()
RESIZABLE_FIELDS = {"max_positions", "projected_dim", "local_window"}
"""Fields that ``fit_state_dict`` can change."""


def find_differing_fields(a: LinformerConfig, b: LinformerConfig) -> list[str]:
    """Fields in which two configurations differ, most significant first."""
    return [name for name in _COMPARED_FIELDS if getattr(a, name) != getattr(b, name)]


def describe_mismatch(model: dict[str, Tensor], checkpoint: dict[str, Tensor], tied: bool) -> str | None:
    """The most significant reason why the checkpoint does not fit the model, in one sentence; None if it fits.

    Classification heads are not compared, because fairseq adds and drops them.

    Args:
        model: state dict of the model.
        checkpoint: state dict to load.
        tied: whether the model ties its output embeddings to its input embeddings.
    """
    if not group_projections(checkpoint):
        return (
            "the checkpoint must be of linformer_roberta, but has no projections E and F; "
            "to convert a RoBERTa checkpoint, run `fairseq-linformer convert`"
        )
    if EMBEDDINGS in checkpoint and POSITIONS in checkpoint:
        config = infer_config(model)
        checkpoint_config = infer_config(checkpoint, config)
        for name in find_differing_fields(checkpoint_config, config):
            option = "dictionary entries" if name == "vocab_size" else OPTION_NAMES[name]
            hint = ", or pass --resize-checkpoint" if name in RESIZABLE_FIELDS else ""
            return (
                f"the checkpoint has {option} {getattr(checkpoint_config, name)}, this model has "
                f"{getattr(config, name)}; they must be equal{hint}"
            )
    for key, value in model.items():
        if key in checkpoint and value.shape != checkpoint[key].shape and not key.startswith(CLASSIFICATION_HEADS):
            return (
                f"{key} is {tuple(checkpoint[key].shape)} in the checkpoint and {tuple(value.shape)} in this model; "
                "they must be equal"
            )
    for owner, other, state, other_state in (
        ("the checkpoint", "this model", checkpoint, model),
        ("this model", "the checkpoint", model, checkpoint),
    ):
        extra = sorted(key for key in state if key not in other_state and not _may_be_missing(key))
        if extra:
            return f"{owner} has {extra[0]}, {other} does not; options such as pre-norm must be equal"
    output, embedding = checkpoint.get(OUTPUT_EMBEDDINGS), checkpoint.get(EMBEDDINGS)
    if tied and output is not None and embedding is not None and not torch.equal(output, embedding):
        return "the checkpoint was trained with untie_weights_roberta, this model is not; they must be equal"
    return None


def _may_be_missing(key: str) -> bool:
    """Whether a key is optional: heads, entries of E and F, which are stored in several ways, and recorded options."""
    return key.startswith(CLASSIFICATION_HEADS) or is_projection_entry(key) or key in OPTION_BUFFERS


def scale_projected_dims(state: dict[str, Tensor], default: LinformerConfig, n: int) -> list[Dim]:
    """k of each layer that keeps the features of short inputs with ``n`` positions.

    Args:
        default: as for ``infer_config``.
    """
    config = infer_config(state, default)
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
        if old_config is not None and any(key.startswith(prefix) for key in state):
            if (max_positions(state), old_config.projected_dims[layer]) == (module.n, config.projected_dims[layer]):
                _load(module, state, prefix)
            else:
                resize_projection(_load(build_projection(old_config, layer, which), state, prefix), module)
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
