"""Conversion of state dicts between fairseq's names and those of ``fairseq_linformer.huggingface``.

Only prefixes differ. In ``transformers`` tied tensors are stored once, and options only in the configuration.
"""

from torch import Tensor

from ..models.state_dicts import CLASSIFICATION_HEADS, EMBEDDINGS, ENCODER, OUTPUT_EMBEDDINGS

CLASSIFIER = "classifier."
"""Prefix of the classification head in ``transformers``."""
LM_HEAD = "lm_head."
"""Prefix of the masked LM head in ``transformers``."""

State = dict[str, Tensor]


def _rename(state: State, head: str | None, to_transformers: bool) -> State:
    """Replace prefixes; names with none of them, such as those of other heads, stay as they are."""
    prefixes = {
        ENCODER: "linformer.encoder.",
        f"encoder.{LM_HEAD}": LM_HEAD,
        f"{CLASSIFICATION_HEADS}{head}.": CLASSIFIER,
    }
    if not to_transformers:
        prefixes = {new: old for old, new in prefixes.items()}
    renamed = {}
    for key, value in state.items():
        old = next(filter(key.startswith, prefixes), "")
        renamed[prefixes.get(old, "") + key.removeprefix(old)] = value
    return renamed


def rename_to_transformers(state: State, head: str | None, tied: bool) -> State:
    """Convert a state dict from fairseq to ``transformers``.

    Args:
        head: classification head that becomes the classifier; others keep their names. None without heads.
        tied: output embeddings are the input embeddings.
    """
    return _rename({key: value for key, value in state.items() if not (tied and key == OUTPUT_EMBEDDINGS)}, head, True)


def rename_to_fairseq(state: State, head: str, tied: bool) -> State:
    """Convert a state dict back to fairseq: the inverse of ``rename_to_transformers``.

    Args:
        head: fairseq's name of the classifier.
    """
    new = _rename(state, head, False)
    return {**new, OUTPUT_EMBEDDINGS: new[EMBEDDINGS]} if tied else new
