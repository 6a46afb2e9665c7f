"""Conversion of checkpoints of the authors' plugin."""

from dataclasses import replace
from typing import Any

from ..models import authors_plugin
from ..models.options import collect_options
from ..models.shapes import fit_state_dict, max_positions
from .files import get_cfg_section, replace_model, resolve_model


def from_authors(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Convert a checkpoint of the authors' plugin to ``linformer_roberta``; return any other checkpoint unchanged.

    Raises:
        ValueError: an option has no equivalent.
    """
    if not authors_plugin.is_authors_state_dict(checkpoint["model"]):
        return checkpoint
    state, sharing, untied = authors_plugin.convert_state_dict(checkpoint["model"])
    args, config = resolve_model({**get_cfg_section(checkpoint, "model"), "max_positions": max_positions(state)}, state)
    if sharing is not None:  # version 1 did not share the matrices that its options say are shared
        args.sharing, config = sharing, replace(config, sharing=sharing)
    args.untie_weights_roberta = args.untie_weights_roberta or untied
    # The authors' matrices have no windows. Finetuning from scratch uses these options, and must have none either.
    options = {"_name": args.arch, **collect_options(args), "projection_init": "normal"}
    return replace_model(checkpoint, fit_state_dict(state, config), options)
