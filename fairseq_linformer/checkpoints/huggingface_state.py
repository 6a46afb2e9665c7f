"""Conversion of state dicts between fairseq's names and those of ``fairseq_linformer.huggingface``.

Only prefixes differ. In ``transformers`` tied tensors are stored once, and options only in the configuration.
"""

from collections.abc import Iterable

from torch import Tensor

from ..models.state_dicts import CLASSIFICATION_HEADS, EMBEDDINGS, ENCODER, OUTPUT_EMBEDDINGS

CLASSIFIER = "classifier."
"""Prefix of the classification head in ``transformers``."""
LM_HEAD = "lm_head."
"""Prefix of the masked LM head in ``transformers``."""

State = dict[str, Tensor]


def _prefixes(head: str | None) -> list[tuple[str, str]]:
    """Pairs of prefixes, fairseq's first. Heads other than ``head`` have the same names in both."""
    pairs = [(ENCODER, "linformer.encoder."), (f"encoder.{LM_HEAD}", LM_HEAD)]
    return pairs if head is None else [*pairs, (f"{CLASSIFICATION_HEADS}{head}.", CLASSIFIER)]


def _rename(state: State, pairs: Iterable[tuple[str, str]]) -> State:
    """Replace prefixes; names with none of them stay as they are."""
    new = {}
    for key, value in state.items():
        old, prefix = next((pair for pair in pairs if key.startswith(pair[0])), ("", ""))
        new[prefix + key.removeprefix(old)] = value
    return new


def rename_to_transformers(state: State, head: str | None, tied: bool) -> State:
    """Convert a state dict from fairseq to ``transformers``.

    Args:
        head: classification head that becomes the classifier; others keep their names.
        tied: output embeddings are the input embeddings.
    """
    new = _rename(state, _prefixes(head))
    return {key: value for key, value in new.items() if not (tied and key == f"{LM_HEAD}weight")}


def rename_to_fairseq(state: State, head: str, tied: bool) -> State:
    """Convert a state dict back to fairseq: the inverse of ``rename_to_transformers``.

    Args:
        head: fairseq's name of the classifier.
    """
    new = _rename(state, [pair[::-1] for pair in _prefixes(head)])
    return {**new, OUTPUT_EMBEDDINGS: new[EMBEDDINGS]} if tied else new
