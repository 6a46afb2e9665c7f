"""The tensors of a model under fairseq's names and under those of ``fairseq_linformer.huggingface``.

Only prefixes differ. A tensor with two names is kept once, and what the configuration says already (the number of
heads) is left out.
"""

from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor

from ..models.shapes import ATTENTION_HEADS, CLASSIFICATION_HEADS, EMBEDDINGS, ENCODER, OUTPUT_EMBEDDINGS, head_names

CLASSIFIER = "classifier."
"""Prefix of the classification head in ``transformers``."""

State = Dict[str, Tensor]


def _prefixes(head: Optional[str]) -> List[Tuple[str, str]]:
    """Pairs of prefixes, fairseq's first; other heads than ``head`` have the same names in both."""
    pairs = [(ENCODER, "linformer.encoder."), ("encoder.lm_head.", "lm_head.")]
    if head is not None:
        pairs.append((f"{CLASSIFICATION_HEADS}{head}.", CLASSIFIER))
    return [*pairs, (CLASSIFICATION_HEADS, CLASSIFICATION_HEADS)]


def choose_head(state: State, requested: Optional[str]) -> Optional[str]:
    """Which head becomes the classifier: the requested one, or the only one.

    Raises:
        ValueError: there is no such head, there are several, or it is one with spectral norm.
    """
    names = head_names(state)
    if requested is None and len(names) > 1:
        raise ValueError(f"the checkpoint has the heads {', '.join(names)}; choose one of them with --head")
    if requested is not None and requested not in names:
        raise ValueError(f"head is {requested!r}; the checkpoint has {', '.join(names) or 'no classification head'}")
    name = requested or (names[0] if names else None)
    if name is not None and f"{CLASSIFICATION_HEADS}{name}.out_proj.weight_orig" in state:
        raise ValueError(
            f"the head {name} was trained with spectral_norm_classification_head, which cannot be exported"
        )
    return name


def to_transformers(state: State, head: Optional[str], tied: bool) -> State:
    """A fairseq state dict under the names of ``transformers``.

    Args:
        head: the classification head that becomes the classifier; others keep their names.
        tied: the output embeddings are the input embeddings.

    Raises:
        ValueError: a tensor has no place there, or the embeddings are not tied.
    """
    if tied and OUTPUT_EMBEDDINGS in state and not torch.equal(state[OUTPUT_EMBEDDINGS], state[EMBEDDINGS]):
        raise ValueError(
            f"{OUTPUT_EMBEDDINGS} differs from {EMBEDDINGS}; without untie_weights_roberta they must be equal"
        )
    left_out = {ATTENTION_HEADS, OUTPUT_EMBEDDINGS} if tied else {ATTENTION_HEADS}
    new = {}
    for key, value in state.items():
        if key in left_out:
            continue
        pair = next((pair for pair in _prefixes(head) if key.startswith(pair[0])), None)
        if pair is None:
            raise ValueError(
                f"{key} is in the checkpoint and belongs to no part of linformer_roberta that can be exported"
            )
        new[pair[1] + key.removeprefix(pair[0])] = value.contiguous()
    return new


def to_fairseq(state: State, head: str, tied: bool, attention_heads: int) -> State:
    """The inverse of ``to_transformers``, for the tensors of a whole model.

    Args:
        head: what fairseq calls the classifier.
        attention_heads: H.
    """
    new = {}
    for key, value in state.items():
        fairseq, theirs = next(pair for pair in _prefixes(head) if key.startswith(pair[1]))
        new[fairseq + key.removeprefix(theirs)] = value
    new[ATTENTION_HEADS] = torch.tensor(attention_heads, dtype=new[EMBEDDINGS].dtype)
    if tied:
        new[OUTPUT_EMBEDDINGS] = new[EMBEDDINGS]
    return new


def difference(expected: State, given: State) -> Optional[str]:
    """Why the tensors ``given`` are not those of a model with the tensors ``expected``; None if they are."""
    for key, value in expected.items():
        if key not in given:
            return f"{key} is missing"
        if given[key].shape != value.shape:
            return f"{key} is {tuple(given[key].shape)}; it must be {tuple(value.shape)}"
    unexpected = next((key for key in given if key not in expected), None)
    return None if unexpected is None else f"{unexpected} has no place in this model"
