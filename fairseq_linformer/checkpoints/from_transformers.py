"""Conversion of an encoder of ``transformers`` to a folder for fairseq, as RoBERTa or as a Linformer."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import fairseq
import torch

from .. import __version__
from ..data.tokenizer_files import DICTIONARY
from ..files import check_can_be_written, check_new_folder, new_folder, write_lines
from ..models.distillation import NEW_LM_HEAD
from ..models.roberta_eps import EPS_ARCHITECTURE
from ..models.shapes import EMBEDDINGS, OUTPUT_EMBEDDINGS, max_positions, upgrade_names
from .files import build_checkpoint
from .resize import resize
from .roberta import from_roberta
from .transformers_encoder import FAIRSEQ_EPSILON, Encoder, read_encoder
from .transformers_vocabulary import Vocabulary, read_vocabulary

MODEL = "model.pt"
ARCHITECTURES = ("linformer_roberta", "roberta")
_VOCABULARY_ENTRIES = (EMBEDDINGS, OUTPUT_EMBEDDINGS, "encoder.lm_head.bias")


def from_transformers(name: str, out, *, arch: str = ARCHITECTURES[0], **options: Any) -> dict[str, Any]:
    """Convert BERT, DistilBERT, RoBERTa, XLM-R or CamemBERT to a fairseq checkpoint.

    Writes ``model.pt``, ``dict.txt`` and the tokenizer to ``out``. Features of ``arch="roberta"`` are those of
    ``transformers``; if the layer norms have an epsilon other than fairseq's 1e-5, the architecture is ``roberta_eps``.

    Args:
        name: folder with ``config.json`` and safetensors, or name of a model on the hub.
        out: folder to write, new or empty.
        arch: ``roberta`` or ``linformer_roberta``.
        options: ``max_positions``; for a Linformer, also the options of ``from_roberta``, with k = n / 4 by default.

    Returns:
        The checkpoint that was written.

    Raises:
        ValueError: the model or an option is not supported. Nothing is written.
        OSError: ``out`` cannot be written.
    """
    check_can_be_written(out)
    check_new_folder(out)
    options = {key: value for key, value in options.items() if value is not None}
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {arch!r}; choose from {', '.join(ARCHITECTURES)}")
    if arch == "roberta" and (unused := [key for key in options if key != "max_positions"]):
        raise ValueError(f"{unused[0]} must be unset with --arch roberta, got {options[unused[0]]}")
    checkpoint, vocabulary = read_transformers(name)
    if arch == "linformer_roberta":
        checkpoint = to_linformer(checkpoint, **options)
    elif options:
        checkpoint = resize(checkpoint, options["max_positions"])
    with new_folder(out) as folder:
        write_model(folder, checkpoint, vocabulary)
    return checkpoint


def read_transformers(name: str) -> tuple[dict[str, Any], Vocabulary]:
    """Read an encoder as a checkpoint of ``roberta`` or ``roberta_eps``, and its vocabulary; ValueError as
    ``read_encoder`` and ``read_vocabulary``."""
    encoder = read_encoder(name)
    vocabulary = read_vocabulary(name, encoder.state[EMBEDDINGS].size(0))
    return _to_roberta(encoder, vocabulary), vocabulary


def to_linformer(checkpoint: dict[str, Any], **options: Any) -> dict[str, Any]:
    """``from_roberta`` with k = n / 4 by default."""
    options = {name: value for name, value in options.items() if value is not None}
    n = options.get("max_positions") or max_positions(upgrade_names(checkpoint["model"]))
    return from_roberta(checkpoint, **{"projected_dim": max(1, n // 4), **options})


def write_model(folder: Path, checkpoint: dict[str, Any], vocabulary: Vocabulary) -> None:
    """Write ``model.pt``, ``dict.txt`` and the tokenizer to a folder."""
    torch.save(checkpoint, folder / MODEL)
    write_lines(folder / DICTIONARY, [f"{entry} 1" for entry in vocabulary.entries])
    for file, content in vocabulary.files.items():
        (folder / file).write_bytes(content)


def _to_roberta(encoder: Encoder, vocabulary: Vocabulary) -> dict[str, Any]:
    """A checkpoint of ``roberta`` or ``roberta_eps``, as after masked language modeling."""
    state, options = dict(encoder.state), dict(encoder.options)
    for key in _VOCABULARY_ENTRIES:
        state[key] = state[key][vocabulary.order]
    if not options["untie_weights_roberta"]:
        state[OUTPUT_EMBEDDINGS] = state[EMBEDDINGS]
    is_stock = options["layer_norm_eps"] == FAIRSEQ_EPSILON
    if is_stock:
        del options["layer_norm_eps"]
    arch = "roberta" if is_stock else EPS_ARCHITECTURE
    cfg = {
        "model": Namespace(_name=arch, arch=arch, **options),
        "task": {
            "_name": "masked_lm",
            "data": "",
            "tokens_per_sample": options["max_positions"],
            "sample_break_mode": "none",
            "mask_prob": 0.15,
            "leave_unmasked_prob": 0.1,
            "random_token_prob": 0.1,
            "seed": 1,
        },
        "criterion": {"_name": "masked_lm", "tpu": False},
    }
    provenance = {
        "fairseq": fairseq.__version__,
        "fairseq_linformer": __version__,
        "imported": {**encoder.source, "lm_head": "imported" if encoder.has_lm_head else NEW_LM_HEAD},
    }
    return build_checkpoint(cfg, state, provenance=provenance)
