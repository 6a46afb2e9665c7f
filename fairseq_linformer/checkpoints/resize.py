"""A checkpoint for other lengths and another k; the mathematics is in ``modules/resize.py``."""

from typing import Any, Dict, Optional

from ..models.resize import default_dims, with_projections
from ..models.shapes import PADDING_IDX, POSITIONS, count_layers, current_names, max_positions, projections
from ..modules.resize import resize_positions
from ..projected_dim import parse, short_form
from .authors import from_authors
from .files import derived, node, resolved


def resize(checkpoint: Dict[str, Any], n: Optional[int] = None, projected_dim: Any = None) -> Dict[str, Any]:
    """A checkpoint for other lengths or another k; the old one is not changed.

    Args:
        checkpoint: what ``read_checkpoint`` returns, of ``linformer_roberta``, of the authors' model or, with no k, of
            ``roberta``.
        n: the new ``max_positions``; None to leave it.
        projected_dim: the new k, in any form; None for the one that leaves the features of short inputs as they are: k
            in proportion to n, or without windows the old k.

    Returns:
        the checkpoint, to be trained on or finetuned with ``--finetune-from-model``.

    Raises:
        ValueError: neither is given, or they do not fit the model.
    """
    if n is None and projected_dim is None:
        raise ValueError("neither max_positions nor projected_dim is given; there is nothing to resize")
    checkpoint = from_authors(checkpoint)
    options, state = node(checkpoint, "model"), current_names(checkpoint["model"])
    options["max_positions"] = max_positions(state) if n is None else n
    if not projections(state):
        if projected_dim is not None:
            raise ValueError("this RoBERTa has no projections to resize; projected_dim is for convert from-roberta")
        state[POSITIONS] = resize_positions(state[POSITIONS], n, PADDING_IDX)
        return derived(checkpoint, state, options)
    if projected_dim is None:
        dims = default_dims(state, n)
    else:
        dims = parse(projected_dim, count_layers(state), options["encoder_attention_heads"])
    options["projected_dim"] = short_form(dims)
    _, config = resolved(options, state)
    return derived(checkpoint, with_projections(state, config), options)
