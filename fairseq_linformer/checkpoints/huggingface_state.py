"""The tensors of a model under fairseq's names and under those of ``fairseq_linformer.huggingface``.

Only prefixes differ. A tensor that two names share is kept once, and what a configuration says
already (the number of heads) is left out.
"""

from typing import Dict, Optional

import torch
from torch import Tensor

from ..models.shapes import ATTENTION_HEADS, CLASSIFICATION_HEADS, EMBEDDINGS, ENCODER, head_names

THEIR_ENCODER = "linformer.encoder."
LM_HEAD, THEIR_LM_HEAD = "encoder.lm_head.", "lm_head."
THEIR_HEAD = "classifier."
OUTPUT = LM_HEAD + "weight"

State = Dict[str, Tensor]


def choose_head(state: State, wanted: Optional[str]) -> Optional[str]:
    """Which head becomes the classifier: the one that is wanted, or the only one.

    Raises:
        ValueError: there is no such head, there are several, or it is one with spectral norm.
    """
    names = head_names(state)
    if wanted is None and len(names) > 1:
        raise ValueError(f"the checkpoint has the heads {', '.join(names)}; choose one of them with --head")
    if wanted is not None and wanted not in names:
        raise ValueError(f"head is {wanted!r}; the checkpoint has {', '.join(names) or 'no classification head'}")
    name = wanted or (names[0] if names else None)
    if name is not None and f"{CLASSIFICATION_HEADS}{name}.out_proj.weight_orig" in state:
        raise ValueError(
            f"the head {name} was trained with spectral_norm_classification_head, which cannot be exported"
        )
    return name


def to_theirs(state: State, head: Optional[str], tied: bool) -> State:
    """A fairseq state dict under the names of ``transformers``.

    Args:
        head: the classification head that becomes the classifier; others keep their names.
        tied: the output embeddings are the input embeddings.

    Raises:
        ValueError: a tensor has no place there, or the embeddings are not tied.
    """
    if tied and OUTPUT in state and not torch.equal(state[OUTPUT], state[EMBEDDINGS]):
        raise ValueError(
            f"{OUTPUT} differs from {EMBEDDINGS}, and the cfg has no untie_weights_roberta; they must be equal"
        )
    theirs = {}
    for key, value in state.items():
        if key == ATTENTION_HEADS or (tied and key == OUTPUT):
            continue
        if key.startswith(ENCODER):
            name = THEIR_ENCODER + key[len(ENCODER) :]
        elif key.startswith(LM_HEAD):
            name = THEIR_LM_HEAD + key[len(LM_HEAD) :]
        elif head is not None and key.startswith(f"{CLASSIFICATION_HEADS}{head}."):
            name = THEIR_HEAD + key[len(f"{CLASSIFICATION_HEADS}{head}.") :]
        elif key.startswith(CLASSIFICATION_HEADS):
            name = key
        else:
            raise ValueError(
                f"{key} is in the checkpoint and belongs to no part of linformer_roberta that can be exported"
            )
        theirs[name] = value.contiguous()
    return theirs


def to_ours(state: State, head: str, tied: bool, attention_heads: int) -> State:
    """The inverse of ``to_theirs``, for the tensors of a whole model.

    Args:
        head: what fairseq calls the classifier.
        attention_heads: H.
    """
    ours = {}
    for key, value in state.items():
        for theirs, prefix in (
            (THEIR_ENCODER, ENCODER),
            (THEIR_LM_HEAD, LM_HEAD),
            (THEIR_HEAD, f"{CLASSIFICATION_HEADS}{head}."),
        ):
            if key.startswith(theirs):
                key = prefix + key[len(theirs) :]
                break
        ours[key] = value
    ours[ATTENTION_HEADS] = torch.tensor(attention_heads, dtype=ours[EMBEDDINGS].dtype)
    if tied:
        ours[OUTPUT] = ours[EMBEDDINGS]
    return ours


def difference(wanted: State, given: State) -> Optional[str]:
    """Why the tensors ``given`` are not those of a model with the tensors ``wanted``; None if they are."""
    for key, value in wanted.items():
        if key not in given:
            return f"{key} is missing"
        if given[key].shape != value.shape:
            return f"{key} is {tuple(given[key].shape)}; it must be {tuple(value.shape)}"
    for key in given:
        if key not in wanted:
            return f"{key} has no place in this model"
    return None
