"""A checkpoint for other lengths and another k; what is done is in ``modules/resize.py``."""

from argparse import Namespace
from typing import Any, Dict, Optional

from ..models.options import resolve, to_linformer_config
from ..models.resize import default_dims, resize_state
from ..models.shapes import EMBEDDINGS, HEADS, count_layers, max_positions, projections, sharing_of
from ..projected_dim import parse, short_form
from .authors import PADDING_IDX, modern
from .files import derived, node
from .projections import with_projections
from .roberta import modern_names


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
    checkpoint = modern(checkpoint)
    options, state = node(checkpoint, "model"), modern_names(checkpoint["model"])
    n = max_positions(state) if n is None else n
    if n < 1:
        raise ValueError(f"max_positions is {n}; it must be at least 1")
    if not projections(state):
        if projected_dim is not None:
            raise ValueError("this RoBERTa has no projections to resize; projected_dim is for convert from-roberta")
        return derived(checkpoint, resize_state(state, n), {**options, "max_positions": n}, n)
    if options.get("projection") == "random":
        raise ValueError("projection is random: its matrices are drawn, not learnt, and are not resized; draw new ones")
    layers, heads = count_layers(state), int(state[HEADS])
    dims = default_dims(state, n) if projected_dim is None else parse(projected_dim, layers, heads)
    flat = [k for dim in dims for k in ((dim,) if isinstance(dim, int) else dim)]
    if not all(1 <= k <= n for k in flat):
        raise ValueError(f"projected_dim is {short_form(dims)}; it must be between 1 and max_positions, which is {n}")
    if options.get("sharing") != "none" and not all(isinstance(dim, int) for dim in dims):
        raise ValueError(f"projected_dim is {short_form(dims)}; only with sharing none can heads differ")
    if sharing_of(state) == "layerwise" and len(set(dims)) > 1:
        raise ValueError(f"projected_dim is {short_form(dims)}; with layerwise sharing it must be one number")
    options.update(max_positions=n, projected_dim=short_form(dims))
    config = to_linformer_config(resolve(Namespace(**options), None), state[EMBEDDINGS].size(0), PADDING_IDX)
    return derived(checkpoint, with_projections(resize_state(state, n, dims), config), options, n)
