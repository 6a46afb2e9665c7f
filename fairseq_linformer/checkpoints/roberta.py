"""A Linformer from any fairseq RoBERTa: all its weights, with E and F beside them."""

import re
from typing import Any, Dict

import torch
from torch import Tensor

from ..models.options import LinformerRobertaConfig, resolve, to_linformer_config
from ..models.resize import resize_state
from ..models.shapes import ENCODER, HEADS, POSITIONS, count_layers, max_positions, projections
from ..modules.kinds import projection_of
from .files import derived, options_of

PADDING_IDX = 1
"""What every dictionary of fairseq pads with."""


def from_roberta(checkpoint: Dict[str, Any], **options: Any) -> Dict[str, Any]:
    """A checkpoint of ``linformer_roberta`` made of one of ``roberta``; the old one is not changed.

    Weights and dictionary are those of RoBERTa. E and F start as a new model's do: as window
    averages, with k = n this *is* RoBERTa, and with k = n / 2 it is RoBERTa whose keys and values
    are averaged in pairs.

    Args:
        checkpoint: what ``read_checkpoint`` gives.
        options: of ``linformer_roberta``: ``projected_dim``, ``sharing``, ``projection``,
            ``projection_init``, ...; ``max_positions`` for another length.

    Returns:
        the checkpoint, to be trained on with ``--finetune-from-model``.

    Raises:
        ValueError: this is a Linformer already, or the options do not fit.
    """
    state = modern_names(checkpoint["model"])
    if projections(state) or any(".compress_k." in key for key in state):
        raise ValueError("this is a checkpoint of a Linformer already; a RoBERTa is wanted")
    old = options_of(checkpoint["cfg"]["model"])
    if POSITIONS not in state or "encoder_attention_heads" not in old:
        raise ValueError("this is no checkpoint of fairseq's RoBERTa")
    known = LinformerRobertaConfig.__dataclass_fields__
    model = {key: value for key, value in old.items() if key in known and not key.startswith("_")}
    model.update(
        _name="linformer_roberta",
        encoder_layers=count_layers(state),
        encoder_embed_dim=state[POSITIONS].size(1),
        max_positions=max_positions(state),
        layernorm_embedding=ENCODER + "layernorm_embedding.weight" in state,
        encoder_layers_to_keep=None,
    )
    model.update({key: value for key, value in options.items() if value is not None})
    args = resolve(_Options(model), None)
    config = to_linformer_config(args, state[ENCODER + "embed_tokens.weight"].size(0), PADDING_IDX)

    n = args.max_positions
    state = resize_state(state, n) if n != max_positions(state) else dict(state)
    state.pop(ENCODER + "version", None)
    for layer in range(0 if config.one_for_all_layers else config.layers):
        for name in "EF" if config.separate_values else "E":
            state.update(_entries(f"{ENCODER}layers.{layer}.self_attn.{name}.", config, layer))
    if config.one_for_all_layers:
        state.update(_entries(f"{ENCODER}E.", config, 0))
    state[HEADS] = torch.tensor(config.attention_heads)
    resolved = {key: getattr(args, key) for key in known if not key.startswith("_")}
    return derived(checkpoint, state, {"_name": "linformer_roberta", **resolved}, n)


class _Options(dict):
    """Options by attribute, as fairseq hands them on."""

    __getattr__ = dict.get


def _entries(prefix: str, config, layer: int) -> Dict[str, Tensor]:
    return {prefix + key: value for key, value in projection_of(config, layer).state_dict().items()}


def modern_names(state: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """The state dict with the names of fairseq 0.12, as its own models read older ones: roberta.base and
    roberta.large call the encoder ``decoder``, and have queries, keys and values in one matrix."""
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
