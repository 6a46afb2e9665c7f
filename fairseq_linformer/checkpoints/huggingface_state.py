"""Conversion of state dicts between fairseq's names and those of ``fairseq_linformer.huggingface``.

Only prefixes differ. In ``transformers`` tied tensors are stored once, and options only in the configuration.
"""

from contextlib import suppress

import torch
from torch import Tensor

from ..config import LinformerConfig
from ..models.shapes import CLASSIFICATION_HEADS, EMBEDDINGS, ENCODER, OUTPUT_EMBEDDINGS, projection_prefixes
from ..modules.encoder_layer import build_projection

CLASSIFIER = "classifier."
"""Prefix of the classification head in ``transformers``."""
LM_HEAD = "lm_head."
"""Prefix of the masked LM head in ``transformers``."""

State = dict[str, Tensor]

ENCODER_PREFIX = "linformer.encoder."
"""Prefix of the encoder in ``transformers``."""


def _prefixes(head: str | None) -> list[tuple[str, str]]:
    """Pairs of prefixes, fairseq's first. Heads other than ``head`` have the same names in both."""
    pairs = [(ENCODER, ENCODER_PREFIX), (f"encoder.{LM_HEAD}", LM_HEAD)]
    if head is not None:
        pairs.append((f"{CLASSIFICATION_HEADS}{head}.", CLASSIFIER))
    return [*pairs, (CLASSIFICATION_HEADS, CLASSIFICATION_HEADS)]


def upgrade_projections(state: State, config: LinformerConfig, encoder: str = ENCODER) -> State:
    """Store E and F as a model of this configuration does, whatever the version that saved them.

    Entries that are incomplete or of other shapes stay as they are.

    Args:
        state: not modified.
        encoder: prefix of the encoder.
    """
    new = dict(state)
    for prefix, (layer, which) in projection_prefixes(config, encoder).items():
        entries = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        if not entries:
            continue
        module = build_projection(config, layer, which).to(next(iter(entries.values())).dtype)
        with suppress(RuntimeError):
            module.load_state_dict(entries)
            new = {key: value for key, value in new.items() if not key.startswith(prefix)}
            new.update({prefix + key: value for key, value in module.state_dict().items()})
    return new


def to_transformers(state: State, head: str | None, tied: bool) -> State:
    """Convert a state dict from fairseq to ``transformers``.

    Args:
        head: classification head that becomes the classifier; others keep their names.
        tied: output embeddings are the input embeddings.
    """
    if tied and OUTPUT_EMBEDDINGS in state and not torch.equal(state[OUTPUT_EMBEDDINGS], state[EMBEDDINGS]):
        raise ValueError(f"{OUTPUT_EMBEDDINGS} must equal {EMBEDDINGS} without untie_weights_roberta")
    new = {}
    for key, value in state.items():
        if tied and key == OUTPUT_EMBEDDINGS:
            continue
        pair = next((pair for pair in _prefixes(head) if key.startswith(pair[0])), None)
        if pair is None:
            raise ValueError(f"{key} cannot be exported: it is not a weight of linformer_roberta")
        new[pair[1] + key.removeprefix(pair[0])] = value.contiguous()
    return new


def to_fairseq(state: State, head: str, tied: bool) -> State:
    """Convert a state dict back to fairseq: the inverse of ``to_transformers``.

    Args:
        head: fairseq's name of the classifier.
    """
    new = {}
    for key, value in state.items():
        fairseq, transformers = next(pair for pair in _prefixes(head) if key.startswith(pair[1]))
        new[fairseq + key.removeprefix(transformers)] = value
    if tied:
        new[OUTPUT_EMBEDDINGS] = new[EMBEDDINGS]
    return new
