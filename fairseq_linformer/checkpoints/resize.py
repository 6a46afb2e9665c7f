"""A checkpoint for other lengths and another k; what is done is in ``modules/resize.py``."""

from argparse import Namespace
from typing import Any, Dict, Optional

from ..models.options import resolve, to_linformer_config
from ..models.resize import default_dims, resize_state
from ..models.shapes import EMBEDDINGS, PADDING_IDX, count_layers, current_names, max_positions, projections
from ..projected_dim import parse, short_form
from .authors import from_authors
from .files import derived, node
from .projections import with_projections


def resize(checkpoint: Dict[str, Any], n: Optional[int] = None, projected_dim: Any = None) -> Dict[str, Any]:
    """A checkpoint for other lengths or another k; the old one is not changed.

    Args:
        checkpoint: what ``read_checkpoint`` gives, of ``linformer_roberta``, of the authors' model
            or, with no k, of ``roberta``.
        n: the new ``max_positions``; None to leave it.
        projected_dim: the new k, in any form; None for the one that leaves the features of short
            inputs as they are: k in proportion to n, or without windows k as it was.

    Returns:
        the checkpoint, to be trained on or finetuned with ``--finetune-from-model``.

    Raises:
        ValueError: neither is given, or they do not fit the model.
    """
    if n is None and projected_dim is None:
        raise ValueError("neither max_positions nor projected_dim is given; there is nothing to resize")
    checkpoint = from_authors(checkpoint)
    options, state = node(checkpoint, "model"), current_names(checkpoint["model"])
    n = max_positions(state) if n is None else n
    if not projections(state):
        if projected_dim is not None:
            raise ValueError("this RoBERTa has no projections to resize; projected_dim is for convert from-roberta")
        return derived(checkpoint, resize_state(state, n), {**options, "max_positions": n}, n)
    dims = default_dims(state, n)
    if projected_dim is not None:
        dims = parse(projected_dim, count_layers(state), options["encoder_attention_heads"])
    options.update(max_positions=n, projected_dim=short_form(dims))
    # Refuses what does not fit the model.
    config = to_linformer_config(resolve(Namespace(**options), None), state[EMBEDDINGS].size(0), PADDING_IDX)
    return derived(checkpoint, with_projections(resize_state(state, n, dims), config), options, n)
