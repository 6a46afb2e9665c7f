"""Checks whether a checkpoint fits a model."""

import torch
from torch import Tensor

from ..config import LinformerConfig
from .options import OPTION_NAMES
from .shapes import (
    CLASSIFICATION_HEADS,
    EMBEDDINGS,
    OPTION_BUFFERS,
    OUTPUT_EMBEDDINGS,
    POSITIONS,
    group_projections,
    infer_config,
    is_projection_entry,
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
    projections = group_projections(checkpoint)
    if not projections:
        return (
            "the checkpoint must be of linformer_roberta, but has no projections E and F; "
            "to convert a RoBERTa checkpoint, run `fairseq-linformer convert from-roberta`"
        )
    if any("scale" in entries and "start" not in entries for entries in projections.values()):
        return "the checkpoint is of a development version before 0.2, where E was scale * weight; train it again"
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
