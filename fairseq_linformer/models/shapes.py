"""State dicts of a model: their names, what their shapes say, and fitting them to another n and k, whose mathematics is
in ``modules/resize.py``.
"""

import re
from typing import Any

from torch import Tensor

from ..config import LinformerConfig
from ..modules.encoder_layer import build_projection
from ..modules.linear import AnyProjection, HeadProjections
from ..modules.resize import resize_positions, resize_projection, scale_projected_dim
from ..projected_dim import Dim

ENCODER = "encoder.sentence_encoder."
EMBEDDINGS = ENCODER + "embed_tokens.weight"
POSITIONS = ENCODER + "embed_positions.weight"
OUTPUT_EMBEDDINGS, OUTPUT_BIAS = "encoder.lm_head.weight", "encoder.lm_head.bias"
CLASSIFICATION_HEADS = "classification_heads."
PADDING_IDX = 1
"""Token ID of padding in fairseq's dictionaries."""

OLD_BUFFERS = ("encoder.attention_heads", "encoder.local_window", "encoder.log10_layer_norm_eps")
"""Buffers by which earlier versions recorded options, which the configuration of a checkpoint has, too."""

_PROJECTION = re.compile(re.escape(ENCODER) + r"(?:layers\.\d+\.self_attn\.)?[EF]\.")
_LAYER = re.compile(re.escape(ENCODER) + r"layers\.(\d+)\.")


def drop_old_buffers(state: dict[str, Tensor]) -> None:
    """Remove ``OLD_BUFFERS`` from a state dict."""
    for buffer in OLD_BUFFERS:
        state.pop(buffer, None)


def has_projections(state: dict[str, Tensor]) -> bool:
    """Whether a state dict has projections E and F."""
    return any(map(is_projection_entry, state))


def is_projection_entry(key: str) -> bool:
    """Whether a key of a state dict belongs to E or F."""
    return _PROJECTION.match(key) is not None


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
    """n; real position embeddings start after the padding row."""
    return state[POSITIONS].size(0) - PADDING_IDX - 1


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
            elif config.projection == "random":
                raise ValueError("random projections cannot be resized; draw new matrices instead")
            else:
                resize_projection(old, module)
        new.update({prefix + key: value for key, value in module.state_dict().items()})
    return new


def _load(module: AnyProjection, state: dict[str, Tensor], prefix: str) -> AnyProjection:
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
