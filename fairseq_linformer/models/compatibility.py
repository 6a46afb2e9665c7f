"""Why a checkpoint does not fit a model, in one sentence."""

from typing import Dict, List, Optional

import torch
from torch import Tensor

from ..config import LinformerConfig
from .options import OPTION_NAMES
from .shapes import (
    ATTENTION_HEADS, CLASSIFICATION_HEADS, EMBEDDINGS, OUTPUT_EMBEDDINGS, POSITIONS, projections, shape_of,
)  # fmt: skip

_COMPARED = (
    "vocab_size", "embed_dim", "layers", "max_positions", "attention_heads", "projection", "sharing", "projected_dim",
)  # fmt: skip
RESIZABLE = {"max_positions", "projected_dim"}
"""Fields that ``with_projections`` can change."""


def differing_fields(a: LinformerConfig, b: LinformerConfig) -> List[str]:
    """The fields in which two shapes differ, the most telling one first."""
    return [name for name in _COMPARED if getattr(a, name) != getattr(b, name)]


def describe_mismatch(model: Dict[str, Tensor], checkpoint: Dict[str, Tensor], tied: bool) -> Optional[str]:
    """Why the checkpoint does not fit the model, the most telling reason first; None if it does.

    Classification heads are not compared: fairseq adds and drops those itself.

    Args:
        model: state dict of the model.
        checkpoint: state dict to load.
        tied: the model uses its input embeddings as output embeddings.
    """
    found = projections(checkpoint)
    if not found:
        return (
            "the checkpoint has no projections E and F: it was not made by linformer_roberta; "
            "`fairseq-linformer convert from-roberta` makes one of RoBERTa's"
        )
    if any("scale" in entries and "start" not in entries for entries in found.values()):
        return "the checkpoint is of a development version before 0.2, whose E was scale * weight; train it again"
    if EMBEDDINGS in checkpoint and POSITIONS in checkpoint:
        ours = shape_of(model)
        theirs = shape_of(checkpoint, ours.attention_heads)
        for name in differing_fields(theirs, ours):
            what = "dictionary entries" if name == "vocab_size" else OPTION_NAMES[name]
            hint = ", or use --resize-checkpoint" if name in RESIZABLE else ""
            return (
                f"the checkpoint was made with {what} {getattr(theirs, name)}, this model has {getattr(ours, name)}; "
                f"they must be equal{hint}"
            )
    for key, value in model.items():
        if key in checkpoint and value.shape != checkpoint[key].shape and not key.startswith(CLASSIFICATION_HEADS):
            return (
                f"{key} is {tuple(checkpoint[key].shape)} in the checkpoint and {tuple(value.shape)} in this model; "
                "they must be equal"
            )
    for what, these, those in (
        ("the checkpoint has {}, this model has not", checkpoint, model),
        ("this model has {}, the checkpoint has not", model, checkpoint),
    ):
        extra = sorted(key for key in these if key not in those and not _may_be_missing(key))
        if extra:
            return f"{what.format(extra[0])}; options such as pre-norm must be those of the checkpoint"
    output, embedding = checkpoint.get(OUTPUT_EMBEDDINGS), checkpoint.get(EMBEDDINGS)
    if tied and output is not None and embedding is not None and not torch.equal(output, embedding):
        return "the checkpoint was made with untie_weights_roberta, this model without; they must be equal"
    return None


def _may_be_missing(key: str) -> bool:
    """Heads come and go, a matrix alone is a projection too, and old checkpoints do not count heads."""
    return (
        key.startswith(CLASSIFICATION_HEADS) or key.endswith((".start", ".scale", ".windows")) or key == ATTENTION_HEADS
    )
