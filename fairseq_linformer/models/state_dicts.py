"""State dicts of a model: their names, what their shapes say, new E and F, and another n (``modules/resize.py``)."""

import re
from dataclasses import replace

from torch import Tensor

from ..config import Dim, LinformerConfig, format_projected_dim
from ..modules.encoder_layer import build_projection
from ..modules.linear import HeadProjections
from ..modules.projection import upgrade_entries
from ..modules.resize import resize_positions, resize_projection, scale_projected_dim

ENCODER = "encoder.sentence_encoder."
EMBEDDINGS = ENCODER + "embed_tokens.weight"
POSITIONS = ENCODER + "embed_positions.weight"
OUTPUT_EMBEDDINGS, OUTPUT_BIAS = "encoder.lm_head.weight", "encoder.lm_head.bias"
CLASSIFICATION_HEADS = "classification_heads."
PADDING_IDX = 1
"""Token ID of padding in fairseq's dictionaries."""

OLD_BUFFERS = ("encoder.attention_heads", "encoder.local_window", "encoder.log10_layer_norm_eps")
"""Buffers by which earlier versions recorded options, which the configuration of a checkpoint has, too."""
VERSION = ENCODER + "version"
"""A buffer of fairseq's RoBERTa, without which it takes a pre-norm checkpoint for one without a final layer norm."""

_PROJECTION = re.compile(r".*encoder\.(?:layers\.\d+\.self_attn\.)?[EF]\.(?:heads\.\d+\.)?")
_LAYER = re.compile(re.escape(ENCODER) + r"layers\.(\d+)\.")


def drop_old_buffers(state: dict[str, Tensor], is_ours: bool) -> None:
    """Remove ``OLD_BUFFERS`` from a state dict, and ``VERSION`` from that of a model of this plugin."""
    for buffer in (*OLD_BUFFERS, *([VERSION] if is_ours else [])):
        state.pop(buffer, None)


def has_projections(state: dict[str, Tensor]) -> bool:
    """Whether a state dict has projections E and F."""
    return any(map(_PROJECTION.match, state))


def head_names(state: dict[str, Tensor]) -> list[str]:
    """Names of the classification heads, in order."""
    return list(dict.fromkeys(key.split(".")[1] for key in state if key.startswith(CLASSIFICATION_HEADS)))


def choose_head(state: dict[str, Tensor], requested: str | None, checkpoint) -> str | None:
    """The requested classification head, or the only one; None if there is none and none is requested.

    Args:
        checkpoint: path of the checkpoint, for messages.
    """
    names = head_names(state)
    if requested is None and len(names) > 1:
        raise ValueError(f"{checkpoint} has several classification heads; choose with --head from {', '.join(names)}")
    if requested is not None and requested not in names:
        known = f"choose from {', '.join(names)}" if names else "it has no classification head"
        raise ValueError(f"unknown --head {requested!r} of {checkpoint}; {known}")
    return requested or (names[0] if names else None)


def count_layers(state: dict[str, Tensor]) -> int:
    """Number of encoder layers."""
    return len({match[1] for match in map(_LAYER.match, state) if match})


def max_positions(state: dict[str, Tensor]) -> int:
    """n, also of an older state dict; real position embeddings start after the padding row."""
    (positions,) = (value for key, value in state.items() if key.endswith("sentence_encoder.embed_positions.weight"))
    return positions.size(0) - PADDING_IDX - 1


def upgrade_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the entries of an older state dict to those of fairseq 0.12, as its own models do.

    roberta.base and roberta.large name the encoder ``decoder``, and hold queries, keys and values in one matrix.
    """
    new = {}
    for key, value in state.items():
        key = re.sub(r"^decoder\.", "encoder.", key).replace(".emb_layer_norm.", ".layernorm_embedding.")
        joint = re.fullmatch(r"(.*\.self_attn\.)in_proj_(weight|bias)", key)
        if joint is None:
            new[key] = value
        else:
            for name, part in zip("qkv", value.chunk(3)):
                new[f"{joint[1]}{name}_proj.{joint[2]}"] = part.clone()
    return new


def upgrade_projections(state: dict[str, Tensor]) -> None:
    """Bring E and F of an earlier version into the form of this one, in place.

    Args:
        state: with fairseq's names or those of ``transformers``.
    """
    for prefix in {match[0] for match in map(_PROJECTION.match, state) if match}:
        upgrade_entries(state, prefix)


def add_projections(state: dict[str, Tensor], config: LinformerConfig) -> dict[str, Tensor]:
    """The state dict of RoBERTa as that of an encoder of this shape, with new E and F and its number of positions."""
    new = {**state, POSITIONS: resize_positions(state[POSITIONS], config.max_positions, PADDING_IDX)}
    for prefix, (layer, which) in projection_prefixes(config).items():
        module = build_projection(config, layer, which)
        new.update({prefix + key: value for key, value in module.state_dict().items()})
    return new


def resize_state_dict(
    state: dict[str, Tensor], config: LinformerConfig, n: int
) -> tuple[dict[str, Tensor], LinformerConfig]:
    """Resize a Linformer of this shape to n positions, with the k that keeps the features of short inputs.

    Returns:
        The state dict and its shape; the arguments are not modified.
    """
    if config.projection == "random":
        raise ValueError("random projections cannot be resized; draw new matrices instead")
    places, old = projection_prefixes(config), {}
    dims: list[Dim] = []  # of each layer, or of the E of all
    for prefix, (layer, which) in places.items():
        old[prefix] = projection = build_projection(config, layer, which)
        projection.load_state_dict({key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)})
        if which == "E":
            heads = list(projection.heads) if isinstance(projection, HeadProjections) else [projection]
            scaled = [scale_projected_dim(head.k, head.n, n, head.layout.windows) for head in heads]
            dims.append(scaled[0] if len({*scaled}) == 1 else tuple(scaled))
    new_config = replace(config, max_positions=n, projected_dim=format_projected_dim(dims))
    new = {key: value for key, value in state.items() if _PROJECTION.match(key) is None}
    new[POSITIONS] = resize_positions(state[POSITIONS], n, PADDING_IDX)
    for prefix, place in places.items():
        module = build_projection(new_config, *place)
        resize_projection(old[prefix], module)
        new.update({prefix + key: value for key, value in module.state_dict().items()})
    return new, new_config


def projection_prefixes(config: LinformerConfig) -> dict[str, tuple[int, str]]:
    """Prefix in the state dict -> layer and name of each projection."""
    if config.projection == "none":
        return {}
    if config.has_single_projection:
        return {f"{ENCODER}E.": (0, "E")}
    names = "EF" if config.has_separate_values else "E"
    return {f"{ENCODER}layers.{i}.self_attn.{name}.": (i, name) for i in range(config.layers) for name in names}
