"""Whether a checkpoint fits a model, said in one sentence."""

from typing import Dict, Optional

import torch
from torch import Tensor

from ..projected_dim import short_form
from .shapes import (
    ATTENTION_HEADS,
    ENCODER,
    count_layers,
    kind_of,
    max_positions,
    projected_dims,
    projections,
    sharing_of,
)


def describe_mismatch(model: Dict[str, Tensor], checkpoint: Dict[str, Tensor], tied: bool) -> Optional[str]:
    """Why the checkpoint does not fit the model, the most telling reason first; None if it does.

    Classification heads are not looked at: fairseq adds and drops those itself.

    Args:
        model: state dict of the model.
        checkpoint: state dict to load.
        tied: the model uses its input embeddings as output embeddings.
    """
    if not projections(checkpoint):
        return (
            "the checkpoint has no projections E and F: it was not made by linformer_roberta; "
            "`fairseq-linformer convert from-roberta` makes one of RoBERTa's"
        )
    if any("scale" in entries and "start" not in entries for entries in projections(checkpoint).values()):
        return "the checkpoint is of a development version before 0.2, whose E was scale * weight; train it anew"
    differing = [
        (what, checkpoint[ENCODER + key].size(dim), model[ENCODER + key].size(dim))
        for what, key, dim in (
            ("dictionary entries", "embed_tokens.weight", 0),
            ("encoder_embed_dim", "embed_tokens.weight", 1),
        )
        if ENCODER + key in checkpoint
    ]
    differing += [
        ("encoder_layers", count_layers(checkpoint), count_layers(model)),
        ("max_positions", max_positions(checkpoint), max_positions(model)),
        (
            "encoder_attention_heads",
            int(checkpoint.get(ATTENTION_HEADS, model[ATTENTION_HEADS])),
            int(model[ATTENTION_HEADS]),
        ),
        ("projection", kind_of(checkpoint), kind_of(model)),
        ("sharing", sharing_of(checkpoint), sharing_of(model)),
        ("projected_dim", short_form(projected_dims(checkpoint)), short_form(projected_dims(model))),
    ]
    for what, theirs, ours in differing:
        if theirs != ours:
            hint = ", or use --resize-checkpoint" if what in ("max_positions", "projected_dim") else ""
            return f"the checkpoint was made with {what} {theirs}, this model has {ours}; they must be equal{hint}"
    for key, value in model.items():
        if key in checkpoint and value.shape != checkpoint[key].shape and "classification_heads" not in key:
            return (
                f"{key} is {tuple(checkpoint[key].shape)} in the checkpoint and {tuple(value.shape)} in "
                "this model; they must be equal"
            )
    for these, those, what in ((checkpoint, model, "the checkpoint has {}, this model has not"),
                               (model, checkpoint, "this model has {}, the checkpoint has not")):  # fmt: skip
        alone = sorted(key for key in these if key not in those and not _may_be_missing(key))
        if alone:
            return (
                what.format(alone[0])
                + "; options such as pre-norm or quantisation noise must be those of the checkpoint"
            )
    output, embedding = (checkpoint.get(key) for key in ("encoder.lm_head.weight", ENCODER + "embed_tokens.weight"))
    if tied and output is not None and embedding is not None and not torch.equal(output, embedding):
        return "the checkpoint was made with untie_weights_roberta, this model without; they must be equal"
    return None


def _may_be_missing(key: str) -> bool:
    """Heads come and go; a matrix without the rest of a projection is that matrix; old checkpoints
    count no heads."""
    return (
        key.startswith("classification_heads.")
        or key.endswith((".start", ".scale", ".windows"))
        or key == ATTENTION_HEADS
    )
