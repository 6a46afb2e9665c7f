"""Checkpoints as Linformers: those of the authors' code and of RoBERTa, and those of another n."""

from typing import Any

from ..config import LinformerConfig, check_value
from ..models import authors_plugin
from ..models.options import LinformerRobertaConfig, collect_options
from ..models.state_dicts import (
    ENCODER,
    PADDING_IDX,
    POSITIONS,
    VERSION,
    add_projections,
    count_layers,
    has_projections,
    max_positions,
    resize_state_dict,
    upgrade_names,
)
from ..modules.resize import resize_positions
from .files import get_cfg_section, replace_model, resolve_model

MAX_DEFAULT_K = 256
DEFAULT_LOCAL_WINDOW = 16
"""Without a window, hit@1 among long articles falls by 3 points (results/long_documents)."""


def from_authors(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Convert a checkpoint of the authors' plugin to ``linformer_roberta``; return any other checkpoint unchanged."""
    if not authors_plugin.is_authors_state_dict(checkpoint["model"]):
        return checkpoint
    state, sharing, untied = authors_plugin.convert_state_dict(checkpoint["model"])
    args, _ = resolve_model({**get_cfg_section(checkpoint, "model"), "max_positions": max_positions(state)}, state)
    args.sharing = sharing or args.sharing  # version 1 did not share the matrices that its options say are shared
    args.untie_weights_roberta = args.untie_weights_roberta or untied
    # The authors' matrices have no windows. Finetuning from scratch uses these options, and must have none either.
    options = {"_name": args.arch, **collect_options(args), "projection_init": "normal"}
    return replace_model(checkpoint, state, options)


def to_linformer(checkpoint: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Convert a checkpoint of ``roberta`` to one of ``linformer_roberta`` to continue from with
    ``--finetune-from-model``; the original is unchanged.

    Weights and dictionary are RoBERTa's. By default k is n / 4, at most 256, the local window 16, and linear E and F
    are ``graded``: inputs of at most k / 2 tokens keep their features. With k = n all inputs do, and without
    projection.

    Args:
        checkpoint: from ``read_checkpoint``.
        options: options of ``linformer_roberta``, such as ``projected_dim`` and ``sharing``; ``max_positions`` also
            changes n.
    """
    state, old = upgrade_names(checkpoint["model"]), get_cfg_section(checkpoint, "model")
    if has_projections(state) or authors_plugin.is_authors_state_dict(state):
        raise ValueError("the checkpoint is already a Linformer; expected a RoBERTa")
    known = LinformerRobertaConfig.__dataclass_fields__
    model = {key: value for key, value in old.items() if key in known and not key.startswith("_")}
    n, projection = options.get("max_positions") or max_positions(state), options.get("projection", "linear")
    model.update(
        _name="linformer_roberta",
        encoder_layers=count_layers(state),
        encoder_embed_dim=state[POSITIONS].size(1),
        max_positions=n,
        layernorm_embedding=ENCODER + "layernorm_embedding.weight" in state,
        quant_noise_pq=0.0,  # which has only been drawn in training
        projection=projection,
    )
    if projection != "none":
        model.update(
            projected_dim=max(1, min(n // 4, MAX_DEFAULT_K)),
            local_window=min(DEFAULT_LOCAL_WINDOW, n - 1),
            projection_init="graded" if projection == "linear" else None,
        )
    args, config = resolve_model({**model, **options}, state)
    state.pop(VERSION, None)
    return replace_model(checkpoint, add_projections(state, config), {"_name": args.arch, **collect_options(args)})


def resize(checkpoint: dict[str, Any], n: int) -> dict[str, Any]:
    """Resize a checkpoint of a Linformer or of RoBERTa to n positions, as ``to_linformer``.

    E and F get the k that keeps the features of short inputs: with windows the one that keeps their length, without
    windows the old k.
    """
    options, state = get_cfg_section(checkpoint, "model"), upgrade_names(checkpoint["model"])
    if has_projections(state):
        _, config = resolve_model({**options, "max_positions": max_positions(state)}, state)
        state, config = resize_state_dict(state, config, n)
        options["projected_dim"] = config.projected_dim
    else:
        check_value(LinformerConfig.__dataclass_fields__["max_positions"], n, "max_positions")
        state[POSITIONS] = resize_positions(state[POSITIONS], n, PADDING_IDX)
    return replace_model(checkpoint, state, {**options, "max_positions": n})
